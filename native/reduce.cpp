// Sums and inner products over arrays of any layout.
//
// Floats are added up in float64 and integers in 64 bits, whatever the element type. An array is cut into tasks, each a
// block of results times a range of what is added up; a task keeps its partial sums, which are combined in order.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "algorithms.h"
#include "parallel.h"

namespace wl {

namespace {

constexpr int64_t kBlock = 256;        // results of a task
constexpr int64_t kTaskItems = 65536;  // additions of a task
constexpr int64_t kLanes = 64;         // partial sums where the results are few

// Integers wrap, as they do in NumPy.
inline double plus(double a, double b) { return a + b; }
inline double times(double a, double b) { return a * b; }
inline int64_t plus(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t times(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// One dimension: its extent, and the strides of the first operand, the second and the result.
struct Dim {
    int64_t n, a, b, out;
};

struct Layout {
    std::vector<Dim> kept, reduced;  // the innermost ones last, each list with at least one
    int64_t results = 1, items = 1;
};

void append(std::vector<Dim>* dims, Dim dim) {
    if (dim.n == 1) return;
    if (!dims->empty()) {
        Dim& outer = dims->back();
        if (outer.a == dim.n * dim.a && outer.b == dim.n * dim.b && outer.out == dim.n * dim.out) {
            outer = {outer.n * dim.n, dim.a, dim.b, dim.out};
            return;
        }
    }
    dims->push_back(dim);
}

// The columns that are added up side by side: `n` of them, at strides `a` and `b`.
struct Columns {
    int64_t n, a, b;
};

template <typename T, bool kProduct>
inline Total<T> term(const char* a, const char* b) {
    const Total<T> x = number(load_at<T>(a));
    return kProduct ? times(x, number(load_at<T>(b))) : x;
}

// The commonest loops, with wider vectors on processors that have them.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define WL_WIDE_VECTORS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define WL_AVX512 __attribute__((target("avx512f")))
#else
#define WL_WIDE_VECTORS
#endif

WL_WIDE_VECTORS void add_floats(double* __restrict acc, const float* a, int64_t n) {
    for (int64_t i = 0; i < n; ++i) acc[i] += static_cast<double>(a[i]);
}
WL_WIDE_VECTORS void add_float_products(double* __restrict acc, const float* a, const float* b, int64_t n) {
    for (int64_t i = 0; i < n; ++i) acc[i] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
}
WL_WIDE_VECTORS void add_doubles(double* __restrict acc, const double* a, int64_t n) {
    for (int64_t i = 0; i < n; ++i) acc[i] += a[i];
}
WL_WIDE_VECTORS void add_double_products(double* __restrict acc, const double* a, const double* b, int64_t n) {
    for (int64_t i = 0; i < n; ++i) acc[i] += a[i] * b[i];
}

// Four rows of `n` numbers, `stride` bytes apart, added to as many sums: these are loaded and stored a quarter as
// often.
template <typename T>
[[gnu::always_inline]] inline void four_rows(double* __restrict acc, const char* at, int64_t stride, int64_t n) {
    const T *a = reinterpret_cast<const T*>(at), *b = reinterpret_cast<const T*>(at + stride);
    const T *c = reinterpret_cast<const T*>(at + 2 * stride), *d = reinterpret_cast<const T*>(at + 3 * stride);
    for (int64_t i = 0; i < n; ++i) {
        acc[i] += (static_cast<double>(a[i]) + static_cast<double>(b[i])) +
                  (static_cast<double>(c[i]) + static_cast<double>(d[i]));
    }
}
WL_WIDE_VECTORS void add_four_of_floats(double* __restrict acc, const char* at, int64_t stride, int64_t n) {
    four_rows<float>(acc, at, stride, n);
}
WL_WIDE_VECTORS void add_four_of_doubles(double* __restrict acc, const char* at, int64_t stride, int64_t n) {
    four_rows<double>(acc, at, stride, n);
}

// Rows of `kLanes` numbers, one behind the other, added to as many sums, which stay in registers meanwhile.
#if defined(__GNUC__)
#define WL_FOLDS 1
typedef float Floats __attribute__((vector_size(32)));
typedef double Doubles __attribute__((vector_size(64)));

template <typename T, bool kProduct>
[[gnu::always_inline]] inline void fold_rows(double* acc, const T* a, const T* b, int64_t rows) {
    constexpr int kWidth = 8, kSums = kLanes / kWidth;
    using Packed = std::conditional_t<std::is_same_v<T, float>, Floats, Doubles>;
    Doubles sums[kSums];
    std::memcpy(sums, acc, sizeof sums);
    for (int64_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
        for (int k = 0; k < kSums; ++k) {
            Packed x, y;
            std::memcpy(&x, a + r * kLanes + k * kWidth, sizeof x);
            std::memcpy(&y, b + r * kLanes + k * kWidth, sizeof y);
            const Doubles wide = __builtin_convertvector(x, Doubles);
            sums[k] += kProduct ? wide * __builtin_convertvector(y, Doubles) : wide;
        }
    }
    std::memcpy(acc, sums, sizeof sums);
}
#ifdef WL_AVX512
// The conversions are what takes time, and compilers prefer those of half a register. Squares need half as many.
enum class Fold { Sum, Product, Square };

template <Fold kFold>
WL_AVX512 void fold_floats_512(double* acc, const float* a, const float* b, int64_t rows) {
    constexpr int kSums = kLanes / 8;
    __m512d sums[kSums];
#pragma GCC unroll 8
    for (int k = 0; k < kSums; ++k) sums[k] = _mm512_loadu_pd(acc + 8 * k);
    for (int64_t r = 0; r < rows; ++r, a += kLanes, b += kLanes) {
#pragma GCC unroll 8
        for (int k = 0; k < kSums; ++k) {
            const __m512d x = _mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(a + 8 * k));
            const __m512d y = kFold == Fold::Product ? _mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(b + 8 * k)) : x;
            sums[k] = kFold == Fold::Sum ? _mm512_add_pd(sums[k], x) : _mm512_fmadd_pd(x, y, sums[k]);
        }
    }
#pragma GCC unroll 8
    for (int k = 0; k < kSums; ++k) _mm512_storeu_pd(acc + 8 * k, sums[k]);
}
const bool kHasAvx512 = __builtin_cpu_supports("avx512f") != 0;
#endif
WL_WIDE_VECTORS void fold_floats(double* acc, const float* a, int64_t n) { fold_rows<float, false>(acc, a, a, n); }
WL_WIDE_VECTORS void fold_doubles(double* acc, const double* a, int64_t n) { fold_rows<double, false>(acc, a, a, n); }
WL_WIDE_VECTORS void fold_float_products(double* acc, const float* a, const float* b, int64_t n) {
    fold_rows<float, true>(acc, a, b, n);
}
WL_WIDE_VECTORS void fold_double_products(double* acc, const double* a, const double* b, int64_t n) {
    fold_rows<double, true>(acc, a, b, n);
}
#endif

#ifdef WL_FOLDS
// The sum of a short row: `Sums` below takes longer to set up than this to run.
template <typename T>
[[gnu::always_inline]] inline double row_of(const T* a, int64_t n) {
    using Packed = std::conditional_t<std::is_same_v<T, float>, Floats, Doubles>;
    Doubles sums[4] = {};
    auto add = [&](int64_t i, int k) __attribute__((always_inline)) {
        Packed x;
        std::memcpy(&x, a + i, sizeof x);
        sums[k] += __builtin_convertvector(x, Doubles);
    };
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) add(i + 8 * k, k);
    }
    for (; i + 8 <= n; i += 8) add(i, 0);
    double rest = 0.0;
    for (; i < n; ++i) rest += static_cast<double>(a[i]);
    const Doubles s = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    return (((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))) + rest;
}
WL_WIDE_VECTORS double row_of_floats(const float* a, int64_t n) { return row_of(a, n); }
WL_WIDE_VECTORS double row_of_doubles(const double* a, int64_t n) { return row_of(a, n); }
constexpr int64_t kShortRow = 2048;
#endif

// Sums a short row of neighbours, where there is a loop for it.
template <typename T>
inline bool add_short_row(const char* a, int64_t n, Total<T>* out) {
#ifdef WL_FOLDS
    if constexpr (std::is_same_v<T, float>) {
        if (n <= kShortRow) *out = row_of_floats(reinterpret_cast<const float*>(a), n);
        return n <= kShortRow;
    } else if constexpr (std::is_same_v<T, double>) {
        if (n <= kShortRow) *out = row_of_doubles(reinterpret_cast<const double*>(a), n);
        return n <= kShortRow;
    }
#endif
    return false;
}

// Adds rows of `kLanes` neighbours to as many sums, where there is a loop for it.
template <typename T, bool kProduct>
inline bool add_folded(Total<T>* acc, const char* a, const char* b, int64_t rows) {
#ifdef WL_FOLDS
    const T *x = reinterpret_cast<const T*>(a), *y = reinterpret_cast<const T*>(b);
#ifdef WL_AVX512
    if constexpr (std::is_same_v<T, float>) {
        if (kHasAvx512) {
            if (!kProduct)
                fold_floats_512<Fold::Sum>(acc, x, x, rows);
            else if (x == y)
                fold_floats_512<Fold::Square>(acc, x, x, rows);
            else
                fold_floats_512<Fold::Product>(acc, x, y, rows);
            return true;
        }
    }
#endif
    if constexpr (std::is_same_v<T, float>) {
        kProduct ? fold_float_products(acc, x, y, rows) : fold_floats(acc, x, rows);
        return true;
    } else if constexpr (std::is_same_v<T, double>) {
        kProduct ? fold_double_products(acc, x, y, rows) : fold_doubles(acc, x, rows);
        return true;
    }
#endif
    return false;
}

// Adds `n` neighbours to as many sums.
template <typename T, bool kProduct>
inline void add_packed(Total<T>* __restrict acc, const char* a, const char* b, int64_t n) {
    const T *x = reinterpret_cast<const T*>(a), *y = reinterpret_cast<const T*>(b);
    if constexpr (std::is_same_v<T, float>) {
        kProduct ? add_float_products(acc, x, y, n) : add_floats(acc, x, n);
    } else if constexpr (std::is_same_v<T, double>) {
        kProduct ? add_double_products(acc, x, y, n) : add_doubles(acc, x, n);
    } else {
        constexpr int64_t size = sizeof(T);
        for (int64_t c = 0; c < n; ++c) acc[c] = plus(acc[c], term<T, kProduct>(a + c * size, b + c * size));
    }
}

template <typename T, bool kProduct>
void add_rows(Total<T>* __restrict acc, const char* a, const char* b, const Dim& rows, int64_t count,
              const Columns& columns) {
    constexpr int64_t size = sizeof(T);
    const bool packed = columns.a == size && (!kProduct || columns.b == size);
    if constexpr (!kProduct && std::is_floating_point_v<T>) {
        for (; packed && columns.n >= 8 && count >= 4; count -= 4, a += 4 * rows.a) {
            if constexpr (std::is_same_v<T, float>) {
                add_four_of_floats(acc, a, rows.a, columns.n);
            } else {
                add_four_of_doubles(acc, a, rows.a, columns.n);
            }
        }
    }
    for (int64_t r = 0; r < count; ++r, a += rows.a, b += rows.b) {
        if (packed && columns.n >= 8) {
            add_packed<T, kProduct>(acc, a, b, columns.n);
        } else {
            for (int64_t c = 0; c < columns.n; ++c) {
                acc[c] = plus(acc[c], term<T, kProduct>(a + c * columns.a, b + c * columns.b));
            }
        }
    }
}

template <typename T>
class Sums {
  public:
    explicit Sums(int64_t columns) : columns_(columns) { std::fill(acc_, acc_ + columns, Total<T>{}); }

    // Adds `count` rows. Rows that lie side by side are added as one long row each few, in independent lanes.
    template <bool kProduct>
    void add(const char* a, const char* b, const Dim& rows, int64_t count, const Columns& columns) {
        constexpr int64_t size = sizeof(T);
        const int64_t width = columns.n * size;
        const bool dense =
            columns.a == size && rows.a == width && (!kProduct || (columns.b == size && rows.b == width));
        const int64_t fold = dense && columns.n < kLanes ? kLanes / columns.n : 1;
        if (fold > 1 && count >= fold) {
            if (!folded_) std::fill(lanes_, lanes_ + kLanes, Total<T>{});
            folded_ = true;
            const Dim long_rows{0, rows.a * fold, rows.b * fold, 0};
            const Columns lanes{columns.n * fold, size, size};
            const int64_t whole = count / fold;
            if (lanes.n != kLanes || !add_folded<T, kProduct>(lanes_, a, b, whole)) {
                add_rows<T, kProduct>(lanes_, a, b, long_rows, whole, lanes);
            }
            const Columns rest{(count - whole * fold) * columns.n, size, size};
            add_rows<T, kProduct>(lanes_, a + whole * long_rows.a, b + whole * long_rows.b, long_rows, 1, rest);
            return;
        }
        add_rows<T, kProduct>(acc_, a, b, rows, count, columns);
    }

    void finish(Total<T>* out) {
        if (folded_) {
            for (int64_t fold = kLanes / columns_, half = fold / 2; fold > 1; fold -= half, half = fold / 2) {
                const Total<T>* upper = lanes_ + (fold - half) * columns_;
                for (int64_t i = 0; i < half * columns_; ++i) lanes_[i] = plus(lanes_[i], upper[i]);
            }
            for (int64_t i = 0; i < columns_; ++i) acc_[i] = plus(acc_[i], lanes_[i]);
        }
        std::copy(acc_, acc_ + columns_, out);
    }

  private:
    int64_t columns_;
    bool folded_ = false;
    Total<T> acc_[kBlock];
    Total<T> lanes_[kLanes];  // used once `folded_`
};

struct Reduction {
    Layout layout;
    const char *a, *b;
    int64_t block, blocks_inner, blocks, range, ranges;
};

// The offsets of the linear index `at` in all dimensions but the innermost, whose index is returned.
int64_t locate(const std::vector<Dim>& dims, int64_t at, Dim* offset) {
    const int64_t inner = at % dims.back().n;
    at /= dims.back().n;
    for (size_t k = dims.size() - 1; k-- > 0;) {
        const int64_t i = at % dims[k].n;
        at /= dims[k].n;
        offset->a += i * dims[k].a;
        offset->b += i * dims[k].b;
        offset->out += i * dims[k].out;
    }
    return inner;
}

template <typename T, bool kProduct>
void run_task(const Reduction& r, int64_t task, Total<T>* out) {
    const std::vector<Dim>&kept = r.layout.kept, &reduced = r.layout.reduced;
    const int64_t range = task % r.ranges, block = task / r.ranges;
    Dim base{};
    const int64_t first = block % r.blocks_inner * r.block;
    locate(kept, block / r.blocks_inner * kept.back().n, &base);
    const Dim& across = kept.back();
    Columns columns{std::min(r.block, across.n - first), across.a, across.b};
    if (columns.n == 1) columns.a = columns.b = sizeof(T);
    if (!kProduct && columns.n == 1 && r.ranges == 1 && reduced.size() == 1 && reduced[0].a == sizeof(T) &&
        add_short_row<T>(r.a + base.a + first * across.a, r.layout.items, out)) {
        return;
    }
    Sums<T> sums(columns.n);
    const int64_t end = std::min(r.layout.items, (range + 1) * r.range);
    for (int64_t at = range * r.range; at < end;) {
        Dim offset = base;
        const int64_t inner = locate(reduced, at, &offset);
        const int64_t count = std::min(end - at, reduced.back().n - inner);
        const Dim& rows = reduced.back();
        const char* a = r.a + offset.a + first * across.a + inner * rows.a;
        const char* b = kProduct ? r.b + offset.b + first * across.b + inner * rows.b : a;
        sums.template add<kProduct>(a, b, rows, count, columns);
        at += count;
    }
    sums.finish(out);
}

template <typename T>
bool fits(int64_t value) {
    return value >= static_cast<int64_t>(std::numeric_limits<T>::min()) &&
           value <= static_cast<int64_t>(std::numeric_limits<T>::max());
}

template <typename T>
bool put(char* at, int64_t value) {
    store_at<T>(at, static_cast<T>(value));
    return fits<T>(value);
}

// False where an integer does not fit.
bool store_total(Scalar scalar, char* at, int64_t value) {
    switch (scalar) {
        case Scalar::Int8:
            return put<int8_t>(at, value);
        case Scalar::Uint8:
            return put<uint8_t>(at, value);
        case Scalar::Int16:
            return put<int16_t>(at, value);
        case Scalar::Uint16:
            return put<uint16_t>(at, value);
        case Scalar::Int32:
            return put<int32_t>(at, value);
        case Scalar::Uint32:
            return put<uint32_t>(at, value);
        default:
            store_at<int64_t>(at, value);
            return true;
    }
}
bool store_total(Scalar scalar, char* at, double value) {
    switch (scalar) {
        case Scalar::Float16:
            store_at<uint16_t>(at, to_float16(value));
            return true;
        case Scalar::Bfloat16:
            store_at<uint16_t>(at, to_bfloat16(value));
            return true;
        case Scalar::Float32:
            store_at<float>(at, static_cast<float>(value));
            return true;
        default:
            store_at<double>(at, value);
            return true;
    }
}

// Whether every result fits the result's type; sets an exception and returns false where there is no memory.
template <typename T, bool kProduct>
bool reduce(const Reduction& r, char* out, Scalar out_scalar, bool* fitted) {
    const int64_t tasks = r.blocks * r.ranges;
    std::unique_ptr<Total<T>[]> partial(new (std::nothrow) Total<T>[static_cast<size_t>(tasks * r.block)]);
    if (!partial) return PyErr_NoMemory() != nullptr;
    auto work = [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) run_task<T, kProduct>(r, t, &partial[static_cast<size_t>(t * r.block)]);
    };
    if (!parallel(tasks, work)) return false;
    const Dim& across = r.layout.kept.back();
    for (int64_t block = 0; block < r.blocks; ++block) {
        Dim base{};
        const int64_t first = block % r.blocks_inner * r.block;
        locate(r.layout.kept, block / r.blocks_inner * across.n, &base);
        for (int64_t c = 0; c < std::min(r.block, across.n - first); ++c) {
            Total<T> total{};
            for (int64_t k = 0; k < r.ranges; ++k) {
                total = plus(total, partial[static_cast<size_t>((block * r.ranges + k) * r.block + c)]);
            }
            *fitted &= store_total(out_scalar, out + base.out + (first + c) * across.out, total);
        }
    }
    return true;
}

template <bool kProduct>
bool reduce_scalars(Scalar scalar, const Reduction& r, char* out, Scalar out_scalar, bool* fitted) {
    switch (scalar) {
        case Scalar::Int8:
            return reduce<int8_t, kProduct>(r, out, out_scalar, fitted);
        case Scalar::Bool:
        case Scalar::Uint8:
            return reduce<uint8_t, kProduct>(r, out, out_scalar, fitted);
        case Scalar::Int16:
            return reduce<int16_t, kProduct>(r, out, out_scalar, fitted);
        case Scalar::Uint16:
            return reduce<uint16_t, kProduct>(r, out, out_scalar, fitted);
        case Scalar::Int32:
            return reduce<int32_t, kProduct>(r, out, out_scalar, fitted);
        case Scalar::Uint32:
            return reduce<uint32_t, kProduct>(r, out, out_scalar, fitted);
        case Scalar::Int64:
            return reduce<int64_t, kProduct>(r, out, out_scalar, fitted);
        case Scalar::Uint64:
            return reduce<uint64_t, kProduct>(r, out, out_scalar, fitted);
        case Scalar::Float16:
            return reduce<Half, kProduct>(r, out, out_scalar, fitted);
        case Scalar::Bfloat16:
            return reduce<BFloat, kProduct>(r, out, out_scalar, fitted);
        case Scalar::Float32:
            return reduce<float, kProduct>(r, out, out_scalar, fitted);
        case Scalar::Float64:
            return reduce<double, kProduct>(r, out, out_scalar, fitted);
    }
    return false;
}

// The dimensions of `a` and `b` (null for a sum), sorted into kept and reduced ones. A sum keeps components.
Layout layout_of(const Array* a, const Array* b, const Array* out, int axis, const Element& element) {
    Layout layout;
    for (int k = 0; k < a->ndim + element.components; ++k) {
        const bool component = k >= a->ndim;
        const bool is_kept = component ? b == nullptr : axis >= 0 && k != axis;
        const int64_t n = a->shape[k];
        const int64_t b_stride = b ? b->strides[k] : 0;
        int64_t out_stride = 0;
        if (is_kept) out_stride = component ? out->strides[out->ndim + k - a->ndim] : out->strides[k];
        append(is_kept ? &layout.kept : &layout.reduced, {n, a->strides[k], b_stride, out_stride});
        (is_kept ? layout.results : layout.items) *= n;
    }
    const int64_t size = element.scalar_size;
    if (layout.kept.empty()) layout.kept.push_back({1, size, size, 0});
    if (layout.reduced.empty()) layout.reduced.push_back({1, size, size, 0});
    return layout;
}

PyObject* array_reduce(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "reduce(a, b, out, axis)");
        return nullptr;
    }
    const bool product = args[1] != Py_None;
    PyObject* const given[] = {args[0], product ? args[1] : args[0], args[2]};
    const long axis = PyLong_AsLong(args[3]);
    if ((axis == -1 && PyErr_Occurred()) || !require_arrays(given, 3)) return nullptr;
    const Array *a = array_of(given[0]), *b = product ? array_of(given[1]) : nullptr, *out = array_of(given[2]);
    Element element{}, result{};
    if (!element_of(a, &element) || !element_of(out, &result)) return nullptr;
    Reduction r{layout_of(a, b, out, static_cast<int>(axis), element), a->data, b ? b->data : nullptr, 1, 1, 1, 1, 1};
    if (r.layout.results == 0) Py_RETURN_TRUE;
    if (r.layout.items == 0) r.layout.reduced.back().n = 1;  // nothing is read: every range is empty
    const Dim &across = r.layout.kept.back(), &along = r.layout.reduced.back();
    const bool by_columns = std::abs(across.a) <= std::abs(along.a) || along.n < kLanes;
    r.block = by_columns ? std::min(kBlock, across.n) : 1;
    r.blocks_inner = (across.n + r.block - 1) / r.block;
    r.blocks = r.layout.results / across.n * r.blocks_inner;
    r.range = std::max<int64_t>(1, kTaskItems / r.block);
    r.ranges = std::max<int64_t>(1, (r.layout.items + r.range - 1) / r.range);
    bool fitted = true;
    const bool done = product ? reduce_scalars<true>(element.scalar, r, out->data, result.scalar, &fitted)
                              : reduce_scalars<false>(element.scalar, r, out->data, result.scalar, &fitted);
    return done ? PyBool_FromLong(fitted) : nullptr;
}

PyMethodDef functions[] = {
    {"reduce", method(array_reduce), METH_FASTCALL,
     "reduce($module, a, b, out, axis, /)\n--\n\nSum `a`, or its products with `b`, over all dimensions (axis -1) or "
     "one, into `out`; returns whether all integers fit."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_reduce(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
