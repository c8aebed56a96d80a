"""The kernels of ``benchmark_cuda.py``: for both Warps, and two of them in CUDA C++."""

SOFTENING = 1.0e-3
BLOCK = 256


def make_kernels(wp):
    """Return the kernels by name, which warp_like and warp-lang compile from this same text."""

    @wp.kernel
    def saxpy(x: wp.array(dtype=wp.vec4), y: wp.array(dtype=wp.vec4), out: wp.array(dtype=wp.vec4), a: float):
        i = wp.tid()
        out[i] = a * x[i] + y[i]

    @wp.kernel
    def copy(x: wp.array(dtype=wp.vec4), out: wp.array(dtype=wp.vec4)):
        i = wp.tid()
        out[i] = x[i]

    @wp.kernel
    def nbody(p: wp.array(dtype=wp.vec4), out: wp.array(dtype=wp.vec4), n: int):
        i = wp.tid()
        mine = p[i]
        total = wp.vec3(0.0, 0.0, 0.0)
        for j in range(n):
            other = p[j]
            d = wp.vec3(other[0] - mine[0], other[1] - mine[1], other[2] - mine[2])
            r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + SOFTENING
            inverse = 1.0 / wp.sqrt(r2)
            total = total + d * (other[3] * inverse * inverse * inverse)
        out[i] = wp.vec4(total[0], total[1], total[2], 0.0)

    @wp.kernel
    def stencil(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
        i, j = wp.tid()
        i = i + 1
        j = j + 1
        out[i, j] = 0.2 * (x[i, j] + x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])

    @wp.kernel
    def total(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        wp.atomic_add(out, 0, x[i])

    @wp.kernel
    def histogram(bins: wp.array(dtype=int), out: wp.array(dtype=int)):
        i = wp.tid()
        wp.atomic_add(out, bins[i], 1)

    @wp.kernel
    def matmul(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), out: wp.array2d(dtype=float), n: int):
        i, j = wp.tid()
        acc = float(0.0)  # noqa: UP018 (a variable for warp-lang, not a constant)
        for k in range(n):
            acc += a[i, k] * b[k, j]
        out[i, j] = acc

    names = ("saxpy", "copy", "nbody", "stencil", "total", "histogram", "matmul")
    return dict(zip(names, (saxpy, copy, nbody, stencil, total, histogram, matmul), strict=True))


CPP = """
extern "C" __global__ void saxpy(const float4* __restrict__ x, const float4* __restrict__ y, float4* __restrict__ out,
                                 float a, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float4 p = x[i], q = y[i];
    out[i] = make_float4(a * p.x + q.x, a * p.y + q.y, a * p.z + q.z, a * p.w + q.w);
}
extern "C" __global__ void nbody(const float4* __restrict__ p, float4* __restrict__ out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float4 mine = p[i];
    float x = 0.0f, y = 0.0f, z = 0.0f;
    for (int j = 0; j < n; ++j) {
        const float4 other = p[j];
        const float dx = other.x - mine.x, dy = other.y - mine.y, dz = other.z - mine.z;
        const float inverse = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + 1.0e-3f);
        const float f = other.w * inverse * inverse * inverse;
        x += dx * f; y += dy * f; z += dz * f;
    }
    out[i] = make_float4(x, y, z, 0.0f);
}
"""
FAST_CPP = CPP.replace("1.0f / sqrtf(", "rsqrtf(")
