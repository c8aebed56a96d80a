#include "stack_bound.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "scalar.h"

namespace wl {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kExact = 9007199254740992.0;  // integers up to 2**53 are exact
constexpr double kRounding = 1e-6;             // what float32, and fast_math, may be off by

// The values that an expression may have, both ends included.
struct Interval {
    double low, high;
};

constexpr Interval kAnything{-kInfinity, kInfinity};

Interval hull(std::initializer_list<double> ends) { return {std::min(ends), std::max(ends)}; }

// What is too large to be exact may be anything beyond.
Interval exact(Interval x) {
    if (!(x.low >= -kExact)) x.low = -kInfinity;
    if (!(x.high <= kExact)) x.high = kInfinity;
    return x;
}

double product(double x, double y) { return x == 0 || y == 0 ? 0 : x * y; }

Interval multiply(Interval x, Interval y) {
    return hull({product(x.low, y.low), product(x.low, y.high), product(x.high, y.low), product(x.high, y.high)});
}

Interval divide(Interval x, Interval y) {
    if (y.low <= 0 && y.high >= 0) return kAnything;
    if (std::isinf(x.low) || std::isinf(x.high) || std::isinf(y.low) || std::isinf(y.high)) return kAnything;
    return hull({x.low / y.low, x.low / y.high, x.high / y.low, x.high / y.high});
}

Interval whole(Interval x) { return {std::floor(x.low), std::ceil(x.high)}; }

Interval truncated(Interval x) { return {std::trunc(x.low), std::trunc(x.high)}; }

Interval remainder(Interval x, Interval y) {
    const double largest = std::max(std::fabs(y.low), std::fabs(y.high)) - 1;
    if (x.low >= 0 && y.low > 0) return {0, std::min(x.high, largest)};
    return {-std::max(largest, 0.0), std::max(largest, 0.0)};
}

Interval limited(Interval x, int bits, bool is_signed) {
    const double low = is_signed ? -std::ldexp(1, bits - 1) : 0;
    const double high = std::ldexp(1, is_signed ? bits - 1 : bits) - 1;
    return x.low >= low && x.high <= high ? x : Interval{low, high};
}

Interval rounded(Interval x) { return {x.low - std::fabs(x.low) * kRounding, x.high + std::fabs(x.high) * kRounding}; }

Interval index_of(Interval from, Interval to, double sign) {
    if (sign > 0) return {from.low, std::max(from.low, to.high - 1)};
    if (sign < 0) return {std::min(from.high, to.low + 1), from.high};
    return {std::min(from.low, to.low), std::max(from.high, to.high)};
}

Interval trips(Interval apart, Interval step) {
    double most = std::max(apart.high, -apart.low);
    if (step.low > 0) most = std::ceil(apart.high / step.low);
    if (step.high < 0) most = std::ceil(apart.low / step.high);
    return {0, std::max(most, 0.0)};
}

Interval choice(Interval condition, Interval x, Interval y) {
    if (condition.low > 0 || condition.high < 0) return x;
    if (condition.low == 0 && condition.high == 0) return y;
    return {std::min(x.low, y.low), std::max(x.high, y.high)};
}

template <typename T>
double read(const uint8_t* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
}

Interval argument(const uint8_t* at, int32_t type) {
    double x = std::nan("");
    switch (static_cast<Scalar>(type)) {
        case Scalar::Bool:
        case Scalar::Uint8:
            x = read<uint8_t>(at);
            break;
        case Scalar::Int8:
            x = read<int8_t>(at);
            break;
        case Scalar::Int16:
            x = read<int16_t>(at);
            break;
        case Scalar::Uint16:
            x = read<uint16_t>(at);
            break;
        case Scalar::Int32:
            x = read<int32_t>(at);
            break;
        case Scalar::Uint32:
            x = read<uint32_t>(at);
            break;
        case Scalar::Int64:
            x = read<int64_t>(at);
            break;
        case Scalar::Uint64:
            x = read<uint64_t>(at);
            break;
        case Scalar::Float32:
            x = read<float>(at);
            break;
        case Scalar::Float64:
            x = read<double>(at);
            break;
        case Scalar::Float16:
        case Scalar::Bfloat16:
            break;
    }
    return {x, x};
}

Interval thread_index(const int64_t* dims, int axis, int ndim) {
    double extent = static_cast<double>(dims[axis]);
    if (axis == ndim - 1) {
        for (int k = ndim; k < kMaxDims; ++k) extent *= static_cast<double>(dims[k]);
    }
    return {0, std::max(extent - 1, 0.0)};
}

Interval run(const BoundStep& step, const std::vector<Interval>& known, const uint8_t* block, const int64_t* dims) {
    if (step.code == StackOp::Constant) return {step.c, step.c};
    if (step.code == StackOp::Argument) return argument(block + step.a, step.b);
    if (step.code == StackOp::Thread) return thread_index(dims, step.a, step.b);
    if (step.code == StackOp::Extent) {
        const double extent = read<int64_t>(block + step.a);
        return {extent, extent};
    }
    const Interval x = known[static_cast<size_t>(step.a)];
    if (step.code == StackOp::Root) return {std::sqrt(std::max(x.low, 0.0)), std::sqrt(std::max(x.high, 0.0))};
    if (step.code == StackOp::Whole) return whole(x);
    if (step.code == StackOp::Limited) return limited(x, step.b, step.c != 0);
    if (step.code == StackOp::Rounded) return rounded(x);
    const Interval y = known[static_cast<size_t>(step.b)];
    switch (step.code) {
        case StackOp::Add:
            return {x.low + y.low, x.high + y.high};
        case StackOp::Subtract:
            return {x.low - y.high, x.high - y.low};
        case StackOp::Multiply:
            return multiply(x, y);
        case StackOp::Minimum:
            return {std::min(x.low, y.low), std::min(x.high, y.high)};
        case StackOp::Maximum:
            return {std::max(x.low, y.low), std::max(x.high, y.high)};
        case StackOp::Quotient:
            return truncated(divide(x, y));
        case StackOp::Ratio:
            return divide(x, y);
        case StackOp::Remainder:
            return remainder(x, y);
        case StackOp::Choice:
            return choice(known[static_cast<size_t>(step.c)], x, y);
        case StackOp::Less:
            return {x.high < y.low ? 1.0 : 0.0, x.low < y.high ? 1.0 : 0.0};
        case StackOp::Equal:
            return {x.low == x.high && y.low == y.high && x.low == y.low ? 1.0 : 0.0,
                    x.high < y.low || y.high < x.low ? 0.0 : 1.0};
        case StackOp::Index:
            return index_of(x, y, step.c);
        case StackOp::Trips:
            return trips(x, y);
        default:
            return kAnything;
    }
}

}  // namespace

bool is_bound_program(const BoundStep* steps, size_t count, size_t block_size) {
    for (size_t i = 0; i < count; ++i) {
        const BoundStep& s = steps[i];
        const bool is_leaf = s.code <= StackOp::Thread;
        const bool is_unary = s.code == StackOp::Root || s.code == StackOp::Whole || s.code == StackOp::Limited ||
                              s.code == StackOp::Rounded;
        if (s.code < 0 || s.code > StackOp::Equal || s.a < 0 || s.b < 0) return false;
        if ((s.code == StackOp::Argument || s.code == StackOp::Extent) && static_cast<size_t>(s.a) + 8 > block_size)
            return false;
        if (s.code == StackOp::Thread && (s.b > kMaxDims || s.a >= s.b)) return false;
        if (!is_leaf && static_cast<size_t>(s.a) >= i) return false;
        if (!is_leaf && !is_unary && static_cast<size_t>(s.b) >= i) return false;
        if (s.code == StackOp::Choice && !(s.c >= 0 && s.c < static_cast<double>(i))) return false;
        if (s.code == StackOp::Limited && (s.b < 1 || s.b > 64)) return false;
    }
    return count > 0;
}

int64_t stack_bound(const BoundStep* steps, size_t count, const uint8_t* block, const int64_t* dims) {
    std::vector<Interval> known;
    known.reserve(count);
    for (size_t i = 0; i < count; ++i) known.push_back(exact(run(steps[i], known, block, dims)));
    const double bytes = known.back().high;
    return bytes >= 0 && bytes <= kExact ? (static_cast<int64_t>(bytes) + 3) / 4 * 4 : -1;
}

}  // namespace wl
