// Makes wide trees of binary ones, and keeps both in step with a mesh's points (see wide_bvh.h).
#include "wide_bvh.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "algorithms.h"
#include "bvh.h"
#include "parallel.h"

namespace wl {

namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

Corners corners_of(const float* points, int32_t point_count, const int32_t* indices) {
    Corners made{points, indices, point_count - 1, {}};
    if (made.last >= 0) std::memcpy(made.padded, points + 3 * int64_t{made.last}, 12);
    return made;
}

// A point, of which four numbers can be read.
const float* point_of(const Corners& mesh, int32_t i) {
    return i == mesh.last ? mesh.padded : mesh.points + 3 * int64_t{i};
}

// Takes the nodes of a binary tree together. It counts first, so that there is memory of the right size, then writes.
class Widener {
  public:
    Widener(const BinaryNode* nodes, int32_t count) : nodes_(nodes), items_(static_cast<size_t>(count)) {
        for (int32_t i = count - 1; i >= 0; --i) {  // children come after their parents
            items_[static_cast<size_t>(i)] = is_leaf(i) ? nodes[i].skip : items_of(i + 1) + items_of(second_child(i));
        }
    }

    // Writes the tree; only counts where `wide` is null.
    void run(WideNode* wide, int32_t* places, FaceBlock* blocks, const int32_t* order) {
        wide_ = wide, places_ = places, blocks_ = blocks, order_ = order;
        wide_count = block_count = 0;
        if (items_.empty()) return;
        if (items_of(0) > kWide) {
            inner(0);
            return;
        }
        const int32_t only[1] = {0};
        write_children(wide_count++, only, 1);
    }

    int32_t wide_count = 0, block_count = 0;

  private:
    bool is_leaf(int32_t i) const { return nodes_[i].first >= 0; }
    int32_t second_child(int32_t i) const { return is_leaf(i + 1) ? i + 2 : nodes_[i + 1].skip; }
    int32_t items_of(int32_t i) const { return items_[static_cast<size_t>(i)]; }

    float half_area(int32_t i) const {
        const BinaryNode& n = nodes_[i];
        const float x = n.upper[0] - n.lower[0], y = n.upper[1] - n.lower[1], z = n.upper[2] - n.lower[2];
        return x >= 0 ? x * y + y * z + z * x : 0;
    }

    // Makes the wide node for a binary one with more faces than a block holds.
    int32_t inner(int32_t node) {
        int32_t children[kWide] = {node + 1, second_child(node)};
        int count = 2;
        while (count < kWide) {  // open the largest
            int best = -1;
            for (int k = 0; k < count; ++k) {
                if (items_of(children[k]) > kWide && (best < 0 || half_area(children[k]) > half_area(children[best]))) {
                    best = k;
                }
            }
            if (best < 0) break;
            const int32_t opened = children[best];
            children[best] = opened + 1;
            children[count++] = second_child(opened);
        }
        std::sort(children, children + count);  // so that all that a refit goes through lies in one order
        const int32_t made = wide_count++;
        write_children(made, children, count);
        return made;
    }

    void write_children(int32_t made, const int32_t* children, int count) {
        for (int k = 0; k < kWide; ++k) {
            int32_t child = 0;
            if (k < count) child = items_of(children[k]) > kWide ? inner(children[k]) : ~block(children[k]);
            if (!wide_) continue;
            wide_[made].child[k] = child;
            wide_[made].source[k] = k < count ? children[k] : -1;
        }
    }

    // Puts the faces below `node`, which lie together, into a block.
    int32_t block(int32_t node) {
        const int32_t made = block_count++;
        if (!wide_) return made;
        int32_t leaf = node;
        while (!is_leaf(leaf)) ++leaf;
        const int32_t first = nodes_[leaf].first;
        for (int32_t k = 0; k < kWide; ++k) {
            const bool there = k < items_of(node);
            blocks_[made].face[k] = there ? order_[first + k] : kNoFace;
            if (there) places_[first + k] = kBlockWords * made + k;
            for (auto& row : blocks_[made].corner) row[k] = kNone;
        }
        return made;
    }

    const BinaryNode* nodes_;
    std::vector<int32_t> items_;  // below each node
    WideNode* wide_ = nullptr;
    int32_t* places_ = nullptr;
    FaceBlock* blocks_ = nullptr;
    const int32_t* order_ = nullptr;
};

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

Four vector_at(const float* p) {
    Four found;
    std::memcpy(&found, p, sizeof found);
    return found;
}

// Writes four numbers past the caches where that can be: a block is read by searches alone, and to fetch what was there
// would take as long as all else.
void stream(float* to, Four x) {
#ifdef __SSE2__
    _mm_stream_ps(to, x);
#else
    std::memcpy(to, &x, sizeof x);
#endif
}

// Lets other threads see what was streamed before they see what is written after.
void finish_streams() {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

// Writes the corners of four boxes, of which each row has a coordinate.
void write_corners(const Four* rows, float (*corners)[4]) {
    Four made[4] = {rows[0], rows[1], rows[2], four(0)};
    transpose(made[0], made[1], made[2], made[3]);
    for (int i = 0; i < 4; ++i) std::memcpy(corners[i], &made[i], sizeof made[i]);
}

// Takes the corners of a block's faces, and finds their boxes. `wl_fill_block` does the same.
void fill(FaceBlock* block, const Corners* mesh, const int32_t* faces, int32_t count, FaceBoxes* boxes) {
    static const float none[4] = {kNone, kNone, kNone, kNone};
    const float* at[3][kWide];
    FaceBlock made;
    for (int k = 0; k < kWide; ++k) {
        const bool there = k < count;
        made.face[k] = there ? faces[k] : kNoFace;
        const int32_t* corners = mesh->indices + (there ? 3 * int64_t{faces[k]} : 0);
        for (int c = 0; c < 3; ++c) at[c][k] = there ? point_of(*mesh, corners[c]) : none;
    }
    for (int k = 0; k < kWide; k += 4) {  // vectors of faces
        Four lower[3], upper[3];
        for (int axis = 0; axis < 3; ++axis) lower[axis] = four(kInfinity), upper[axis] = four(-kInfinity);
        for (int c = 0; c < 3; ++c) {
            Four x = vector_at(at[c][k]), y = vector_at(at[c][k + 1]);
            Four z = vector_at(at[c][k + 2]), rest = vector_at(at[c][k + 3]);
            transpose(x, y, z, rest);
            const Four rows[3] = {x, y, z};
            for (int axis = 0; axis < 3; ++axis) {
                std::memcpy(&made.corner[3 * c + axis][k], &rows[axis], sizeof rows[axis]);
                lower[axis] = least(rows[axis], lower[axis]);
                upper[axis] = most(rows[axis], upper[axis]);
            }
        }
        write_corners(lower, boxes->lower + k);
        write_corners(upper, boxes->upper + k);
    }
    mark_degenerate(made);
    float* to = block->corner[0];
    const float* from = made.corner[0];
    for (int i = 0; i < kBlockWords; i += 4) stream(to + i, vector_at(from + i));
}

using Fill = decltype(&fill);
#ifdef WL_WIDE_SEARCH
const Fill fill_block = __builtin_cpu_supports("avx2") ? wl_fill_block : fill;
#else
const Fill fill_block = fill;
#endif

// Writes `count` boxes, at least one, one after the other.
void write_boxes(const FaceBoxes& boxes, int32_t count, float* to) {
    const int32_t last = count - 1;
    for (int32_t k = 0; k < last; ++k) {  // vectors, of which the next one overwrites the last number
        std::memcpy(to + 6 * k, boxes.lower[k], 16);
        std::memcpy(to + 6 * k + 3, boxes.upper[k], 16);
    }
    std::memcpy(to + 6 * last, boxes.lower[last], 12);
    std::memcpy(to + 6 * last + 3, boxes.upper[last], 12);
}

// The tree over the faces of a mesh.
struct Faces {
    BinaryNode* nodes;
    const int32_t* order;
    float* boxes;   // in this order
    int32_t count;  // of faces

    // Fits a block, and the leaves below a node, whose faces are those of the block.
    void fit(FaceBlock& block, const Corners& mesh, int32_t of) const {
        const BinaryNode& node = nodes[of];
        const int32_t end = node.first < 0 ? node.skip : of + 1;
        while (nodes[of].first < 0) ++of;
        const int32_t first = nodes[of].first;
        int32_t all = 0;
        for (int32_t i = of; i < end; ++i) all += nodes[i].first < 0 ? 0 : nodes[i].skip;
        prefetch(first + 8 * kWide, mesh);
        FaceBoxes found;
        fill_block(&block, &mesh, order + first, all, &found);
        write_boxes(found, all, boxes + 6 * int64_t{first});
        for (int32_t i = of, k = 0; i < end; ++i) {
            if (nodes[i].first < 0) continue;
            Box leaf;
            for (const int32_t stop = k + nodes[i].skip; k < stop; ++k) {
                leaf.add(vector_at(found.lower[k]), vector_at(found.upper[k]));
            }
            set_box(nodes[i], leaf);
        }
    }

  private:
    // Asks for the corners' numbers of faces that come soon: some of a block's, as there are not always 8.
    void prefetch(int32_t first, const Corners& mesh) const {
        const int32_t stop = std::min(first + 6, count);
        for (int32_t k = first; k < stop; ++k) __builtin_prefetch(mesh.indices + 3 * int64_t{order[k]});
    }
};

void fit(WideNode& node, const BinaryNode* nodes) {
    for (int k = 0; k < kWide; ++k) {
        const Box box = node.source[k] < 0 ? Box() : box_of(nodes[node.source[k]]);
        for (int axis = 0; axis < 3; ++axis)
            node.lower[axis][k] = box.lower[axis], node.upper[axis][k] = box.upper[axis];
    }
}

// ---- Python

PyObject* count_wide(PyObject*, PyObject* args) {
    PyObject* nodes;
    int node_count;
    if (!PyArg_ParseTuple(args, "Oi:count_wide", &nodes, &node_count)) return nullptr;
    const auto* tree = memory_of<BinaryNode>(nodes, 8 * int64_t{node_count});
    if (!tree) return nullptr;
    Widener widener(tree, node_count);
    widener.run(nullptr, nullptr, nullptr, nullptr);
    return Py_BuildValue("ii", widener.wide_count, widener.block_count);
}

PyObject* widen_bvh(PyObject*, PyObject* args) {
    PyObject *nodes, *order, *wide, *places, *blocks;
    int node_count, count, wide_count, block_count;
    if (!PyArg_ParseTuple(args, "OiOiOiOOi:widen_bvh", &nodes, &node_count, &order, &count, &wide, &wide_count, &places,
                          &blocks, &block_count)) {
        return nullptr;
    }
    const auto* tree = memory_of<BinaryNode>(nodes, 8 * int64_t{node_count});
    const auto* items = memory_of<int32_t>(order, count);
    auto* wide_nodes = memory_of<WideNode>(wide, int64_t{wide_count} * (sizeof(WideNode) / 4));
    auto* item_places = memory_of<int32_t>(places, count);
    auto* face_blocks = memory_of<FaceBlock>(blocks, int64_t{block_count} * kBlockWords);
    if (PyErr_Occurred()) return nullptr;
    Widener(tree, node_count).run(wide_nodes, item_places, face_blocks, items);
    Py_RETURN_NONE;
}

PyObject* fit_faces(PyObject*, PyObject* args) {
    PyObject *nodes, *order, *boxes, *wide, *blocks, *points, *indices;
    int node_count, count, wide_count, block_count, point_count;
    if (!PyArg_ParseTuple(args, "OiOOiOiOiOiO:fit_faces", &nodes, &node_count, &order, &boxes, &count, &wide,
                          &wide_count, &blocks, &block_count, &points, &point_count, &indices)) {
        return nullptr;
    }
    auto* tree = memory_of<BinaryNode>(nodes, 8 * int64_t{node_count});
    const auto* items = memory_of<int32_t>(order, count);
    auto* wide_nodes = memory_of<WideNode>(wide, int64_t{wide_count} * (sizeof(WideNode) / 4));
    auto* face_blocks = memory_of<FaceBlock>(blocks, int64_t{block_count} * kBlockWords);
    const auto* vertices = memory_of<float>(points, 3 * int64_t{point_count});
    const auto* corners = memory_of<int32_t>(indices, 3 * int64_t{count});
    auto* face_boxes = memory_of<float>(boxes, 6 * int64_t{count});
    if (PyErr_Occurred()) return nullptr;
    const Corners mesh = corners_of(vertices, point_count, corners);
    const Faces faces{tree, items, face_boxes, count};
    auto fit_blocks = [=, &mesh](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const WideNode& node = wide_nodes[i];
            __builtin_prefetch(wide_nodes[std::min(i + 8, end - 1)].child);
            for (int k = 0; k < kWide; ++k) {
                if (node.child[k] < 0) faces.fit(face_blocks[~node.child[k]], mesh, node.source[k]);
            }
        }
        finish_streams();
    };
    auto fit_nodes = [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) fit(wide_nodes[i], tree);
    };
    if (!parallel(wide_count, fit_blocks)) return nullptr;
    fit_inner(tree, node_count);
    if (!parallel(wide_count, fit_nodes)) return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"count_wide", count_wide, METH_VARARGS,
     "count_wide($module, nodes, node_count, /)\n--\n\nReturn how many nodes and blocks of faces the wide tree of a "
     "hierarchy has."},
    {"widen_bvh", widen_bvh, METH_VARARGS,
     "widen_bvh($module, nodes, node_count, order, count, wide, wide_count, places, blocks, block_count, /)\n--\n\n"
     "Write the wide tree of a hierarchy over `count` faces, and where in the blocks each face is."},
    {"fit_faces", fit_faces, METH_VARARGS,
     "fit_faces($module, nodes, node_count, order, boxes, count, wide, wide_count, blocks, block_count, points, "
     "point_count, indices, /)\n--\n\nFit a hierarchy over `count` faces and its wide tree to points that have moved."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_wide_bvh(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
