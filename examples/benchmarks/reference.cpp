// The benchmarks' kernels as a C++ programmer would write them first: plain loops over points, shared among the cores
// by OpenMP, left to the compiler to vectorise. `cpp_reference.py` compiles this when a benchmark runs.
#include <cmath>
#include <cstdint>

extern "C" {

void saxpy(int64_t n, const float* x, const float* y, float a, float* out) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; ++i) out[i] = a * x[i] + y[i];
}

void sine(int64_t n, const float* x, float* out) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; ++i) out[i] = std::sin(x[i]);
}

void jacobi(int64_t n, const float* u, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        const float* row = u + i * n;
        if (i == 0 || i == n - 1) {
            for (int64_t j = 0; j < n; ++j) out[i * n + j] = row[j];
            continue;
        }
        out[i * n] = row[0];
        for (int64_t j = 1; j < n - 1; ++j)
            out[i * n + j] = 0.25f * (row[j - n] + row[j + n] + row[j - 1] + row[j + 1]);
        out[i * n + n - 1] = row[n - 1];
    }
}

void nbody(int64_t n, const float* p, const float* m, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        float ax = 0, ay = 0, az = 0;
        for (int64_t j = 0; j < n; ++j) {
            const float dx = p[3 * j] - p[3 * i], dy = p[3 * j + 1] - p[3 * i + 1], dz = p[3 * j + 2] - p[3 * i + 2];
            const float r = std::sqrt(dx * dx + dy * dy + dz * dz + 1.0e-2f), w = m[j] / (r * r * r);
            ax += w * dx, ay += w * dy, az += w * dz;
        }
        out[3 * i] = ax, out[3 * i + 1] = ay, out[3 * i + 2] = az;
    }
}

void mandelbrot(int64_t n, int32_t* out) {
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
            const float cx = -2.0f + 2.5f * float(j) / float(n), cy = -1.25f + 2.5f * float(i) / float(n);
            float x = 0, y = 0;
            int32_t steps = 0;
            while (steps < 256 && x * x + y * y <= 4.0f) {
                const float t = x * x - y * y + cx;
                y = 2 * x * y + cy;
                x = t;
                ++steps;
            }
            out[i * n + j] = steps;
        }
}

void matmul(int64_t n, const float* a, const float* b, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
            float total = 0;
            for (int64_t k = 0; k < n; ++k) total += a[i * n + k] * b[k * n + j];
            out[i * n + j] = total;
        }
}

void network(int64_t n, int64_t width, const float* p, const float* hidden, const float* bias, const float* output,
             float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        float total = 0;
        for (int64_t h = 0; h < width; ++h) {
            const float* w = hidden + 3 * h;
            total += output[h] * std::tanh(w[0] * p[3 * i] + w[1] * p[3 * i + 1] + w[2] * p[3 * i + 2] + bias[h]);
        }
        out[i] = total;
    }
}

void march(int64_t n, float* out) {
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
            float dx = float(j) / float(n) - 0.5f, dy = float(i) / float(n) - 0.5f, dz = 1;
            const float scale = 1 / std::sqrt(dx * dx + dy * dy + dz * dz);
            dx *= scale, dy *= scale, dz *= scale;
            float t = 0;
            for (int step = 0; step < 64; ++step) {
                const float x = t * dx, y = t * dy, z = t * dz - 3;
                const float ux = x - 0.8f, uy = y - 0.6f, uz = z - 0.2f;
                const float first = std::sqrt(x * x + y * y + z * z) - 1;
                const float second = std::sqrt(ux * ux + uy * uy + uz * uz) - 0.5f;
                const float h = first < second ? first : second;
                if (h < 1.0e-3f || t > 10) break;
                t += h;
            }
            out[i * n + j] = t;
        }
}

void pendulum(int64_t n, int64_t steps, const float* start, float* out) {
    const float h = 0.01f;
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        float q = start[2 * i], v = start[2 * i + 1];
        for (int64_t s = 0; s < steps; ++s) {
            const float k1q = v, k1v = -std::sin(q);
            const float k2q = v + 0.5f * h * k1v, k2v = -std::sin(q + 0.5f * h * k1q);
            const float k3q = v + 0.5f * h * k2v, k3v = -std::sin(q + 0.5f * h * k2q);
            const float k4q = v + h * k3v, k4v = -std::sin(q + h * k3q);
            q += h / 6 * (k1q + 2 * k2q + 2 * k3q + k4q);
            v += h / 6 * (k1v + 2 * k2v + 2 * k3v + k4v);
        }
        out[2 * i] = q, out[2 * i + 1] = v;
    }
}

void sparse(int64_t n, const float* values, const int32_t* columns, const int32_t* first, const float* x, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        float total = 0;
        for (int32_t k = first[i]; k < first[i + 1]; ++k) total += values[k] * x[columns[k]];
        out[i] = total;
    }
}

void rotate(int64_t n, const float* q, const float* v, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        const float x = q[4 * i], y = q[4 * i + 1], z = q[4 * i + 2], w = q[4 * i + 3];
        const float a = v[3 * i], b = v[3 * i + 1], c = v[3 * i + 2];
        const float s = 2 * w * w - 1, d = 2 * (x * a + y * b + z * c);
        out[3 * i] = a * s + 2 * w * (y * c - z * b) + x * d;
        out[3 * i + 1] = b * s + 2 * w * (z * a - x * c) + y * d;
        out[3 * i + 2] = c * s + 2 * w * (x * b - y * a) + z * d;
    }
}

void newton(int64_t n, const double* x, double* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        double r = x[i];
        for (int step = 0; step < 50; ++step) r -= (r * r - x[i]) / (2 * r);
        out[i] = r;
    }
}

}  // extern "C"
