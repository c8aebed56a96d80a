// Rays that go together: up to 16 of them, whose directions have the same signs.
#pragma once

#include "wide_simd.h"

#ifdef __AVX2__

namespace wl {

namespace {

constexpr int kTogether = 16;

// A number of each ray of a bundle. Vectors of 512 bits were no faster: with them, a processor of Intel's has fewer
// units for those of 256 bits, which test faces.
struct Many {
    V low, high;
};

inline Many all_many(float x) { return {all(x), all(x)}; }
inline Many load_many(const float* p) { return {load(p), load(p + kWide)}; }
inline void store_many(float* p, Many x) {
    store(p, x.low);
    store(p + kWide, x.high);
}
inline Many minus(Many a, Many b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline Many times(Many a, Many b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline Many least(Many a, Many b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
inline Many most(Many a, Many b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline uint32_t less_equal(Many a, Many b) {
    return bits_of(less_equal(a.low, b.low)) | bits_of(less_equal(a.high, b.high)) << kWide;
}
// a where x is not 0, else b.
inline Many unless_zero(Many x, Many a, Many b) {
    return {choose(_mm256_cmp_ps(x.low, all(0), _CMP_EQ_OQ), b.low, a.low),
            choose(_mm256_cmp_ps(x.high, all(0), _CMP_EQ_OQ), b.high, a.high)};
}

// The least and the largest of the numbers in `lanes`.
struct Span {
    float low, high;

    Span(const float* numbers, uint32_t lanes) {
        const V other = all(numbers[__builtin_ctz(lanes)]);
        const V x = choose(mask_of(lanes), load(numbers), other);
        const V y = choose(mask_of(lanes >> kWide), load(numbers + kWide), other);
        const V least = _mm256_min_ps(x, y), most = _mm256_max_ps(x, y);
        __m128 a = _mm_min_ps(_mm256_castps256_ps128(least), _mm256_extractf128_ps(least, 1));
        __m128 b = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
        a = _mm_min_ps(a, _mm_movehl_ps(a, a)), b = _mm_max_ps(b, _mm_movehl_ps(b, b));
        low = _mm_cvtss_f32(_mm_min_ss(a, _mm_movehdup_ps(a)));
        high = _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
    }
};

// How much too early and too late a ray may come into a box, so that rounding loses none.
constexpr float kEarly = 0.999998f, kLate = 1.0000005f;

// Whether rays may run along a box's side, so that a product of 0 must not end them.
struct Along {
    static constexpr bool value = true;
};
struct Apart {
    static constexpr bool value = false;
};

// Between what numbers the starts of rays lie, and the reciprocals of their directions. What it computes of a box
// bounds what each ray computes, digit by digit: rounding keeps the order of numbers.
class Bundle {
  public:
    // Takes the rays in `lanes`; returns false if directions differ in a sign.
    bool take(const float (*starts)[kTogether], const float (*reciprocals)[kTogether], uint32_t lanes) {
        for (int axis = 0; axis < 3; ++axis) {
            const Span reciprocal(reciprocals[axis], lanes), start(starts[axis], lanes);
            const bool back = reciprocal.low < 0;
            if (back != (reciprocal.high < 0)) return false;
            low_[axis] = all(reciprocal.low), high_[axis] = all(reciprocal.high);
            near_start_[axis] = all(back ? start.low : start.high),
            far_start_[axis] = all(back ? start.high : start.low);
            row_[axis] = axis * kWide + (back ? 3 * kWide : 0);
        }
        return true;
    }

    // In which row of a node's boxes the sides are that the rays meet first, and those that they meet last.
    int near_row(int axis) const { return row_[axis]; }
    int far_row(int axis) const { return (3 + 2 * axis) * kWide - row_[axis]; }

    // The children of a node that rays may enter, and how far away these are at least.
    template <class AlongPlanes>
    V enter(const WideNode& node, V* distances, AlongPlanes) const {
        V near = all(0), far = all(kInfinity);
        for (int axis = 0; axis < 3; ++axis) {
            const V low = low_[axis], high = high_[axis];
            const V to_near = _mm256_sub_ps(load(node.lower[0] + near_row(axis)), near_start_[axis]);
            const V side = load(node.lower[0] + far_row(axis)), to_far = _mm256_sub_ps(side, far_start_[axis]);
            near = _mm256_max_ps(_mm256_min_ps(_mm256_mul_ps(to_near, low), _mm256_mul_ps(to_near, high)), near);
            V leaving = _mm256_max_ps(_mm256_mul_ps(to_far, low), _mm256_mul_ps(to_far, high));
            if (AlongPlanes::value) {  // a ray may start on the plane: it lies between both ends of the starts
                const V other = _mm256_sub_ps(side, near_start_[axis]);
                leaving = choose(less_equal(_mm256_mul_ps(to_far, other), all(0)), all(kInfinity), leaving);
            }
            far = _mm256_min_ps(leaving, far);
        }
        *distances = _mm256_mul_ps(near, all(kEarly));
        return less_equal(near, _mm256_mul_ps(far, all(kLate)));
    }

  private:
    V low_[3], high_[3];  // of the reciprocals
    V near_start_[3],
        far_start_[3];  // whence sides that are met first are nearest, and those that are met last farthest
    int row_[3];
};

}  // namespace

}  // namespace wl
#endif
