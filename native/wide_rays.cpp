// Searches for the face that a ray meets first, of one ray or of a vector of them.
//
// Up to 16 rays go side by side (wide_sweep.h), each with nodes of its own that wait. Rays that go together, such as
// those of a picture, are a bundle (wide_bundle.h) for as long as most of them meet the same nodes.
//
// Of faces at the same distance, the one of the lowest number is found. So the order of the steps does not matter.
//
// Products are not fused with sums (see native/CMakeLists.txt), so that both faces of an edge see a ray on the same
// side.
#include "wide_bundle.h"
#include "wide_sweep.h"

#ifdef __AVX2__

namespace wl {

namespace {

// Rays: x, y, z of their starts, of their directions, and how far they go.
struct Rays {
    V start[3], dir[3], end;
};

// `kCount` rays. There is room for those of whole vectors.
template <int kCount, int kDepth>
class RaySearch : protected Sweep<RaySearch<kCount, kDepth>, kCount, kDepth> {
    using Base = Sweep<RaySearch, kCount, kDepth>;
    friend Base;
    static constexpr int kMost = kCount < kWide ? kWide : kCount;

  public:
    RaySearch(const WideNode* nodes, const FaceBlock* blocks, bool any) : Base(nodes, blocks), any_(any) {}

    // Finds a face for each of the rays in `lanes`, or -1. Returns those that it gave up, which have to wait with too
    // many nodes.
    uint32_t run(const Rays* given, uint32_t lanes) {
        from_root(take_all(given, lanes));
        return lost_;
    }

    int32_t face(int k) const { return face_[k]; }

    // The same for one ray below a node of the binary tree: in the order of the nodes.
    void run_below(const Rays& given, const BinaryNode* nodes, const int32_t* places, int32_t root) {
        if (!(take(given, 0) & 1)) return;
        const int32_t stop = nodes[root].first >= 0 ? root + 1 : nodes[root].skip;
        for (int32_t i = root; i < stop;) {
            const BinaryNode& node = nodes[i];
            const bool met = enters(node);
            if (node.first < 0) {
                i = met ? i + 1 : node.skip;
                continue;
            }
            if (met) {  // all faces of a leaf are neighbours in one block
                const int32_t place = places[node.first];
                leaf(0, blocks_[place / kBlockWords], ((1u << node.skip) - 1) << place % kBlockWords);
            }
            ++i;
        }
    }

  protected:
    using Base::blocks_;
    using Base::face_;
    using Base::lost_;
    using Base::nearest_;
    using Base::nodes_;

    // ---- one ray and one node or block

    // Takes the rays in `lanes`; returns which of them are rays. It takes others as well: what is computed of numbers
    // by chance may be denormal, which takes long.
    uint32_t take_all(const Rays* given, uint32_t lanes) {
        uint32_t ready = 0;
        for (int first = 0; first < kMost; first += kWide) ready |= take(given[first / kWide], first) << first;
        return ready & lanes;
    }

    // Takes the rays from `first` on; returns which of them are rays.
    uint32_t take(const Rays& given, int first) {
        const V *start = given.start, *dir = given.dir;
        V size[3];
        V bad = all(0), moving = all(0);
        for (int k = 0; k < 3; ++k) {
            size[k] = absolute(dir[k]);
            bad = _mm256_or_ps(bad, _mm256_cmp_ps(absolute(start[k]), all(kInfinity), _CMP_NLT_UQ));
            bad = _mm256_or_ps(bad, _mm256_cmp_ps(size[k], all(kInfinity), _CMP_NLT_UQ));
            moving = _mm256_or_ps(moving, _mm256_cmp_ps(size[k], all(0), _CMP_GT_OQ));
        }
        const V y_longer = _mm256_cmp_ps(size[1], size[0], _CMP_GT_OQ);
        const V z_longest = _mm256_cmp_ps(size[2], choose(y_longer, size[1], size[0]), _CMP_GT_OQ);
        // The axis along which a ray is longest comes last.
        auto turned = [&](const V* v, int by) {
            return choose(z_longest, v[(2 + by) % 3], choose(y_longer, v[(1 + by) % 3], v[by % 3]));
        };
        const V longest = turned(dir, 0);
        // Woop, Benthin and Wald (2013), Watertight Ray/Triangle Intersection
        const V shear[3] = {_mm256_div_ps(turned(dir, 1), longest), _mm256_div_ps(turned(dir, 2), longest),
                            _mm256_div_ps(all(1.0f), longest)};
        V along = all(0);
        const V least = _mm256_mul_ps(all(1.0e-6f), absolute(longest));
        for (int k = 0; k < 3; ++k) {
            store(start_[k] + first, start[k]);
            store(turned_[k] + first, turned(start, k + 1));
            store(shear_[k] + first, shear[k]);
            along = _mm256_or_ps(along, _mm256_cmp_ps(size[k], least, _CMP_NGT_UQ));
            const V r = _mm256_div_ps(all(1.0f), dir[k]);
            const V large = choose(_mm256_cmp_ps(r, all(0), _CMP_LT_OQ), all(-1.0e30f), all(1.0e30f));
            const V reciprocal = choose(_mm256_cmp_ps(absolute(r), all(1.0e30f), _CMP_LT_OQ), r, large);
            store(reciprocal_[k] + first, reciprocal);
            const V back = _mm256_cmp_ps(reciprocal, all(0), _CMP_LT_OQ);
            const __m256i upper = _mm256_and_si256(_mm256_castps_si256(back), _mm256_set1_epi32(3 * kWide));
            store_words(near_[k] + first, _mm256_add_epi32(upper, _mm256_set1_epi32(k * kWide)));
        }
        const __m256i y = _mm256_and_si256(_mm256_castps_si256(y_longer), _mm256_set1_epi32(1));
        store_words(axis_ + first, _mm256_blendv_epi8(y, _mm256_set1_epi32(2), _mm256_castps_si256(z_longest)));
        store(nearest_ + first, given.end);
        along_planes_ = (along_planes_ & ~(255u << first)) | bits_of(along) << first;
        return ~bits_of(bad) & bits_of(moving) & 255;
    }

    // Lets ray `k` look at the faces of a block, or those in `lanes`, and says whether it found one. Of two that are as
    // near, it keeps the lower number.
    bool leaf(int k, const FaceBlock& block, uint32_t lanes = ~0u) {
        V distance;
        lanes &= meet(k, block, &distance);
        if (!lanes) return false;
        alignas(32) float distances[kWide];
        store(distances, distance);
        float nearest = nearest_[k];
        int32_t found = face_[k];
        for (; lanes; lanes &= lanes - 1) {
            const int i = __builtin_ctz(lanes);
            const int32_t face = block.face[i] < 0 ? ~block.face[i] : block.face[i];
            if (distances[i] < nearest || (distances[i] == nearest && face < found))
                nearest = distances[i], found = face;
        }
        face_[k] = found;
        nearest_[k] = any_ ? -1.0f : nearest;  // no more boxes
        return true;
    }

    // Which faces of a block ray `k` meets, no farther than what it has found and before its end, and how far.
    uint32_t meet(int k, const FaceBlock& block, V* distance) const {
        const int32_t axis = axis_[k];
        const float* rows[3] = {block.corner[axis == 2 ? 0 : axis + 1], block.corner[axis == 0 ? 2 : axis - 1],
                                block.corner[axis]};
        V p[3][3];  // corner, turned axis
        for (int corner = 0; corner < 3; ++corner) {
            V c[3];
            for (int i = 0; i < 3; ++i) {
                c[i] = _mm256_sub_ps(load(rows[i] + 3 * kWide * corner), all(turned_[i][k]));
            }
            p[corner][0] = _mm256_sub_ps(c[0], _mm256_mul_ps(all(shear_[0][k]), c[2]));
            p[corner][1] = _mm256_sub_ps(c[1], _mm256_mul_ps(all(shear_[1][k]), c[2]));
            p[corner][2] = c[2];
        }
        V side[3];
        sides(p, side);
        const V zero = all(0);
        const V det = _mm256_add_ps(_mm256_add_ps(side[0], side[1]), side[2]);
        const V least = _mm256_min_ps(_mm256_min_ps(side[0], side[1]), side[2]);
        const V most = _mm256_max_ps(_mm256_max_ps(side[0], side[1]), side[2]);
        V inside = _mm256_or_ps(_mm256_cmp_ps(least, zero, _CMP_GE_OQ), _mm256_cmp_ps(most, zero, _CMP_LE_OQ));
        inside = _mm256_and_ps(inside, _mm256_cmp_ps(det, zero, _CMP_NEQ_OQ));
        const V scale = all(shear_[2][k]);
        V t = _mm256_mul_ps(side[0], _mm256_mul_ps(scale, p[0][2]));
        t = _mm256_add_ps(t, _mm256_mul_ps(side[1], _mm256_mul_ps(scale, p[1][2])));
        t = _mm256_add_ps(t, _mm256_mul_ps(side[2], _mm256_mul_ps(scale, p[2][2])));
        t = _mm256_div_ps(t, det);
        inside = _mm256_and_ps(inside, _mm256_cmp_ps(t, zero, _CMP_GE_OQ));
        *distance = t;
        const V nearest = all(nearest_[k]);
        // Before a face is found, only what is before the end counts.
        const V closer = face_[k] < 0 ? _mm256_cmp_ps(t, nearest, _CMP_LT_OQ) : _mm256_cmp_ps(t, nearest, _CMP_LE_OQ);
        return bits_of(_mm256_and_ps(inside, closer));
    }

    // On which side of the three edges a ray passes; u is that of the edge from the second corner to the third.
    static void sides(const V (*p)[3], V* side) {
        V on_edge = all(0);
        for (int k = 0; k < 3; ++k) {
            const V *a = p[(k + 2) % 3], *b = p[(k + 1) % 3];
            side[k] = _mm256_sub_ps(_mm256_mul_ps(a[0], b[1]), _mm256_mul_ps(a[1], b[0]));
            on_edge = _mm256_or_ps(on_edge, _mm256_cmp_ps(side[k], all(0), _CMP_EQ_OQ));
        }
        if (__builtin_expect(!bits_of(on_edge), 1)) return;
        for (int k = 0; k < 3; ++k) {  // in float64, where the products are exact
            const V *a = p[(k + 2) % 3], *b = p[(k + 1) % 3];
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

    // Whether the first ray enters a box before `nearest`.
    bool enters(const BinaryNode& node) const {
        float near = 0, far = kInfinity;
        for (int k = 0; k < 3; ++k) {
            const float reciprocal = reciprocal_[k][0];
            const bool back = reciprocal < 0;
            const float to_near = (back ? node.upper[k] : node.lower[k]) - start_[k][0];
            const float to_far = (back ? node.lower[k] : node.upper[k]) - start_[k][0];
            const float s = to_near * reciprocal;
            const float t = to_far == 0 ? kInfinity : to_far * reciprocal;
            near = s > near ? s : near;
            far = t < far ? t : far;
        }
        return far * kLate >= near && near * kEarly <= nearest_[0];
    }

    // ---- many rays

    // Lets each of the rays go by itself, from the root on or with the nodes that it waits with.
    void from_root(uint32_t lanes) {
        for (uint32_t left = lanes; left; left &= left - 1) this->start(__builtin_ctz(left));
        go_on(lanes);
    }
    void go_on(uint32_t lanes) {
        this->sweep(lanes & ~along_planes_, Apart());
        if (lanes & along_planes_) this->sweep(lanes & along_planes_, Along());
    }

    // Lets the children of a node wait that ray `k` meets.
    template <class AlongPlanes>
    void open(int k, const WideNode& node, AlongPlanes) {
        V near = all(0), far = all(kInfinity);
        for (int axis = 0; axis < 3; ++axis) {
            const V start = all(start_[axis][k]), reciprocal = all(reciprocal_[axis][k]);
            const int32_t row = near_[axis][k];
            const V to_near = _mm256_sub_ps(load(node.lower[0] + row), start);
            const V to_far = _mm256_sub_ps(load(node.lower[0] + (3 + 2 * axis) * kWide - row), start);
            near = _mm256_max_ps(_mm256_mul_ps(to_near, reciprocal), near);
            V leaving = _mm256_mul_ps(to_far, reciprocal);
            if (AlongPlanes::value) {  // a ray that starts on the plane may run along it, in the box
                leaving = choose(_mm256_cmp_ps(to_far, all(0), _CMP_EQ_OQ), all(kInfinity), leaving);
            }
            far = _mm256_min_ps(leaving, far);
        }
        const V in_time = less_equal(near, _mm256_mul_ps(far, all(kLate)));
        near = _mm256_mul_ps(near, all(kEarly));
        const V met = _mm256_and_ps(in_time, less_equal(near, all(nearest_[k])));
        this->push_children(k, met, near, node.child);
    }

    bool any_;
    uint32_t along_planes_ = 0;  // the rays that are `Along`
    alignas(64) float start_[3][kMost];
    alignas(64) float reciprocal_[3][kMost];
    alignas(64) float turned_[3][kMost];  // the start, with the axis last along which the ray is longest
    alignas(64) float shear_[3][kMost];
    alignas(64) int32_t near_[3][kMost];  // in which row of a node's boxes the sides are that the ray meets first
    alignas(64) int32_t axis_[kMost];
};

// Rays that lie side by side in memory.
class ManyRays : RaySearch<kSideBySide, kShallow> {
    static_assert(kSideBySide == kTogether, "a bundle takes all of them");

  public:
    using RaySearch::face;
    using RaySearch::RaySearch;

    uint32_t run(const Rays* given, uint32_t lanes) {
        const uint32_t ready = take_all(given, lanes);
        if (!(ready & (ready - 1)) || !bundle_.take(start_, reciprocal_, ready)) {
            from_root(ready);
        } else if (!(ready & along_planes_ ? together(ready, Along()) : together(ready, Apart()))) {
            part(ready);
        }
        return lost_;
    }

  private:
    // Lets the rays go together from the root on. Returns false where they share too little, and still wait with nodes.
    template <class AlongPlanes>
    bool together(uint32_t lanes, AlongPlanes along) {
        store_many(distance_[0], all_many(0));
        lanes_[0] = lanes, child_[0] = 0;
        waiting_ = 1;
        for (int shared = kShared; waiting_;) {
            --waiting_;
            const uint32_t met = near_enough(waiting_);
            const int32_t at = child_[waiting_];
            if (at < 0) {
                for (uint32_t left = met; left; left &= left - 1) leaf(__builtin_ctz(left), blocks_[~at]);
            } else if (met) {
                open(nodes_[at], met, along);
                shared += __builtin_popcount(met) - kFew;
                if (shared < 0 || waiting_ > kPlaces - kWide) return false;
            }
        }
        return true;
    }

    // Which rays meet the node in a place before what they have found.
    uint32_t near_enough(int place) const {
        return lanes_[place] & less_equal(load_many(distance_[place]), load_many(nearest_));
    }

    // Lets the children of a node wait that rays in `lanes` meet, the nearest to come first.
    template <class AlongPlanes>
    void open(const WideNode& node, uint32_t lanes, AlongPlanes along) {
        V distances;
        const V entered = bundle_.enter(node, &distances, along);
        const uint32_t mask = bits_of(entered);
        const int first = waiting_;
        if (mask & (mask - 1)) {
            alignas(32) int32_t keys[kWide];
            store_words(keys, sorted_keys(distances, entered));
            const int count = __builtin_popcount(mask);
            for (int i = 0; i < count; ++i) add(node, keys[i] & (kWide - 1), lanes, along);
        } else if (mask) {
            add(node, __builtin_ctz(mask), lanes, along);
        }
        for (int i = first; i < waiting_; ++i) prefetch(child_[i]);
    }

    // Lets a child of a node wait if rays in `lanes` meet it.
    template <class AlongPlanes>
    void add(const WideNode& node, int child, uint32_t lanes, AlongPlanes) {
        Many near = all_many(0), far = all_many(kInfinity);
        for (int axis = 0; axis < 3; ++axis) {  // as for one ray
            const Many start = load_many(start_[axis]), reciprocal = load_many(reciprocal_[axis]);
            const Many to_near = minus(all_many(node.lower[0][bundle_.near_row(axis) + child]), start);
            const Many to_far = minus(all_many(node.lower[0][bundle_.far_row(axis) + child]), start);
            near = most(times(to_near, reciprocal), near);
            Many leaving = times(to_far, reciprocal);
            if (AlongPlanes::value) leaving = unless_zero(to_far, leaving, all_many(kInfinity));
            far = least(leaving, far);
        }
        const uint32_t in_time = less_equal(near, times(far, all_many(kLate)));
        store_many(distance_[waiting_], times(near, all_many(kEarly)));
        lanes_[waiting_] = lanes & in_time;
        lanes_[waiting_] = near_enough(waiting_);
        child_[waiting_] = node.child[child];
        waiting_ += lanes_[waiting_] != 0;
    }

    // Gives each ray the nodes that it meets of those that wait, and lets it go on by itself.
    void part(uint32_t lanes) {
        for (int place = 0; place < waiting_; ++place) {
            for (uint32_t left = near_enough(place); left; left &= left - 1) {
                const int k = __builtin_ctz(left);
                wait(k, distance_[place][k], child_[place]);
            }
        }
        go_on(lanes & ~lost_);
    }

    // A node that fewer rays meet than `kFew` takes longer for all together than for each. `kShared` lets some pass.
    static constexpr int kFew = 3, kShared = 16;
    static constexpr int kPlaces = 64;

    Bundle bundle_;
    int waiting_ = 0;
    uint32_t lanes_[kPlaces];
    int32_t child_[kPlaces];
    alignas(64) float distance_[kPlaces][kTogether];
};

// Eight rays from `first` on, of the first `count` in rows of `width`.
Rays rays_at(const float* rows, int width, int first, int count) {
    V made[7];
    const V there = mask_of(count - first >= kWide ? 255u : count > first ? (1u << (count - first)) - 1 : 0u);
    for (int i = 0; i < 7; ++i) made[i] = _mm256_maskload_ps(rows + i * width + first, _mm256_castps_si256(there));
    return {{made[0], made[1], made[2]}, {made[3], made[4], made[5]}, made[6]};
}

using OneRay = RaySearch<1, kStack>;

}  // namespace

}  // namespace wl

extern "C" {

int32_t wl_tree_ray(uint64_t nodes, uint64_t places, uint64_t corners, uint64_t wide, int32_t node_count, float x,
                    float y, float z, float dx, float dy, float dz, float max_t, int32_t root, int32_t any) {
    using namespace wl;
    if (node_count <= 0) return -1;
    const Rays given{{all(x), all(y), all(z)}, {all(dx), all(dy), all(dz)}, all(max_t)};
    OneRay search(at_address<WideNode>(wide), at_address<FaceBlock>(corners), any != 0);
    if (root > 0 && root < node_count) {
        search.run_below(given, at_address<BinaryNode>(nodes), at_address<int32_t>(places), root);
    } else {
        search.run(&given, 1);
    }
    return search.face(0);
}

void wl_tree_rays(uint64_t nodes, uint64_t places, uint64_t corners, uint64_t wide, int32_t node_count, int32_t root,
                  int32_t any, const float* rays, int32_t width, uint64_t lanes, int32_t* faces) {
    using namespace wl;
    auto alone = [=](int i) {
        const float* at = rays + i;
        const int w = width;
        return wl_tree_ray(nodes, places, corners, wide, node_count, at[0], at[w], at[2 * w], at[3 * w], at[4 * w],
                           at[5 * w], at[6 * w], root, any);
    };
    const bool below = root > 0 && root < node_count;
    for (int first = 0; first < width; first += kSideBySide) {
        const int count = width - first < kSideBySide ? width - first : kSideBySide;
        const auto wanted = static_cast<uint32_t>(lanes >> first) & ((1u << count) - 1);
        uint32_t apart = wanted;
        ManyRays search(at_address<WideNode>(wide), at_address<FaceBlock>(corners), any != 0);
        if (node_count > 0 && !below) {
            Rays given[2];
            for (int half = 0; half < 2; ++half) given[half] = rays_at(rays + first, width, kWide * half, count);
            apart = search.run(given, wanted);
        }
        for (int i = 0; i < count; ++i) {
            const bool is_apart = apart >> i & 1, there = wanted >> i & 1;
            faces[first + i] = is_apart ? alone(first + i) : there ? search.face(i) : 0;
        }
    }
}

}  // extern "C"
#endif
