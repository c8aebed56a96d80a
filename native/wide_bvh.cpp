// Makes wide trees of binary ones (see wide_bvh.h).
#include "wide_bvh.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "algorithms.h"
#include "bvh.h"

namespace wl {

namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

// Takes the nodes of a binary tree together. It counts first, so that there is memory of the right size, then writes.
class Widener {
  public:
    Widener(const BinaryNode* nodes, int32_t count) : nodes_(nodes), items_(static_cast<size_t>(count)) {
        for (int32_t i = count - 1; i >= 0; --i) {  // children come after their parents
            items_[static_cast<size_t>(i)] = is_leaf(i) ? nodes[i].skip : items_of(i + 1) + items_of(second_child(i));
        }
    }

    // Writes the tree; only counts where `wide` is null.
    void run(WideNode* wide, int32_t* places, FaceBlock* blocks, int32_t* starts, const int32_t* order) {
        wide_ = wide, places_ = places, blocks_ = blocks, starts_ = starts, order_ = order;
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
        starts_[made] = first, starts_[made + 1] = first + items_of(node);
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
    int32_t* starts_ = nullptr;
    const int32_t* order_ = nullptr;
};

// ---- Python

PyObject* count_wide(PyObject*, PyObject* args) {
    PyObject* nodes;
    int node_count;
    if (!PyArg_ParseTuple(args, "Oi:count_wide", &nodes, &node_count)) return nullptr;
    const auto* tree = memory_of<BinaryNode>(nodes, 8 * int64_t{node_count});
    if (!tree) return nullptr;
    Widener widener(tree, node_count);
    widener.run(nullptr, nullptr, nullptr, nullptr, nullptr);
    return Py_BuildValue("ii", widener.wide_count, widener.block_count);
}

PyObject* widen_bvh(PyObject*, PyObject* args) {
    PyObject *nodes, *order, *wide, *places, *blocks, *starts;
    int node_count, count, wide_count, block_count;
    if (!PyArg_ParseTuple(args, "OiOiOiOOOi:widen_bvh", &nodes, &node_count, &order, &count, &wide, &wide_count,
                          &places, &blocks, &starts, &block_count)) {
        return nullptr;
    }
    const auto* tree = memory_of<BinaryNode>(nodes, 8 * int64_t{node_count});
    const auto* items = memory_of<int32_t>(order, count);
    auto* wide_nodes = memory_of<WideNode>(wide, int64_t{wide_count} * (sizeof(WideNode) / 4));
    auto* item_places = memory_of<int32_t>(places, count);
    auto* face_blocks = memory_of<FaceBlock>(blocks, int64_t{block_count} * kBlockWords);
    auto* first_items = memory_of<int32_t>(starts, int64_t{block_count} + 1);
    if (PyErr_Occurred()) return nullptr;
    Widener(tree, node_count).run(wide_nodes, item_places, face_blocks, first_items, items);
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"count_wide", count_wide, METH_VARARGS,
     "count_wide($module, nodes, node_count, /)\n--\n\nReturn how many nodes and blocks of faces the wide tree of a "
     "hierarchy has."},
    {"widen_bvh", widen_bvh, METH_VARARGS,
     "widen_bvh($module, nodes, node_count, order, count, wide, wide_count, places, blocks, starts, block_count, "
     "/)\n--\n\nWrite the wide tree of a hierarchy over `count` faces, where in the blocks each face is, and which "
     "face "
     "in the order each block starts with."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_wide_bvh(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
