// Searches for the face nearest to a point, and walks through the boxes that a box meets. Searches for rays are in
// wide_rays.cpp.
#include "wide_simd.h"

#ifdef __AVX2__

namespace wl {

namespace {

// Nodes that wait, the farthest of a parent's first, with their keys.
class Waiting {
  public:
    Waiting(const WideNode* nodes, const FaceBlock* blocks) : nodes_(nodes), blocks_(blocks) {}
    bool empty() const { return count_ == 0; }
    int32_t pop(float* distance) {
        *distance = distance_of(keys_[--count_]);
        return children_[count_];
    }
    // Lets the nearest child of a node come first, then the others: those in `met`, at least one.
    void push_children(V met, V distances, const int32_t* child) {
        const __m256i key = sorted_keys(distances, met);
        store_words(keys_ + count_, key);
        store_words(children_ + count_, _mm256_permutevar8x32_epi32(load_words(child), key));
        const int start = count_;
        count_ += __builtin_popcount(bits_of(met));
        // The nearest is read at once. Those after it are mostly visited, too.
        for (int i = count_ - 2; i >= start && i >= count_ - 1 - kPrefetched; --i) prefetch(children_[i]);
    }

  private:
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

// Keeps the nearest of the faces in `lanes`.
inline void keep_nearest(const FaceBlock& block, uint32_t lanes, V distances, float* nearest, int32_t* face) {
    if (!lanes) return;
    alignas(32) float distance[kWide];
    _mm256_store_ps(distance, distances);
    for (; lanes; lanes &= lanes - 1) {
        const int i = __builtin_ctz(lanes);
        if (distance[i] < *nearest) {
            *nearest = distance[i];
            *face = block.face[i];
        }
    }
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
            const V near = less_equal(sum, all(nearest));
            const uint32_t met = bits_of(near);
            if (met && !(met & (met - 1))) {
                at = node.child[__builtin_ctz(met)];
                continue;
            }
            if (met) waiting.push_children(near, sum, node.child);
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

}  // namespace

}  // namespace wl

extern "C" {

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
