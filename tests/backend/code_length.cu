// The kernels of test_code_length.py as CUDA C++, one function for each, with what the language of kernels promises:
// negative indices count from the end. nvcc gets the best grid for each: of as many dimensions as the kernel has. Where
// our threads take several places of the grid, so do these (STREAM).
struct Vec3 {
    float x, y, z;
};

#define KERNEL extern "C" __global__ void
#define IN const float* __restrict__
#define OUT float* __restrict__
#define THREAD                                     \
    int i = blockIdx.x * blockDim.x + threadIdx.x; \
    if (i >= n) return;
#define THREAD_2D                                  \
    int j = blockIdx.x * blockDim.x + threadIdx.x; \
    int i = blockIdx.y * blockDim.y + threadIdx.y; \
    if (i >= rows || j >= columns) return;

#define STREAM(PLACES, WHOLE, ONE)                          \
    int i = PLACES * (blockIdx.x * blockDim.x + threadIdx.x); \
    if (i >= n) return;                                       \
    if (n - i >= PLACES) {                                    \
        WHOLE                                                 \
        return;                                               \
    }                                                         \
    _Pragma("unroll 1") for (; i < n; i++) { ONE }

template <class Four, class T>
__device__ Four get(const T* p, int i) {
    return *reinterpret_cast<const Four*>(p + i);
}
template <class Four, class T>
__device__ void put(T* p, int i, Four x) {
    *reinterpret_cast<Four*>(p + i) = x;
}

__device__ int at(int i, int n) { return i < 0 ? i + n : i; }

KERNEL fill(OUT y, float v, int n) { STREAM(4, put(y, i, make_float4(v, v, v, v));, y[i] = v;) }

KERNEL saxpy(float a, IN x, OUT y, int n) {
    STREAM(4, float4 p = get<float4>(x, i); float4 q = get<float4>(y, i);
           put(y, i, make_float4(a * p.x + q.x, a * p.y + q.y, a * p.z + q.z, a * p.w + q.w));
           , y[i] = a * x[i] + y[i];)
}

KERNEL saxpy64(double a, const double* __restrict__ x, double* __restrict__ y, int n) {
    STREAM(2, double2 p = get<double2>(x, i); double2 q = get<double2>(y, i);
           put(y, i, make_double2(a * p.x + q.x, a * p.y + q.y));, y[i] = a * x[i] + y[i];)
}

KERNEL copy4(const float4* __restrict__ x, float4* __restrict__ y, int n) { THREAD y[i] = x[i]; }

KERNEL scale4(const float4* __restrict__ x, float4* __restrict__ y, float s, int n) {
    THREAD float4 v = x[i];
    y[i] = make_float4(v.x * s, v.y * s, v.z * s, v.w * s);
}

__device__ float limited(float x, float lo, float hi) { return fminf(fmaxf(x, lo), hi); }

KERNEL limit(IN x, OUT y, float lo, float hi, int n) {
    STREAM(4, float4 p = get<float4>(x, i);
           put(y, i,
               make_float4(limited(p.x, lo, hi), limited(p.y, lo, hi), limited(p.z, lo, hi), limited(p.w, lo, hi)));
           , y[i] = limited(x[i], lo, hi);)
}

KERNEL divide(IN x, IN z, OUT y, int n) { THREAD y[i] = x[i] / z[i]; }

KERNEL inverse_root(IN x, OUT y, int n) { THREAD y[i] = 1.0f / sqrtf(x[i]); }

KERNEL bell(IN x, OUT y, int n) { THREAD y[i] = expf(-x[i] * x[i]) * 0.5f; }

__device__ int cell(float x) { return (int)floorf(x * 10.0f); }

KERNEL cells(IN x, int* __restrict__ y, int n) {
    STREAM(4, float4 p = get<float4>(x, i); put(y, i, make_int4(cell(p.x), cell(p.y), cell(p.z), cell(p.w)));
           , y[i] = cell(x[i]);)
}

__device__ unsigned shifted(unsigned x) {
    x ^= x << 13;
    x ^= x >> 17;
    return x ^ x << 5;
}

KERNEL xorshift(unsigned* __restrict__ s, int n) {
    STREAM(4, uint4 x = get<uint4>(s, i); put(s, i, make_uint4(shifted(x.x), shifted(x.y), shifted(x.z), shifted(x.w)));
           , s[i] = shifted(s[i]);)
}

KERNEL gather(const int* __restrict__ index, IN x, OUT y, int n, int m) { THREAD y[i] = x[at(index[i], m)]; }

KERNEL scatter(const int* __restrict__ index, IN x, OUT y, int n, int m) { THREAD atomicAdd(&y[at(index[i], m)], x[i]); }

KERNEL histogram(const int* __restrict__ x, int* __restrict__ h, int n, int m) { THREAD atomicAdd(&h[at(x[i], m)], 1); }

KERNEL integrate(Vec3* __restrict__ x, Vec3* __restrict__ v, const Vec3* __restrict__ f, IN m, float dt, int n) {
    THREAD Vec3 p = x[i], w = v[i], g = f[i];
    float s = dt / m[i];
    w = Vec3{w.x + g.x * s, w.y + g.y * s, w.z + g.z * s};
    v[i] = w;
    x[i] = Vec3{p.x + w.x * dt, p.y + w.y * dt, p.z + w.z * dt};
}

KERNEL unit(const Vec3* __restrict__ x, Vec3* __restrict__ y, int n) {
    THREAD Vec3 v = x[i];
    float l = sqrtf(v.x * v.x + v.y * v.y + v.z * v.z);
    y[i] = l > 0.0f ? Vec3{v.x / l, v.y / l, v.z / l} : Vec3{0.0f, 0.0f, 0.0f};
}

KERNEL rotate(const float4* __restrict__ q, const Vec3* __restrict__ v, Vec3* __restrict__ out, int n) {
    THREAD float4 a = q[i];
    Vec3 b = v[i];
    float tx = 2 * (a.y * b.z - a.z * b.y), ty = 2 * (a.z * b.x - a.x * b.z), tz = 2 * (a.x * b.y - a.y * b.x);
    out[i] = Vec3{b.x + a.w * tx + a.y * tz - a.z * ty, b.y + a.w * ty + a.z * tx - a.x * tz,
                  b.z + a.w * tz + a.x * ty - a.y * tx};
}

KERNEL jacobi(IN a, OUT b, int rows, int columns, int a_rows, int a_columns, int b_columns) {
    THREAD_2D if (i > 0 && j > 0 && i < a_rows - 1 && j < a_columns - 1) {
        IN p = a + i * a_columns + j;
        b[i * b_columns + j] = 0.25f * (p[-a_columns] + p[a_columns] + p[-1] + p[1]);
    }
}

KERNEL diffuse(IN a, OUT b, float c, int nx, int ny, int nz, int ax, int ay, int az, int by, int bz) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    int i = blockIdx.z * blockDim.z + threadIdx.z;
    if (i >= nx || j >= ny || k >= nz) return;
    if (i > 0 && j > 0 && k > 0 && i < ax - 1 && j < ay - 1 && k < az - 1) {
        IN p = a + (i * ay + j) * az + k;
        float sum = p[-1] + p[1] + p[-az] + p[az] + p[-ay * az] + p[ay * az];
        b[(i * by + j) * bz + k] = p[0] + c * (sum - 6.0f * p[0]);
    }
}

KERNEL product(IN a, IN b, OUT c, int rows, int columns, int inner, int b_columns, int c_columns) {
    THREAD_2D float s = 0.0f;
    for (int k = 0; k < inner; k++) s += a[i * inner + k] * b[k * b_columns + j];
    c[i * c_columns + j] = s;
}

KERNEL sparse_product(const int* __restrict__ offsets, const int* __restrict__ columns, IN values, IN x, OUT y, int n,
                      int nnz, int m) {
    THREAD float s = 0.0f;
    for (int k = offsets[i]; k < offsets[i + 1]; k++) s += values[at(k, nnz)] * x[at(columns[at(k, nnz)], m)];
    y[i] = s;
}

KERNEL gravity(const float4* __restrict__ p, Vec3* __restrict__ out, float eps, int n, int bodies) {
    THREAD float4 q = p[i];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int j = 0; j < bodies; j++) {
        float4 r = p[j];
        float dx = r.x - q.x, dy = r.y - q.y, dz = r.z - q.z;
        float inverse = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + eps);
        float s = r.w * inverse * inverse * inverse;
        ax += dx * s;
        ay += dy * s;
        az += dz * s;
    }
    out[i] = Vec3{ax, ay, az};
}

KERNEL mandelbrot(int* __restrict__ out, int iterations, int rows, int columns, int out_columns) {
    THREAD_2D float cx = j * 0.001f - 2.0f, cy = i * 0.001f - 1.0f, x = 0.0f, y = 0.0f;
    int count = 0;
    for (int k = 0; k < iterations; k++) {
        if (x * x + y * y > 4.0f) break;
        float t = x * x - y * y + cx;
        y = 2.0f * x * y + cy;
        x = t;
        count++;
    }
    out[i * out_columns + j] = count;
}

KERNEL least(const int* __restrict__ cell, IN x, float* m, int n, int cells) {
    THREAD float v = x[i];
    m += at(cell[i], cells);
    // As floats are ordered like integers, from 0 on upwards and below it downwards.
    if (v >= 0.0f)
        atomicMin((int*)m, __float_as_int(v));
    else
        atomicMax((unsigned*)m, __float_as_uint(v));
}

// What the compiler's adjoints do: the adjoint of an element that is written is taken, then sent on.
KERNEL jacobi_adjoint(OUT adj_a, OUT adj_b, int rows, int columns, int a_rows, int a_columns, int b_columns) {
    THREAD_2D if (i > 0 && j > 0 && i < a_rows - 1 && j < a_columns - 1) {
        float* from = adj_b + i * b_columns + j;
        float g = 0.25f * *from;
        *from = 0.0f;
        float* p = adj_a + i * a_columns + j;
        atomicAdd(p + 1, g);
        atomicAdd(p - 1, g);
        atomicAdd(p + a_columns, g);
        atomicAdd(p - a_columns, g);
    }
}

// The threads of a warp share a row of `a`, unless the warp lies in two: their sum is added at once.
__device__ void add_of_warp(float* p, float x) {
    int same = 0;
    if (__activemask() == 0xffffffff) __match_all_sync(0xffffffff, (unsigned long long)p, &same);
    if (!same) {
        atomicAdd(p, x);
        return;
    }
    for (int d = 16; d; d /= 2) x += __shfl_xor_sync(0xffffffff, x, d);
    if (threadIdx.x % 32 == 0) atomicAdd(p, x);
}

KERNEL product_adjoint(IN a, IN b, OUT adj_a, OUT adj_b, OUT adj_c, int rows, int columns, int inner, int b_columns,
                       int c_columns) {
    THREAD_2D float* from = adj_c + i * c_columns + j;
    float g = *from;
    *from = 0.0f;
    for (int k = inner - 1; k >= 0; k--) {
        float x = a[i * inner + k], y = b[k * b_columns + j];
        atomicAdd(adj_b + k * b_columns + j, x * g);
        add_of_warp(adj_a + i * inner + k, y * g);
    }
}
