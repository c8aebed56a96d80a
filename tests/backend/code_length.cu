// The kernels of test_code_length.py as CUDA C++, one function for each, with what the language of kernels promises:
// negative indices count from the end. nvcc gets the best grid for each: of as many dimensions as the kernel has.
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

__device__ int at(int i, int n) { return i < 0 ? i + n : i; }

KERNEL fill(OUT y, float v, int n) { THREAD y[i] = v; }

KERNEL saxpy(float a, IN x, OUT y, int n) { THREAD y[i] = a * x[i] + y[i]; }

KERNEL saxpy64(double a, const double* __restrict__ x, double* __restrict__ y, int n) { THREAD y[i] = a * x[i] + y[i]; }

KERNEL copy4(const float4* __restrict__ x, float4* __restrict__ y, int n) { THREAD y[i] = x[i]; }

KERNEL scale4(const float4* __restrict__ x, float4* __restrict__ y, float s, int n) {
    THREAD float4 v = x[i];
    y[i] = make_float4(v.x * s, v.y * s, v.z * s, v.w * s);
}

KERNEL limit(IN x, OUT y, float lo, float hi, int n) { THREAD y[i] = fminf(fmaxf(x[i], lo), hi); }

KERNEL divide(IN x, IN z, OUT y, int n) { THREAD y[i] = x[i] / z[i]; }

KERNEL inverse_root(IN x, OUT y, int n) { THREAD y[i] = 1.0f / sqrtf(x[i]); }

KERNEL bell(IN x, OUT y, int n) { THREAD y[i] = expf(-x[i] * x[i]) * 0.5f; }

KERNEL cells(IN x, int* __restrict__ y, int n) { THREAD y[i] = (int)floorf(x[i] * 10.0f); }

KERNEL xorshift(unsigned* __restrict__ s, int n) {
    THREAD unsigned x = s[i];
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    s[i] = x;
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
