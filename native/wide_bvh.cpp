// Makes wide trees of binary ones (see wide_bvh.h). Nodes and blocks of small subtrees are counted by all threads, then
// written by all: what comes before says where.
#include "wide_bvh.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "algorithms.h"
#include "bvh.h"
#include "parallel.h"

namespace wl {

namespace {

constexpr int32_t kPart = 4096;  // the most binary nodes of a subtree that one thread goes through at once
constexpr double kPartNs = 30e3;

// A binary tree, and how many items are below each node.
class Source {
  public:
    Source(const BinaryNode* nodes, int32_t count)
        : nodes_(nodes), count_(count), items_(new int32_t[static_cast<size_t>(count)]) {}

    // False with an exception set where it was interrupted.
    bool count_items() {
        std::vector<int32_t> parts, top;
        for (int32_t i = 0; i < count_;) {
            (is_small(i) ? parts : top).push_back(i);
            i = is_small(i) ? end_of(nodes_, i) : i + 1;
        }
        auto work = [this, &parts](int64_t begin, int64_t end) {
            for (int64_t p = begin; p < end; ++p) {
                const int32_t first = parts[static_cast<size_t>(p)];
                for (int32_t i = end_of(nodes_, first) - 1; i >= first; --i) count_items(i);
            }
        };
        if (!parallel(static_cast<int64_t>(parts.size()), work, kPartNs)) return false;
        for (size_t k = top.size(); k-- > 0;) count_items(top[k]);
        return true;
    }

    int32_t count() const { return count_; }
    bool is_small(int32_t i) const { return end_of(nodes_, i) - i <= kPart; }
    int32_t second_child(int32_t i) const { return end_of(nodes_, i + 1); }
    int32_t items(int32_t i) const { return items_[static_cast<size_t>(i)]; }
    int32_t first_item(int32_t i) const {
        while (nodes_[i].first < 0) ++i;
        return nodes_[i].first;
    }
    float half_area(int32_t i) const {
        const BinaryNode& n = nodes_[i];
        const float x = n.upper[0] - n.lower[0], y = n.upper[1] - n.lower[1], z = n.upper[2] - n.lower[2];
        return x >= 0 ? x * y + y * z + z * x : 0;
    }

  private:
    void count_items(int32_t i) {  // after those of its children, which come later
        const BinaryNode& n = nodes_[i];
        items_[static_cast<size_t>(i)] = n.first < 0 ? items(i + 1) + items(second_child(i)) : n.skip;
    }

    const BinaryNode* nodes_;
    int32_t count_;
    std::unique_ptr<int32_t[]> items_;
};

// Where a wide tree is written. Boxes, and what blocks hold, are found by the fit that follows.
struct Target {
    WideNode* wide = nullptr;  // null: nodes and blocks are only counted
    int32_t* places = nullptr;
    int32_t* starts = nullptr;
};

// A subtree that one thread goes through: how many nodes and blocks it has, and the numbers of the first ones.
struct Part {
    int32_t node;
    int32_t wide_count = 0, block_count = 0;
    int32_t first_wide = 0, first_block = 0;
};

// Takes the nodes of a binary tree together: of all of it, or of a subtree.
class Widener {
  public:
    Widener(const Source& source, const Target& target, int32_t first_wide, int32_t first_block)
        : wide_count(first_wide), block_count(first_block), source_(source), target_(target) {}

    // Goes through the tree but the small subtrees, which it appends to `parts`.
    void find_parts(std::vector<Part>* parts) {
        parts_ = parts, finds_ = true;
        root();
    }
    // Goes through it again, and finds the places of these parts, which are counted.
    void place_parts(std::vector<Part>* parts) {
        parts_ = parts;
        root();
    }
    // Makes the wide node for a binary one with more items than a block holds.
    int32_t inner(int32_t node) {
        int32_t children[kWide] = {node + 1, source_.second_child(node)};
        float areas[kWide] = {area(children[0]), area(children[1])};
        int count = 2;
        while (count < kWide) {  // open the largest
            int best = -1;
            for (int k = 0; k < count; ++k) {
                if (areas[k] != kClosed && (best < 0 || areas[k] > areas[best])) best = k;
            }
            if (best < 0) break;
            const int32_t opened = children[best];
            children[best] = opened + 1, areas[best] = area(opened + 1);
            children[count] = source_.second_child(opened), areas[count] = area(children[count]);
            ++count;
        }
        std::sort(children, children + count);  // so that all that a refit goes through lies in one order
        const int32_t made = wide_count++;
        write_children(made, children, count);
        return made;
    }

    int32_t wide_count, block_count;  // the numbers of the next ones

  private:
    static constexpr float kClosed = -1;

    // By what it is chosen among children to be opened; `kClosed` for what goes into a block.
    float area(int32_t node) const { return source_.items(node) > kWide ? source_.half_area(node) : kClosed; }

    void root() {
        if (!source_.count()) return;
        if (source_.items(0) > kWide) {
            subtree(0);
            return;
        }
        const int32_t only[1] = {0};
        write_children(wide_count++, only, 1);
    }

    int32_t subtree(int32_t node) {
        if (!parts_ || !source_.is_small(node)) return inner(node);
        if (finds_) {
            parts_->push_back({node});
            return 0;
        }
        Part& part = (*parts_)[next_part_++];
        part.first_wide = wide_count, part.first_block = block_count;
        wide_count += part.wide_count, block_count += part.block_count;
        return part.first_wide;
    }

    void write_children(int32_t made, const int32_t* children, int count) {
        for (int k = 0; k < kWide; ++k) {
            int32_t child = 0;
            if (k < count) child = source_.items(children[k]) > kWide ? subtree(children[k]) : ~block(children[k]);
            if (!target_.wide) continue;
            target_.wide[made].child[k] = child;
            target_.wide[made].source[k] = k < count ? children[k] : -1;
        }
    }

    // Puts the faces below `node`, which lie together, into a block.
    int32_t block(int32_t node) {
        const int32_t made = block_count++;
        if (!target_.wide) return made;
        const int32_t first = source_.first_item(node), count = source_.items(node);
        target_.starts[made] = first;
        for (int32_t k = 0; k < count; ++k) target_.places[first + k] = kBlockWords * made + k;
        return made;
    }

    const Source& source_;
    const Target target_;
    std::vector<Part>* parts_ = nullptr;
    bool finds_ = false;
    size_t next_part_ = 0;
};

// Counts nodes and blocks; writes them too where there is a target. False with an exception set where it was
// interrupted.
bool widen(const BinaryNode* nodes, int32_t node_count, const Target& target, int32_t* wide_count,
           int32_t* block_count) {
    Source source(nodes, node_count);
    if (!source.count_items()) return false;
    std::vector<Part> parts;
    Widener(source, {}, 0, 0).find_parts(&parts);
    auto count = [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
            Part& part = parts[static_cast<size_t>(p)];
            Widener widener(source, {}, 0, 0);
            widener.inner(part.node);
            part.wide_count = widener.wide_count, part.block_count = widener.block_count;
        }
    };
    if (!parallel(static_cast<int64_t>(parts.size()), count, kPartNs)) return false;
    Widener top(source, target, 0, 0);
    top.place_parts(&parts);
    *wide_count = top.wide_count, *block_count = top.block_count;
    if (!target.wide) return true;
    target.starts[top.block_count] = node_count ? source.items(0) : 0;
    auto write = [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
            const Part& part = parts[static_cast<size_t>(p)];
            Widener(source, target, part.first_wide, part.first_block).inner(part.node);
        }
    };
    return parallel(static_cast<int64_t>(parts.size()), write, kPartNs);
}

// ---- Python

PyObject* count_wide(PyObject*, PyObject* args) {
    PyObject* nodes;
    int node_count;
    if (!PyArg_ParseTuple(args, "Oi:count_wide", &nodes, &node_count)) return nullptr;
    const auto* tree = memory_of<BinaryNode>(nodes, 8 * int64_t{node_count});
    if (!tree) return nullptr;
    int32_t wide_count, block_count;
    if (!widen(tree, node_count, {}, &wide_count, &block_count)) return nullptr;
    return Py_BuildValue("ii", wide_count, block_count);
}

PyObject* widen_bvh(PyObject*, PyObject* args) {
    PyObject *nodes, *wide, *places, *starts;
    int node_count, count, wide_count, block_count;
    if (!PyArg_ParseTuple(args, "OiiOiOOi:widen_bvh", &nodes, &node_count, &count, &wide, &wide_count, &places, &starts,
                          &block_count)) {
        return nullptr;
    }
    const auto* tree = memory_of<BinaryNode>(nodes, 8 * int64_t{node_count});
    const Target target{memory_of<WideNode>(wide, int64_t{wide_count} * (sizeof(WideNode) / 4)),
                        memory_of<int32_t>(places, count), memory_of<int32_t>(starts, int64_t{block_count} + 1)};
    if (PyErr_Occurred() || !widen(tree, node_count, target, &wide_count, &block_count)) return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"count_wide", count_wide, METH_VARARGS,
     "count_wide($module, nodes, node_count, /)\n--\n\nReturn how many nodes and blocks of faces the wide tree of a "
     "hierarchy has."},
    {"widen_bvh", widen_bvh, METH_VARARGS,
     "widen_bvh($module, nodes, node_count, count, wide, wide_count, places, starts, block_count, /)\n--\n\nWrite the "
     "wide tree of a hierarchy over `count` faces, where in the blocks each face is, and which face in the order each "
     "block starts with. `fit_faces` finds the boxes, and fills the blocks."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_wide_bvh(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
