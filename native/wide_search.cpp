// Searches of wide trees with AVX2. This file alone is compiled for it: code in it runs only where a kernel was
// compiled for a processor that has AVX2 (`Inline.native` in `builtins/overload.py`). So it uses no inline function of
// a library, which the linker could share with other files.
//
// Products are not fused with sums (see native/CMakeLists.txt), so that both faces of an edge see a ray on the same
// side.
#include "wide_bvh.h"

#ifdef __AVX2__
#include <immintrin.h>

namespace wl {

namespace {

using V = __m256;

constexpr float kInfinity = __builtin_inff();

inline V all(float x) { return _mm256_set1_ps(x); }
inline V load(const float* p) { return _mm256_load_ps(p); }
inline V operator_and(V a, V b) { return _mm256_and_ps(a, b); }
inline V less_equal(V a, V b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
inline uint32_t bits_of(V mask) { return static_cast<uint32_t>(_mm256_movemask_ps(mask)); }
inline V choose(V mask, V a, V b) { return _mm256_blendv_ps(b, a, mask); }
inline bool finite(float x) { return __builtin_fabsf(x) < kInfinity; }

inline __m256i load_words(const int32_t* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }
inline void store_words(int32_t* p, __m256i x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x); }

// A layer of a sorting network: of `k` and what it is compared with, lanes of `kLower` keep the smaller one.
template <int kLower>
inline __m256i layer(__m256i k, __m256i other) {
    return _mm256_blend_epi32(_mm256_max_epi32(k, other), _mm256_min_epi32(k, other), kLower);
}

// The largest comes first. It takes no branches, which would be guessed wrong: the order of children is by chance.
inline __m256i sort_descending(__m256i k) {
    k = layer<0xAA>(k, _mm256_shuffle_epi32(k, 0xB1));
    k = layer<0xCC>(k, _mm256_shuffle_epi32(k, 0x1B));
    k = layer<0xAA>(k, _mm256_shuffle_epi32(k, 0xB1));
    k = layer<0xF0>(k, _mm256_permute4x64_epi64(_mm256_shuffle_epi32(k, 0x1B), 0x4E));
    k = layer<0xCC>(k, _mm256_shuffle_epi32(k, 0x4E));
    return layer<0xAA>(k, _mm256_shuffle_epi32(k, 0xB1));
}

// Nodes that wait, the farthest of a parent's first. A key has the bits of the distance (never negative, so they are in
// its order) but for the last three, in whose place is the number of the child: a distance that is a little too small,
// so that no node is left out by it.
class Waiting {
  public:
    Waiting(const WideNode* nodes, const FaceBlock* blocks) : nodes_(nodes), blocks_(blocks) {}
    bool empty() const { return count_ == 0; }
    int32_t pop(float* distance) {
        const int32_t bits = keys_[--count_] & ~kLanes;
        __builtin_memcpy(distance, &bits, 4);
        return children_[count_];
    }
    // Lets the nearest child of a node come first, then the others: those of `mask`, at least one.
    void push_children(uint32_t mask, V distances, const int32_t* child) {
        const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        const __m256i there = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int>(mask)), bit), bit);
        __m256i key = _mm256_andnot_si256(_mm256_set1_epi32(kLanes), _mm256_castps_si256(distances));
        key = _mm256_or_si256(key, lanes);
        key = sort_descending(_mm256_blendv_epi8(_mm256_set1_epi32(INT32_MIN), key, there));  // others end up on top
        store_words(keys_ + count_, key);
        store_words(children_ + count_, _mm256_permutevar8x32_epi32(load_words(child), key));
        const int start = count_;
        count_ += __builtin_popcount(mask);
        // The nearest is read at once. Those after it are mostly visited, too.
        for (int i = count_ - 2; i >= start && i >= count_ - 1 - kPrefetched; --i) prefetch(children_[i]);
    }

  private:
    static constexpr int32_t kLanes = kWide - 1;
    static constexpr int kPrefetched = 3;

    void prefetch(int32_t child) const {
        const char* lines = child >= 0 ? reinterpret_cast<const char*>(nodes_ + child)
                                       : reinterpret_cast<const char*>(blocks_ + ~child);
        constexpr int kBytes = sizeof(FaceBlock) > sizeof(WideNode) ? sizeof(FaceBlock) : sizeof(WideNode);
        for (int at = 0; at < kBytes; at += 64) __builtin_prefetch(lines + at);
    }

    const WideNode* nodes_;
    const FaceBlock* blocks_;
    int count_ = 0;
    int32_t keys_[kStack + kWide], children_[kStack + kWide];  // all lanes are written, also those that nobody counts
};

// ---- rays

struct Ray {
    float start[3], dir[3], reciprocal[3];
    int axis[3];        // the one along which it is longest comes last
    float shear[3];     // Woop, Benthin and Wald (2013), Watertight Ray/Triangle Intersection
    bool along_planes;  // it may run along a box's side, so that a product of 0 must not end it

    Ray(float x, float y, float z, float dx, float dy, float dz) : start{x, y, z}, dir{dx, dy, dz} {
        int longest = 0;
        if (__builtin_fabsf(dy) > __builtin_fabsf(dx)) longest = 1;
        if (__builtin_fabsf(dz) > __builtin_fabsf(dir[longest])) longest = 2;
        axis[0] = (longest + 1) % 3, axis[1] = (longest + 2) % 3, axis[2] = longest;
        shear[0] = dir[axis[0]] / dir[longest], shear[1] = dir[axis[1]] / dir[longest], shear[2] = 1.0f / dir[longest];
        along_planes = false;
        for (int k = 0; k < 3; ++k) {
            const float r = 1.0f / dir[k];
            const bool safe = __builtin_fabsf(r) < 1.0e30f;
            reciprocal[k] = safe ? r : r < 0 ? -1.0e30f : 1.0e30f;
            along_planes |= !(__builtin_fabsf(dir[k]) > 1.0e-6f * __builtin_fabsf(dir[longest]));
        }
    }
};

// How far a ray is where it meets each face of a block before `nearest`, infinity for those that it does not meet.
inline uint32_t meet(const FaceBlock& block, const Ray& ray, float nearest, V* distance) {
    V p[3][3];  // corner, turned axis
    for (int corner = 0; corner < 3; ++corner) {
        V c[3];
        for (int k = 0; k < 3; ++k) {
            c[k] = _mm256_sub_ps(load(block.corner[3 * corner + ray.axis[k]]), all(ray.start[ray.axis[k]]));
        }
        p[corner][0] = _mm256_sub_ps(c[0], _mm256_mul_ps(all(ray.shear[0]), c[2]));
        p[corner][1] = _mm256_sub_ps(c[1], _mm256_mul_ps(all(ray.shear[1]), c[2]));
        p[corner][2] = c[2];
    }
    const V zero = _mm256_setzero_ps();
    V side[3];
    for (int k = 0; k < 3; ++k) {
        const auto& a = p[(k + 2) % 3];  // u is on the other side of the edge from the second corner to the third
        const auto& b = p[(k + 1) % 3];
        side[k] = _mm256_sub_ps(_mm256_mul_ps(a[0], b[1]), _mm256_mul_ps(a[1], b[0]));
    }
    V on_edge = zero;
    for (const V& s : side) on_edge = _mm256_or_ps(on_edge, _mm256_cmp_ps(s, zero, _CMP_EQ_OQ));
    if (bits_of(on_edge)) {  // in float64, where the products are exact
        for (int k = 0; k < 3; ++k) {
            const auto& a = p[(k + 2) % 3];
            const auto& b = p[(k + 1) % 3];
            alignas(32) float exact[kWide];
            for (int half = 0; half < 2; ++half) {
                auto wide = [half](V v) {
                    return _mm256_cvtps_pd(half ? _mm256_extractf128_ps(v, 1) : _mm256_castps256_ps128(v));
                };
                const __m256d s =
                    _mm256_sub_pd(_mm256_mul_pd(wide(a[0]), wide(b[1])), _mm256_mul_pd(wide(a[1]), wide(b[0])));
                _mm_store_ps(exact + 4 * half, _mm256_cvtpd_ps(s));
            }
            side[k] = choose(on_edge, load(exact), side[k]);
        }
    }
    const V det = _mm256_add_ps(_mm256_add_ps(side[0], side[1]), side[2]);
    const V least = _mm256_min_ps(_mm256_min_ps(side[0], side[1]), side[2]);
    const V most = _mm256_max_ps(_mm256_max_ps(side[0], side[1]), side[2]);
    V inside = _mm256_or_ps(_mm256_cmp_ps(least, zero, _CMP_GE_OQ), _mm256_cmp_ps(most, zero, _CMP_LE_OQ));
    inside = operator_and(inside, _mm256_cmp_ps(det, zero, _CMP_NEQ_OQ));
    if (!bits_of(inside)) return 0;
    const V scale = all(ray.shear[2]);
    V t = _mm256_mul_ps(side[0], _mm256_mul_ps(scale, p[0][2]));
    t = _mm256_add_ps(t, _mm256_mul_ps(side[1], _mm256_mul_ps(scale, p[1][2])));
    t = _mm256_add_ps(t, _mm256_mul_ps(side[2], _mm256_mul_ps(scale, p[2][2])));
    t = _mm256_div_ps(t, det);
    inside = operator_and(inside, _mm256_cmp_ps(t, zero, _CMP_GE_OQ));
    *distance = t;
    return bits_of(operator_and(inside, _mm256_cmp_ps(t, all(nearest), _CMP_LT_OQ)));
}

// Keeps the nearest of the faces in `lanes`, and says whether there is one.
inline bool keep_nearest(const FaceBlock& block, uint32_t lanes, V distances, float* nearest, int32_t* face) {
    if (!lanes) return false;
    alignas(32) float distance[kWide];
    _mm256_store_ps(distance, distances);
    bool found = false;
    for (; lanes; lanes &= lanes - 1) {
        const int i = __builtin_ctz(lanes);
        if (distance[i] < *nearest) {
            *nearest = distance[i];
            *face = block.face[i] < 0 ? ~block.face[i] : block.face[i];
            found = true;
        }
    }
    return found;
}

struct Planes {
    int near[3], far[3];  // which rows of a node's boxes a ray meets first, and last

    explicit Planes(const Ray& ray) {
        for (int k = 0; k < 3; ++k) {
            const bool back = ray.reciprocal[k] < 0;
            near[k] = back ? 3 + k : k;
            far[k] = back ? k : 3 + k;
        }
    }
};

// Which children of a node a ray meets before `nearest`, and where it comes in. Rounding must not lose one.
template <bool kAlongPlanes>
inline uint32_t enter(const WideNode& node, const Ray& ray, const Planes& planes, float nearest, V* distance) {
    V near = _mm256_setzero_ps(), far = all(kInfinity);
    for (int k = 0; k < 3; ++k) {
        const V start = all(ray.start[k]), reciprocal = all(ray.reciprocal[k]);
        const V to_near = _mm256_sub_ps(load(node.lower[0] + kWide * planes.near[k]), start);
        const V to_far = _mm256_sub_ps(load(node.lower[0] + kWide * planes.far[k]), start);
        near = _mm256_max_ps(_mm256_mul_ps(to_near, reciprocal), near);
        V leaving = _mm256_mul_ps(to_far, reciprocal);
        if (kAlongPlanes) {  // a ray that starts on the plane may run along it, in the box
            leaving = choose(_mm256_cmp_ps(to_far, _mm256_setzero_ps(), _CMP_EQ_OQ), all(kInfinity), leaving);
        }
        far = _mm256_min_ps(leaving, far);
    }
    const V met = less_equal(near, _mm256_mul_ps(far, all(1.0000005f)));
    near = _mm256_mul_ps(near, all(0.9999995f));
    *distance = near;
    return bits_of(operator_and(met, less_equal(near, all(nearest))));
}

template <bool kAlongPlanes>
int32_t ray_search(const WideNode* nodes, const FaceBlock* blocks, const Ray& ray, float nearest, bool any) {
    const Planes planes(ray);
    Waiting waiting(nodes, blocks);
    int32_t face = -1, at = 0;
    for (;;) {
        if (at >= 0) {
            const WideNode& node = nodes[at];
            V distance;
            uint32_t met = enter<kAlongPlanes>(node, ray, planes, nearest, &distance);
            if (met && !(met & (met - 1))) {
                at = node.child[__builtin_ctz(met)];
                continue;
            }
            if (met) waiting.push_children(met, distance, node.child);
        } else {
            V distance;
            const uint32_t met = meet(blocks[~at], ray, nearest, &distance);
            if (keep_nearest(blocks[~at], met, distance, &nearest, &face) && any) return face;
        }
        float distance;
        do {
            if (waiting.empty()) return face;
            at = waiting.pop(&distance);
        } while (distance > nearest);
    }
}

// Below a node of the binary tree: in the order of the nodes.
int32_t ray_below(const BinaryNode* nodes, const int32_t* places, const FaceBlock* blocks, int32_t root, const Ray& ray,
                  float nearest, bool any) {
    int32_t face = -1;
    const int32_t stop = nodes[root].first >= 0 ? root + 1 : nodes[root].skip;
    for (int32_t i = root; i < stop;) {
        const BinaryNode& node = nodes[i];
        float near = 0, far = kInfinity;
        for (int k = 0; k < 3; ++k) {
            const bool back = ray.reciprocal[k] < 0;
            const float to_near = (back ? node.upper[k] : node.lower[k]) - ray.start[k];
            const float to_far = (back ? node.lower[k] : node.upper[k]) - ray.start[k];
            const float s = to_near * ray.reciprocal[k];
            const float t = to_far == 0 ? kInfinity : to_far * ray.reciprocal[k];
            near = s > near ? s : near;
            far = t < far ? t : far;
        }
        const bool met = far * 1.0000005f >= near && near * 0.9999995f <= nearest;
        if (node.first < 0) {
            i = met ? i + 1 : node.skip;
            continue;
        }
        if (met) {  // all faces of a leaf are neighbours in one block
            const int32_t place = places[node.first];
            const FaceBlock& block = blocks[place / kBlockWords];
            V distance;
            const uint32_t own = ((1u << node.skip) - 1) << place % kBlockWords;
            const uint32_t hit = meet(block, ray, nearest, &distance) & own;
            if (keep_nearest(block, hit, distance, &nearest, &face) && any) return face;
        }
        ++i;
    }
    return face;
}

// ---- points

inline V dot(const V* a, const V* b) {
    return _mm256_fmadd_ps(a[0], b[0], _mm256_fmadd_ps(a[1], b[1], _mm256_mul_ps(a[2], b[2])));
}

inline void cross(const V* a, const V* b, V* out) {
    out[0] = _mm256_fmsub_ps(a[1], b[2], _mm256_mul_ps(a[2], b[1]));
    out[1] = _mm256_fmsub_ps(a[2], b[0], _mm256_mul_ps(a[0], b[2]));
    out[2] = _mm256_fmsub_ps(a[0], b[1], _mm256_mul_ps(a[1], b[0]));
}

// The square of the distance to the segment from the origin along `edge`, of a point at `x`.
inline V to_segment(const V* x, const V* edge) {
    V along = _mm256_div_ps(dot(x, edge), dot(edge, edge));
    along = _mm256_min_ps(_mm256_max_ps(along, _mm256_setzero_ps()), all(1.0f));
    V y[3];
    for (int k = 0; k < 3; ++k) y[k] = _mm256_fnmadd_ps(along, edge[k], x[k]);
    return dot(y, y);
}

// The weights of a face's second and third corner at the point of its plane below a point; returns the square of the
// length of the normal.
inline V weights(const V* ab, const V* ac, const V* to_a, V* v, V* w) {
    V normal[3], side[3];
    cross(ab, ac, normal);
    const V size = dot(normal, normal);
    cross(ab, to_a, side);
    *w = _mm256_div_ps(dot(side, normal), size);
    cross(to_a, ac, side);
    *v = _mm256_div_ps(dot(side, normal), size);
    return size;
}

// The same for faces so large or so small that products of four lengths leave the range of floats: by powers of 2 that
// make edges about 1 long.
V scaled_weights(const V* ab, const V* ac, const V* to_a, V* v, V* w) {
    const V sign = all(-0.0f);
    V largest = _mm256_setzero_ps();
    for (int k = 0; k < 3; ++k) {
        largest = _mm256_max_ps(_mm256_andnot_ps(sign, ab[k]), largest);
        largest = _mm256_max_ps(_mm256_andnot_ps(sign, ac[k]), largest);
    }
    const __m256i exponent = _mm256_and_si256(_mm256_castps_si256(largest), _mm256_set1_epi32(0x7F800000));
    const V scale = _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_set1_epi32(0x7F000000), exponent));
    V scaled[3][3];
    for (int k = 0; k < 3; ++k) {
        scaled[0][k] = _mm256_mul_ps(ab[k], scale);
        scaled[1][k] = _mm256_mul_ps(ac[k], scale);
        scaled[2][k] = _mm256_mul_ps(to_a[k], scale);
    }
    return weights(scaled[0], scaled[1], scaled[2], v, w);
}

// The squares of the distances of a point to the faces of a block: each is that to some point of the face, so that
// rounding which takes the wrong one is no larger than the distance between both.
inline V distances_sq(const FaceBlock& block, const V* x) {
    V to_a[3], to_b[3], ab[3], ac[3], bc[3];
    for (int k = 0; k < 3; ++k) {
        const V a = load(block.corner[k]), b = load(block.corner[3 + k]), c = load(block.corner[6 + k]);
        to_a[k] = _mm256_sub_ps(x[k], a), to_b[k] = _mm256_sub_ps(x[k], b);
        ab[k] = _mm256_sub_ps(b, a), ac[k] = _mm256_sub_ps(c, a), bc[k] = _mm256_sub_ps(c, b);
    }
    V v, w;
    const V size = weights(ab, ac, to_a, &v, &w);
    const V extreme =
        _mm256_or_ps(_mm256_cmp_ps(size, all(1.0e-28f), _CMP_LT_OQ), _mm256_cmp_ps(size, all(1.0e28f), _CMP_GT_OQ));
    if (bits_of(extreme)) scaled_weights(ab, ac, to_a, &v, &w);
    const V zero = _mm256_setzero_ps();
    const V u = _mm256_sub_ps(_mm256_sub_ps(all(1.0f), v), w);
    const V inside = _mm256_cmp_ps(_mm256_min_ps(_mm256_min_ps(u, v), w), zero, _CMP_GE_OQ);
    V edges = to_segment(to_a, ab);
    edges = _mm256_min_ps(edges, to_segment(to_a, ac));
    edges = _mm256_min_ps(edges, to_segment(to_b, bc));
    V y[3];
    for (int k = 0; k < 3; ++k) y[k] = _mm256_fnmadd_ps(v, ab[k], _mm256_fnmadd_ps(w, ac[k], to_a[k]));
    return choose(inside, dot(y, y), edges);
}

int32_t point_search(const WideNode* nodes, const FaceBlock* blocks, const float* point, float nearest) {
    const V x[3] = {all(point[0]), all(point[1]), all(point[2])};
    const V zero = _mm256_setzero_ps();
    Waiting waiting(nodes, blocks);
    int32_t face = -1, at = 0;
    for (;;) {
        if (at >= 0) {
            const WideNode& node = nodes[at];
            V sum = zero;
            for (int k = 0; k < 3; ++k) {
                const V below = _mm256_sub_ps(load(node.lower[k]), x[k]),
                        above = _mm256_sub_ps(x[k], load(node.upper[k]));
                const V d = _mm256_max_ps(_mm256_max_ps(below, above), zero);
                sum = _mm256_add_ps(sum, _mm256_mul_ps(d, d));
            }
            // A box at the same distance may hold a face that is nearer by rounding.
            const uint32_t met = bits_of(less_equal(sum, all(nearest)));
            if (met && !(met & (met - 1))) {
                at = node.child[__builtin_ctz(met)];
                continue;
            }
            if (met) waiting.push_children(met, sum, node.child);
        } else {
            const FaceBlock& block = blocks[~at];
            const V d = distances_sq(block, x);
            const __m256i faces = _mm256_load_si256(reinterpret_cast<const __m256i*>(block.face));
            const V closer = _mm256_cmp_ps(d, all(nearest), _CMP_LT_OQ);
            const uint32_t met = bits_of(closer) & ~bits_of(_mm256_castsi256_ps(faces));  // no degenerate ones
            keep_nearest(block, met, d, &nearest, &face);
        }
        float distance;
        do {
            if (waiting.empty()) return face;
            at = waiting.pop(&distance);
        } while (distance > nearest);
    }
}

// ---- boxes

// Whether boxes of six numbers, lower corner and upper one, meet a box: of all of theirs, no number is larger than one
// of the box, with the upper ones turned.
struct BoxTest {
    V most, sign;

    BoxTest(float x0, float y0, float z0, float x1, float y1, float z1)
        : most(_mm256_setr_ps(x1, y1, z1, -x0, z1, -x0, -y0, -z0)),
          sign(_mm256_setr_ps(0, 0, 0, -0.0f, 0, -0.0f, -0.0f, -0.0f)) {}

    bool meets(const float* box) const {
        const __m128 front = _mm_loadu_ps(box), back = _mm_loadu_ps(box + 2);  // with the two in the middle twice
        const V all = _mm256_insertf128_ps(_mm256_castps128_ps256(front), back, 1);
        if (bits_of(less_equal(_mm256_xor_ps(all, sign), most)) != 255) return false;
        return box[0] <= box[3] && box[1] <= box[4] && box[2] <= box[5];  // a box of nothing may seem to meet infinity
    }
};

int64_t packed(int32_t node, int32_t item) {
    return static_cast<int64_t>(static_cast<uint64_t>(static_cast<uint32_t>(node)) << 32 | static_cast<uint32_t>(item));
}

template <typename T>
const T* at_address(uint64_t address) {
    return reinterpret_cast<const T*>(static_cast<uintptr_t>(address));
}

}  // namespace

}  // namespace wl

extern "C" {

int32_t wl_tree_ray(uint64_t nodes, uint64_t places, uint64_t corners, uint64_t wide, int32_t node_count, float x,
                    float y, float z, float dx, float dy, float dz, float max_t, int32_t root, int32_t any) {
    using namespace wl;
    if (node_count <= 0) return -1;
    if (!(finite(x) && finite(y) && finite(z) && finite(dx) && finite(dy) && finite(dz))) return -1;
    if (dx == 0 && dy == 0 && dz == 0) return -1;
    const Ray ray(x, y, z, dx, dy, dz);
    const auto* blocks = at_address<FaceBlock>(corners);
    if (root > 0 && root < node_count) {
        return ray_below(at_address<BinaryNode>(nodes), at_address<int32_t>(places), blocks, root, ray, max_t,
                         any != 0);
    }
    const auto* tree = at_address<WideNode>(wide);
    return ray.along_planes ? ray_search<true>(tree, blocks, ray, max_t, any != 0)
                            : ray_search<false>(tree, blocks, ray, max_t, any != 0);
}

int32_t wl_tree_point(uint64_t, uint64_t, uint64_t corners, uint64_t wide, int32_t node_count, float x, float y,
                      float z, float max_dist) {
    using namespace wl;
    if (node_count <= 0 || !(max_dist > 0) || !(finite(x) && finite(y) && finite(z))) return -1;
    const float point[3] = {x, y, z}, square = max_dist * max_dist;
    const float nearest = square < kInfinity ? square : 3.4028234e38f;  // so that no empty box is near
    return point_search(at_address<WideNode>(wide), at_address<FaceBlock>(corners), point, nearest);
}

int64_t wl_next_in_box(uint64_t nodes, uint64_t boxes, int32_t node, int32_t stop, int32_t current, int32_t end,
                       float x0, float y0, float z0, float x1, float y1, float z1) {
    using namespace wl;
    const auto* tree = at_address<BinaryNode>(nodes);
    const auto* items = at_address<float>(boxes);
    const BoxTest test(x0, y0, z0, x1, y1, z1);
    for (;;) {
        for (; current < end; ++current) {
            if (test.meets(items + 6 * int64_t{current})) return packed(node, current);
        }
        for (;; node = tree[node].skip) {
            while (node < stop && test.meets(tree[node].lower) && tree[node].first < 0) ++node;
            if (node >= stop) return packed(node, -1);
            if (tree[node].first >= 0) break;
        }
        const BinaryNode& leaf = tree[node++];
        current = leaf.first;
        end = test.meets(leaf.lower) ? current + leaf.skip : current;
    }
}

}  // extern "C"
#endif
