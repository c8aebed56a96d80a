// Refits of trees whose items have moved: boxes change, the structure stays.
//
// Nodes lie in preorder, so from the last to the first, children come before their parents. Parts that stay in a
// thread's cache are fitted each by itself, on all threads; then the nodes above them. A part of the faces of a mesh is
// its blocks, its nodes of the binary tree, and those of the wide tree (wide_bvh.h) that was made of it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "algorithms.h"
#include "bvh.h"
#include "parallel.h"
#include "wide_bvh.h"

namespace wl {

namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kBoxBytes = 24;
constexpr int32_t kSubtree = 8192;  // the most nodes of a subtree that one thread fits at once: they stay in its cache
constexpr double kSubtreeNs = 30e3;

// Writes four numbers past the caches where that can be. Searches alone read them, and to fetch what was there would
// take as long as all else.
void stream(float* to, Four x) {
#ifdef __SSE2__
    _mm_stream_ps(to, x);
#else
    std::memcpy(to, &x, sizeof x);
#endif
}

// Asks for the memory of nodes that are fitted soon.
constexpr int32_t kNodesAhead = 64, kWideAhead = 4;
void fetch(const BinaryNode* node) { __builtin_prefetch(node, 1); }
void fetch(const WideNode* node) {
    const char* lines = reinterpret_cast<const char*>(node);
    for (size_t at = 0; at < sizeof *node; at += 64) __builtin_prefetch(lines + at, 1);
}

// Lets other threads see what was streamed before they see what is written after.
void finish_streams() {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

// Writes boxes past the caches.
void stream_boxes(float* to, const float* from, int64_t count) {
    int64_t i = 0;
    for (; i < 6 * count && reinterpret_cast<uintptr_t>(to + i) % 16; ++i) to[i] = from[i];
    for (; i + 4 <= 6 * count; i += 4) stream(to + i, vector_at(from + i));
    for (; i < 6 * count; ++i) to[i] = from[i];
}

bool is_small(const BinaryNode* nodes, int32_t i) { return end_of(nodes, i) - i <= kSubtree; }

// Fits nodes from the last to the first, so that children come before their parents, to the boxes of items: six numbers
// each, in the order of the leaves, from item `first` on.
class Fitter {
  public:
    Fitter(BinaryNode* nodes, const float* boxes, int64_t first)
        : nodes_(nodes), items_(reinterpret_cast<intptr_t>(boxes) - kBoxBytes * first) {}

    // Fits the nodes [begin, end). Parents take their children from those that were fitted or skipped last.
    void fit(int32_t begin, int32_t end) {
        float (*top)[8] = top_;
        for (int32_t i = end - 1; i >= begin; --i) {
            fetch(nodes_ + std::max(i - kNodesAhead, begin));
            top = fit(nodes_[i], top);
        }
        top_ = top;
    }
    // Takes a node that is fitted, in place of its subtree.
    void skip(const BinaryNode& node) {
        ++top_;
        std::memcpy(*top_, node.lower, 16);
        std::memcpy(*top_ + 4, node.lower + 2, 16);
    }

  private:
    // To tell leaves from inner nodes, and small leaves from large ones, takes longer than to add a box twice: there
    // are no branches but for leaves of more than four items.
    float (*fit(BinaryNode& node, float (*top)[8]) const)[8] {
        const int64_t inner = node.first >> 31;  // all bits, or none
        const auto choose = [inner](int64_t a, int64_t b) { return (a & inner) | (b & ~inner); };
        // The boxes to add up: rows of `step` numbers, with the upper corner's from `upper` on, after one that is not.
        const auto* row = reinterpret_cast<const float*>(
            choose(reinterpret_cast<intptr_t>(*top), items_ + kBoxBytes * int64_t{node.first}));
        const int64_t step = choose(-8, 6), last = choose(1, node.skip - 1), upper = choose(4, 2);
        Four low = four(kInfinity), high = four(-kInfinity);
        auto add = [&](int64_t k) {  // NaN changes nothing
            low = least(vector_at(row + k * step), low);
            high = most(vector_at(row + k * step + upper), high);
        };
        add(0);
        add(std::min<int64_t>(1, last));
        add(std::min<int64_t>(2, last));
        for (int64_t k = 3; k < last; ++k) add(k);
        add(last);
        top += choose(-1, 1);
        std::memcpy(*top, &low, sizeof low);
        std::memcpy(*top + 4, &high, sizeof high);
        low[3] = high[1];
        std::memcpy(node.lower + 2, &high, sizeof high);  // then over its first number, which is none
        std::memcpy(node.lower, &low, sizeof low);
        return top;
    }

    BinaryNode* nodes_;
    intptr_t items_;  // the address of the box of item 0, where that one is not among the boxes
    // Boxes whose parents come next, the leftmost last: the lower corner, a number that is none, another, the upper
    // one.
    float open_[kMaxDepth + 2][8];
    float (*top_)[8] = open_;
};

// A part of a tree that one thread fits: small subtrees of it, which lie together.
struct Part {
    int32_t begin, end;            // nodes
    int32_t wide_begin, wide_end;  // of a mesh, the nodes of the wide tree over the same items
    int64_t first, last;           // items
};

// Sets what items the parts have: those below the nodes between parts belong to the part before them.
void set_items(const BinaryNode* nodes, int64_t count, std::vector<Part>& parts) {
    int64_t last = count;
    for (size_t k = parts.size(); k-- > 0;) {
        int32_t leaf = parts[k].begin;
        while (nodes[leaf].first < 0) ++leaf;
        parts[k].first = k ? nodes[leaf].first : 0;
        parts[k].last = last;
        last = parts[k].first;
    }
}

// Fits the nodes between parts, which are fitted.
void fit_top(BinaryNode* nodes, int32_t count, const float* boxes, const std::vector<Part>& parts) {
    Fitter fitter(nodes, boxes, 0);
    int32_t end = count;
    for (size_t k = parts.size(); k-- > 0;) {
        fitter.fit(parts[k].end, end);
        fitter.skip(nodes[parts[k].begin]);
        end = parts[k].begin;
    }
    fitter.fit(0, end);
}

// ---- trees over boxes

struct Boxes {
    const float *lowers, *uppers;
    const int32_t* order;
    float* ordered;  // both corners of each box, in this order
    int64_t count;
};

bool fit_boxes(BinaryNode* nodes, int32_t node_count, const Boxes& boxes) {
    std::vector<Part> parts;
    for (int32_t i = 0; i < node_count;) {
        const int32_t end = is_small(nodes, i) ? end_of(nodes, i) : i + 1;
        if (is_small(nodes, i)) parts.push_back({i, end, 0, 0, 0, 0});
        i = end;
    }
    set_items(nodes, boxes.count, parts);
    auto work = [=, &boxes, &parts](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
            const Part& part = parts[static_cast<size_t>(p)];
            for (int64_t k = part.first; k < part.last; ++k) {
                std::memcpy(boxes.ordered + 6 * k, boxes.lowers + 3 * int64_t{boxes.order[k]}, 12);
                std::memcpy(boxes.ordered + 6 * k + 3, boxes.uppers + 3 * int64_t{boxes.order[k]}, 12);
            }
            Fitter(nodes, boxes.ordered, 0).fit(part.begin, part.end);
        }
    };
    if (!parallel(static_cast<int64_t>(parts.size()), work, kSubtreeNs)) return false;
    fit_top(nodes, node_count, boxes.ordered, parts);
    return true;
}

// ---- blocks of faces

float larger(float a, float b) { return a > b ? a : b; }
float largest(float x, float y, float z) { return larger(std::fabs(x), larger(std::fabs(y), std::fabs(z))); }

// A power of 2 that makes a length about 1. Products of four lengths leave the range of float from 1e9 on, and below
// 1e-10.
float scale_of(float length) {
    uint32_t bits;
    std::memcpy(&bits, &length, sizeof bits);
    bits = 0x7F000000u - (bits & 0x7F800000u);
    float scale;
    std::memcpy(&scale, &bits, sizeof scale);
    return scale;
}

// Finds the faces that have no area beside their longest edge, so that no point of them counts as the nearest.
void mark_degenerate(FaceBlock& block) {
    const auto& p = block.corner;
    bool degenerate[kWide];
    for (int k = 0; k < kWide; ++k) {  // vectors of faces
        float ex = p[3][k] - p[0][k], ey = p[4][k] - p[1][k], ez = p[5][k] - p[2][k];
        float fx = p[6][k] - p[0][k], fy = p[7][k] - p[1][k], fz = p[8][k] - p[2][k];
        float gx = p[6][k] - p[3][k], gy = p[7][k] - p[4][k], gz = p[8][k] - p[5][k];
        const float s = scale_of(larger(largest(ex, ey, ez), largest(fx, fy, fz)));
        ex *= s, ey *= s, ez *= s, fx *= s, fy *= s, fz *= s, gx *= s, gy *= s, gz *= s;
        const float e = ex * ex + ey * ey + ez * ez, f = fx * fx + fy * fy + fz * fz;
        const float g = gx * gx + gy * gy + gz * gz;
        const float x = ey * fz - ez * fy, y = ez * fx - ex * fz, z = ex * fy - ey * fx;
        const float longest = larger(larger(e, f), g);
        degenerate[k] = !(x * x + y * y + z * z > 1.0e-12f * longest * longest);
    }
    for (int k = 0; k < kWide; ++k) {
        if (degenerate[k] && block.face[k] != kNoFace) block.face[k] = ~block.face[k];
    }
}

// Writes the corners of four boxes, of which each row has a coordinate. The number behind each corner is the next
// one's.
void write_corners(const Four* lower, const Four* upper, float* boxes) {
    Four low[4] = {lower[0], lower[1], lower[2], upper[0]}, high[4] = {upper[0], upper[1], upper[2], four(0)};
    transpose(low[0], low[1], low[2], low[3]);
    transpose(high[0], high[1], high[2], high[3]);
    for (int i = 0; i < 4; ++i) {
        std::memcpy(boxes + 6 * i, &low[i], 12);
        std::memcpy(boxes + 6 * i + 3, &high[i], 12);
    }
}

// Takes the corners of a block's faces, and finds their boxes, of which there is room for eight.
void fill(FaceBlock& block, const Corners& mesh, const int32_t* faces, int32_t count, float* boxes) {
    static const float none[3] = {kNone, kNone, kNone};
    const float* at[3][kWide];
    FaceBlock made;
    for (int k = 0; k < kWide; ++k) {
        const bool there = k < count;
        made.face[k] = there ? faces[k] : kNoFace;
        const int32_t* corners = mesh.indices + (there ? 3 * int64_t{faces[k]} : 0);
        for (int c = 0; c < 3; ++c) at[c][k] = there ? mesh.points + 3 * int64_t{corners[c]} : none;
    }
    for (int k = 0; k < kWide; k += 4) {  // vectors of faces
        Four lower[3], upper[3];
        for (int axis = 0; axis < 3; ++axis) lower[axis] = four(kInfinity), upper[axis] = four(-kInfinity);
        for (int c = 0; c < 3; ++c) {
            Four x = three(at[c][k]), y = three(at[c][k + 1]), z = three(at[c][k + 2]), rest = three(at[c][k + 3]);
            transpose(x, y, z, rest);
            const Four rows[3] = {x, y, z};
            for (int axis = 0; axis < 3; ++axis) {
                std::memcpy(&made.corner[3 * c + axis][k], &rows[axis], sizeof rows[axis]);
                lower[axis] = least(rows[axis], lower[axis]);
                upper[axis] = most(rows[axis], upper[axis]);
            }
        }
        write_corners(lower, upper, boxes + 6 * k);
    }
    mark_degenerate(made);
    float* to = block.corner[0];
    const float* from = made.corner[0];
    for (int i = 0; i < kBlockWords; i += 4) stream(to + i, vector_at(from + i));
}

// `wl_fill_blocks` does the same.
void fill_each(FaceBlock* blocks, const int32_t* starts, int32_t begin, int32_t end, const Corners* mesh,
               const int32_t* order, float* boxes) {
    for (int32_t b = begin; b < end; ++b) {
        const int32_t first = starts[b];
        fill(blocks[b], *mesh, order + first, starts[b + 1] - first, boxes + 6 * int64_t{first - starts[begin]});
    }
}

using Fill = decltype(&fill_each);
#ifdef WL_WIDE_SEARCH
const Fill fill_blocks = __builtin_cpu_supports("avx2") ? wl_fill_blocks : fill_each;
#else
const Fill fill_blocks = fill_each;
#endif

// ---- trees over faces

struct FaceTrees {
    BinaryNode* nodes;
    int32_t node_count;
    WideNode* wide;
    int32_t wide_count;
    FaceBlock* blocks;
    const int32_t* starts;  // the first face of each block, by its place in the order, then the number of faces
    int32_t block_count;
    Corners mesh;
    const int32_t* order;
    float* boxes;  // of faces in this order
    int32_t count;

    // Fits a wide node to the binary ones that its children stand for.
    void fit(WideNode& node) const {
        static const float none[6] = {kInfinity, kInfinity, kInfinity, -kInfinity, -kInfinity, -kInfinity};
        for (int k = 0; k < kWide; k += 4) {
            Four low[4], high[4];
            for (int i = 0; i < 4; ++i) {
                const int32_t source = node.source[k + i];
                const float* box = source < 0 ? none : nodes[source].lower;
                low[i] = vector_at(box), high[i] = vector_at(box + 2);
            }
            transpose(low[0], low[1], low[2], low[3]);
            transpose(high[0], high[1], high[2], high[3]);
            for (int axis = 0; axis < 3; ++axis) {
                std::memcpy(node.lower[axis] + k, &low[axis], sizeof low[axis]);
                std::memcpy(node.upper[axis] + k, &high[axis + 1], sizeof high[axis + 1]);
            }
        }
    }

    // The block that begins with a face.
    int32_t block_at(int64_t item) const {
        return static_cast<int32_t>(std::lower_bound(starts, starts + block_count, item) - starts);
    }
};

// Finds the parts below a wide node, which stands for the binary node `of`, and the wide nodes above them.
void find_parts(const FaceTrees& trees, int32_t at, int32_t of, std::vector<Part>& parts, std::vector<int32_t>& top) {
    if (!parts.empty() && parts.back().wide_end < 0) parts.back().wide_end = at;
    if (is_small(trees.nodes, of)) {
        parts.push_back({of, end_of(trees.nodes, of), at, -1, 0, 0});
        return;
    }
    top.push_back(at);
    const WideNode& node = trees.wide[at];
    for (int k = 0; k < kWide; ++k) {
        if (node.child[k] >= 0 && node.source[k] >= 0) find_parts(trees, node.child[k], node.source[k], parts, top);
    }
}

bool fit_trees(const FaceTrees& trees) {
    if (!trees.block_count) return true;
    std::vector<Part> parts;
    std::vector<int32_t> top;
    find_parts(trees, 0, 0, parts, top);
    if (!parts.empty() && parts.back().wide_end < 0) parts.back().wide_end = trees.wide_count;
    set_items(trees.nodes, trees.count, parts);
    auto work = [&trees, &parts](int64_t begin, int64_t end) {
        std::vector<float> found;  // boxes, which stay in the cache
        for (int64_t p = begin; p < end; ++p) {
            const Part& part = parts[static_cast<size_t>(p)];
            const int64_t count = part.last - part.first;
            found.resize(std::max(found.size(), static_cast<size_t>(6 * (count + kWide))));
            fill_blocks(trees.blocks, trees.starts, trees.block_at(part.first), trees.block_at(part.last), &trees.mesh,
                        trees.order, found.data());
            Fitter(trees.nodes, found.data(), part.first).fit(part.begin, part.end);
            stream_boxes(trees.boxes + 6 * part.first, found.data(), count);
            for (int32_t i = part.wide_begin; i < part.wide_end; ++i) {
                fetch(trees.wide + std::min(i + kWideAhead, part.wide_end - 1));
                trees.fit(trees.wide[i]);
            }
        }
        finish_streams();
    };
    if (!parallel(static_cast<int64_t>(parts.size()), work, kSubtreeNs)) return false;
    fit_top(trees.nodes, trees.node_count, trees.boxes, parts);
    for (const int32_t i : top) trees.fit(trees.wide[i]);
    return true;
}

// ---- Python

PyObject* refit_bvh(PyObject*, PyObject* args) {
    PyObject *lowers, *uppers, *order, *boxes, *nodes;
    int count, node_count;
    if (!PyArg_ParseTuple(args, "OOiOOOi:refit_bvh", &lowers, &uppers, &count, &order, &boxes, &nodes, &node_count)) {
        return nullptr;
    }
    const Boxes moved{memory_of<float>(lowers, 3 * int64_t{count}), memory_of<float>(uppers, 3 * int64_t{count}),
                      memory_of<int32_t>(order, count), memory_of<float>(boxes, 6 * int64_t{count}), count};
    auto* tree = memory_of<BinaryNode>(nodes, 8 * int64_t{node_count});
    if (PyErr_Occurred() || !fit_boxes(tree, node_count, moved)) return nullptr;
    Py_RETURN_NONE;
}

PyObject* fit_faces(PyObject*, PyObject* args) {
    PyObject *nodes, *order, *boxes, *wide, *blocks, *starts, *points, *indices;
    int node_count, count, wide_count, block_count, point_count;
    if (!PyArg_ParseTuple(args, "OiOOiOiOOiOiO:fit_faces", &nodes, &node_count, &order, &boxes, &count, &wide,
                          &wide_count, &blocks, &starts, &block_count, &points, &point_count, &indices)) {
        return nullptr;
    }
    const FaceTrees trees{
        memory_of<BinaryNode>(nodes, 8 * int64_t{node_count}),
        node_count,
        memory_of<WideNode>(wide, int64_t{wide_count} * (sizeof(WideNode) / 4)),
        wide_count,
        memory_of<FaceBlock>(blocks, int64_t{block_count} * kBlockWords),
        memory_of<int32_t>(starts, int64_t{block_count} + 1),
        block_count,
        {memory_of<float>(points, 3 * int64_t{point_count}), memory_of<int32_t>(indices, 3 * int64_t{count})},
        memory_of<int32_t>(order, count),
        memory_of<float>(boxes, 6 * int64_t{count}),
        count,
    };
    if (PyErr_Occurred() || !fit_trees(trees)) return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"refit_bvh", refit_bvh, METH_VARARGS,
     "refit_bvh($module, lowers, uppers, count, order, boxes, nodes, node_count, /)\n--\n\nFit the boxes of a "
     "hierarchy to items that have moved."},
    {"fit_faces", fit_faces, METH_VARARGS,
     "fit_faces($module, nodes, node_count, order, boxes, count, wide, wide_count, blocks, starts, block_count, "
     "points, point_count, indices, /)\n--\n\nFit a hierarchy over `count` faces and its wide tree to points that have "
     "moved."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_refit(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
