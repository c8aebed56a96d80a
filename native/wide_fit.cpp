// Fills blocks of faces with AVX2: what `fill_each` in refit.cpp does, for which see there. As wide_search.cpp, this
// file is compiled for it, uses no inline function of a library, and is called only where the processor has AVX2.
#include "wide_bvh.h"

#ifdef __AVX2__
#include <immintrin.h>

namespace wl {

namespace {

using V = __m256;

inline V all(float x) { return _mm256_set1_ps(x); }
inline V larger(V a, V b) { return _mm256_max_ps(a, b); }
inline V square(V a) { return _mm256_mul_ps(a, a); }
inline V sum(V a, V b, V c) { return _mm256_add_ps(_mm256_add_ps(a, b), c); }

// A vector of two points, of three numbers each: no memory is touched behind them.
inline V two(const float* a, const float* b) {
    const __m128i three = _mm_setr_epi32(-1, -1, -1, 0);
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_maskload_ps(a, three)), _mm_maskload_ps(b, three), 1);
}

// Transposes both halves of four vectors.
inline void transpose(V& a, V& b, V& c, V& d) {
    const V p = _mm256_unpacklo_ps(a, b), q = _mm256_unpackhi_ps(a, b);
    const V r = _mm256_unpacklo_ps(c, d), s = _mm256_unpackhi_ps(c, d);
    a = _mm256_shuffle_ps(p, r, 0x44), b = _mm256_shuffle_ps(p, r, 0xEE);
    c = _mm256_shuffle_ps(q, s, 0x44), d = _mm256_shuffle_ps(q, s, 0xEE);
}

inline V largest(const V* edge) {
    const V sign = all(-0.0f);
    const V yz = larger(_mm256_andnot_ps(sign, edge[1]), _mm256_andnot_ps(sign, edge[2]));
    return larger(_mm256_andnot_ps(sign, edge[0]), yz);
}

inline V minus(V a, V b, V c, V d) { return _mm256_sub_ps(_mm256_mul_ps(a, b), _mm256_mul_ps(c, d)); }

// Edges of faces: from the first corner to the second and to the third, and between these.
struct Edges {
    V e[3], f[3], g[3];
};

// Makes the longer of the first two edges about 1 long, by a power of 2: `scale_of` in refit.cpp.
void scale(Edges& edges) {
    const __m256i bits = _mm256_castps_si256(larger(largest(edges.e), largest(edges.f)));
    const __m256i exponent = _mm256_and_si256(bits, _mm256_set1_epi32(0x7F800000));
    const V by = _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_set1_epi32(0x7F000000), exponent));
    for (int k = 0; k < 3; ++k) {
        edges.e[k] = _mm256_mul_ps(edges.e[k], by), edges.f[k] = _mm256_mul_ps(edges.f[k], by);
        edges.g[k] = _mm256_mul_ps(edges.g[k], by);
    }
}

// Whether faces have no area beside their longest edge, of which it gives the square.
inline V without_area(const Edges& edges, V* longest) {
    const V *e = edges.e, *f = edges.f, *g = edges.g;
    const V ee = sum(square(e[0]), square(e[1]), square(e[2])), ff = sum(square(f[0]), square(f[1]), square(f[2]));
    const V gg = sum(square(g[0]), square(g[1]), square(g[2]));
    const V x = minus(e[1], f[2], e[2], f[1]), y = minus(e[2], f[0], e[0], f[2]), z = minus(e[0], f[1], e[1], f[0]);
    *longest = larger(larger(ee, ff), gg);
    const V least = _mm256_mul_ps(_mm256_mul_ps(all(1.0e-12f), *longest), *longest);
    return _mm256_cmp_ps(sum(square(x), square(y), square(z)), least, _CMP_NGT_UQ);
}

// Faces without area beside their longest edge, as `mark_degenerate` has them, in the same order of operations. Powers
// of 2 change no result while all products that count are normal floats, and none is infinite. One that counts is at
// least a 2^26th of the least area, so edges from 3.2e-5 to 1e9 need no scale.
inline V degenerate(const V* p) {
    Edges edges;
    for (int k = 0; k < 3; ++k) {
        edges.e[k] = _mm256_sub_ps(p[3 + k], p[k]), edges.f[k] = _mm256_sub_ps(p[6 + k], p[k]);
        edges.g[k] = _mm256_sub_ps(p[6 + k], p[3 + k]);
    }
    V longest, found = without_area(edges, &longest);
    const V large = _mm256_cmp_ps(longest, all(1.0e-9f), _CMP_GT_OQ);
    const V small = _mm256_cmp_ps(longest, all(1.0e18f), _CMP_LT_OQ);
    if (__builtin_expect(_mm256_movemask_ps(_mm256_and_ps(large, small)) != 255, 0)) {
        scale(edges);
        found = without_area(edges, &longest);
    }
    return found;
}

// Asks for the corners' numbers of faces that come soon: a block's, if it is full.
inline void fetch_faces(const wl::Corners& mesh, const int32_t* order) {
#pragma GCC unroll 8
    for (int k = 0; k < wl::kWide; ++k) __builtin_prefetch(mesh.indices + 3 * int64_t{order[k]});
}

// Asks for the first corners of faces that come soon. The others are mostly near.
inline void fetch_points(const wl::Corners& mesh, const int32_t* order) {
#pragma GCC unroll 8
    for (int k = 0; k < wl::kWide; ++k) {
        __builtin_prefetch(mesh.points + 3 * int64_t{mesh.indices[3 * int64_t{order[k]}]});
    }
}

// Takes the corners of a block's faces, and finds their boxes. Eight are written, and a number more.
inline void fill(wl::FaceBlock& block, const wl::Corners& mesh, const int32_t* faces, int32_t count, float* boxes) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i there = _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lanes);
    // Lanes without a face take the first one, and are made NaN below.
    const __m256i number = _mm256_blendv_epi8(_mm256_set1_epi32(faces[0]), _mm256_maskload_epi32(faces, there), there);
    alignas(32) int32_t numbers[wl::kWide];
    _mm256_store_si256(reinterpret_cast<__m256i*>(numbers), number);
    const float* at[3][wl::kWide];
#pragma GCC unroll 8
    for (int k = 0; k < wl::kWide; ++k) {
        const int32_t* corners = mesh.indices + 3 * int64_t{numbers[k]};
#pragma GCC unroll 3
        for (int c = 0; c < 3; ++c) at[c][k] = mesh.points + 3 * int64_t{corners[c]};
    }
    V rows[9], lower[3], upper[3];
    for (int axis = 0; axis < 3; ++axis) lower[axis] = all(__builtin_inff()), upper[axis] = all(-__builtin_inff());
    for (int c = 0; c < 3; ++c) {
        V* row = rows + 3 * c;
        V rest = two(at[c][3], at[c][7]);
        row[0] = two(at[c][0], at[c][4]), row[1] = two(at[c][1], at[c][5]), row[2] = two(at[c][2], at[c][6]);
        transpose(row[0], row[1], row[2], rest);
        for (int axis = 0; axis < 3; ++axis) {
            lower[axis] = _mm256_min_ps(row[axis], lower[axis]);  // the second where one is NaN
            upper[axis] = _mm256_max_ps(row[axis], upper[axis]);
        }
    }
    const V none = all(__builtin_nanf(""));
    for (int k = 0; k < 9; ++k) {
        _mm256_stream_ps(block.corner[k], _mm256_blendv_ps(none, rows[k], _mm256_castsi256_ps(there)));
    }
    const __m256i marked = _mm256_xor_si256(number, _mm256_castps_si256(degenerate(rows)));
    const __m256i made = _mm256_blendv_epi8(_mm256_set1_epi32(wl::kNoFace), marked, there);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(block.face), made);
    V low[4] = {lower[0], lower[1], lower[2], upper[0]}, high[4] = {upper[0], upper[1], upper[2], upper[2]};
    transpose(low[0], low[1], low[2], low[3]);
    transpose(high[0], high[1], high[2], high[3]);
#pragma GCC unroll 8
    for (int k = 0; k < wl::kWide; ++k) {  // in this order: the next one overwrites the last number
        const V l = low[k % 4], h = high[k % 4];
        _mm_storeu_ps(boxes + 6 * k, k < 4 ? _mm256_castps256_ps128(l) : _mm256_extractf128_ps(l, 1));
        _mm_storeu_ps(boxes + 6 * k + 3, k < 4 ? _mm256_castps256_ps128(h) : _mm256_extractf128_ps(h, 1));
    }
}

}  // namespace

}  // namespace wl

extern "C" {

void wl_fill_blocks(wl::FaceBlock* blocks, const int32_t* starts, int32_t begin, int32_t end, const wl::Corners* mesh,
                    const int32_t* order, float* boxes) {
    constexpr int32_t kPoints = 4 * wl::kWide, kFaces = 8 * wl::kWide;  // how far ahead memory is asked for
    const wl::Corners of = *mesh;
    const int32_t stop = starts[end] - wl::kWide;
    for (int32_t b = begin; b < end; ++b) {
        const int32_t first = starts[b];
        if (first + kFaces < stop) wl::fetch_faces(of, order + first + kFaces);
        if (first + kPoints < stop) wl::fetch_points(of, order + first + kPoints);
        float* to = boxes + 6 * int64_t{first - starts[begin]};
        wl::fill(blocks[b], of, order + first, starts[b + 1] - first, to);
    }
}

}  // extern "C"
#endif
