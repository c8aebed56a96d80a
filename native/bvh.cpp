// Bounding volume hierarchies: building the trees that kernels walk (`builtins/device/bvh.py`).
//
// Nodes lie in preorder. An inner node is followed by its first child; the node after its subtree is its `skip`. So a
// walk needs no stack: it goes on with the next node where a node's box is met, and with its skip where it is not.
//
// All threads split the top of a tree, one level after the other, in pieces of its ranges (`tree_level.h`). Then each
// takes one subtree after the other. The tree does not depend on how many threads there are.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "algorithms.h"
#include "bvh.h"
#include "parallel.h"
#include "platform.h"
#include "tree_level.h"
#include "tree_split.h"

namespace wl {

namespace {

constexpr int64_t kMostPieces = 256;     // of the items
constexpr int64_t kLeastSubtree = 4096;  // items
constexpr int64_t kSubtrees = 16;        // for each thread, at least, of a large tree

BinaryNode node_of(const Box& box, int64_t skip, int64_t first) {
    BinaryNode made{};
    set_box(made, box);
    made.skip = static_cast<int32_t>(skip), made.first = static_cast<int32_t>(first);
    return made;
}

// What a tree is built of: item `i` is the box from `lowers[3 * i]` to `uppers[3 * i]`.
struct Input {
    const float* lowers;
    const float* uppers;
    const int32_t* groups;  // null: none
    int64_t count;
    int method;
    int64_t leaf_size;
};

// What is written: the items in the order of the leaves, and the nodes.
struct Output {
    int32_t* order;
    float* boxes;  // both corners of each
    BinaryNode* nodes;
};

uint32_t spread(uint32_t x) {  // 10 bits, two zeros between each
    x = (x | (x << 16)) & 0x030000FF;
    x = (x | (x << 8)) & 0x0300F00F;
    x = (x | (x << 4)) & 0x030C30C3;
    return (x | (x << 2)) & 0x09249249;
}

uint32_t code_of(Four center, const Box& centers) {
    uint32_t code = 0;
    for (int k = 0; k < 3; ++k) {
        const float size = centers.upper[k] - centers.lower[k];
        const float x = size > 0 ? (center[k] - centers.lower[k]) / size * 1024.0f : 0.0f;
        code |= spread(static_cast<uint32_t>(std::clamp(x, 0.0f, 1023.0f))) << k;
    }
    return code;
}

// A buffer of items that are not written yet, so that the threads which write them share its page faults.
class Items {
  public:
    explicit Items(int64_t count) {
        const size_t bytes = static_cast<size_t>(count) * sizeof(Item);
        items_.reset(static_cast<Item*>(allocate_aligned(bytes, kAlignment)));
        if (items_) prefer_large_pages(items_.get(), bytes);
    }
    Item* get() const { return items_.get(); }

  private:
    struct Free {
        void operator()(Item* p) const { free_aligned(p); }
    };
    std::unique_ptr<Item, Free> items_;
};

// Appends the subtree of a range to `nodes`, whose skips count from the start of `nodes`.
void build(const Splitter& splitter, int64_t leaf_size, const Range& range, const Output& out,
           std::vector<BinaryNode>& nodes) {
    const size_t at = nodes.size();
    nodes.emplace_back();
    if (range.size() <= leaf_size) {
        const Item* items = splitter.items(range.buffer);
        Box box;
        for (int64_t i = range.begin; i < range.end; ++i) {
            box.add(items[i].box());
            out.order[i] = items[i].index;
            std::memcpy(out.boxes + 6 * i, items[i].lower, 24);
        }
        nodes[at] = node_of(box, range.size(), range.begin);
        return;
    }
    Range left, right;
    splitter.split(range, &left, &right);
    build(splitter, leaf_size, left, out, nodes);
    const size_t second = nodes.size();
    build(splitter, leaf_size, right, out, nodes);
    Box box = box_of(nodes[at + 1]);
    box.add(box_of(nodes[second]));
    nodes[at] = node_of(box, static_cast<int64_t>(nodes.size()), -1);
}

struct Groups {
    std::vector<int32_t> group;
    std::vector<int32_t> root;
};

class Tree {
  public:
    Tree(const Input& input, const Output& output)
        : in_(input),
          out_(output),
          first_(input.count),
          second_(input.count),
          splitter_(first_.get(), second_.get(), input.method),
          piece_size_(std::max(kLeastPiece, input.count / kMostPieces)) {}

    // Builds the tree; with groups, each has a subtree of its own. False with an exception set where that failed.
    bool build(int64_t* node_count, Groups* found) {
        *node_count = 0;
        if (!in_.count) return true;
        if (!first_.get() || !second_.get()) {
            PyErr_NoMemory();
            return false;
        }
        Box centers;
        if (!take_items(&centers)) return false;
        if (in_.method == kMorton && !sort_by_codes(centers)) return false;
        Top top;
        std::vector<Top*> roots;
        if (in_.groups) {
            add_groups(&top, found, &roots);
        } else {
            top.range = {0, in_.count, 0, 0, centers};
            roots.push_back(&top);
        }
        if (!split_tops(roots) || !build_subtrees()) return false;
        *node_count = place(&top, out_.nodes) - out_.nodes;
        if (!copy_subtrees()) return false;
        for (const Top* root : roots) {
            if (in_.groups) found->root.push_back(position(top, root));
        }
        return true;
    }

  private:
    // Takes the boxes over, and finds what space their centers take.
    bool take_items(Box* centers) {
        std::vector<Box> found(static_cast<size_t>((in_.count + piece_size_ - 1) / piece_size_));
        auto take = [&](int64_t first, int64_t last) {
            for (int64_t p = first; p < last; ++p) {
                Box box;
                for (int64_t i = p * piece_size_; i < std::min((p + 1) * piece_size_, in_.count); ++i) {
                    Item item;
                    std::memcpy(item.lower, in_.lowers + 3 * i, 12);
                    std::memcpy(item.upper, in_.uppers + 3 * i, 12);
                    item.index = static_cast<int32_t>(i), item.code = 0;
                    const Four center = item.center();
                    box.add(center, center);
                    first_.get()[i] = item;
                }
                found[static_cast<size_t>(p)] = box;
            }
        };
        if (!parallel(static_cast<int64_t>(found.size()), take, piece_ns())) return false;
        for (const Box& box : found) centers->add(box);
        return true;
    }

    bool sort_by_codes(const Box& centers) {
        Item* items = first_.get();
        auto set_codes = [items, &centers](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) items[i].code = code_of(items[i].center(), centers);
        };
        if (!parallel(in_.count, set_codes)) return false;
        std::stable_sort(items, items + in_.count, [](const Item& a, const Item& b) { return a.code < b.code; });
        return true;
    }

    // Sorts the items by their groups, and makes a range of each.
    void add_groups(Top* top, Groups* found, std::vector<Top*>* roots) {
        Item* items = first_.get();
        const int32_t* groups = in_.groups;
        std::stable_sort(items, items + in_.count,
                         [groups](const Item& a, const Item& b) { return groups[a.index] < groups[b.index]; });
        std::vector<Range> ranges;
        for (int64_t i = 0; i < in_.count; ++i) {
            const int32_t group = groups[items[i].index];
            if (found->group.empty() || found->group.back() != group) {
                found->group.push_back(group);
                ranges.push_back({i, i, 0, 0, {}});
            }
            const Four center = items[i].center();
            ranges.back().end = i + 1;
            ranges.back().centers.add(center, center);
        }
        join(top, ranges, 0, ranges.size(), roots);
    }

    static void join(Top* top, const std::vector<Range>& ranges, size_t first, size_t last, std::vector<Top*>* roots) {
        top->range = ranges[first];
        if (last - first == 1) {
            roots->push_back(top);
            return;
        }
        top->range.end = ranges[last - 1].end;
        const size_t middle = first + (last - first) / 2;
        top->left.reset(new Top), top->right.reset(new Top);
        join(top->left.get(), ranges, first, middle, roots);
        join(top->right.get(), ranges, middle, last, roots);
    }

    // Splits ranges until there are enough for all threads.
    bool split_tops(const std::vector<Top*>& roots) {
        const int64_t threads = thread_count();
        const int64_t even = threads > 1 ? std::max(kLeastSubtree, in_.count / (kSubtrees * threads)) : in_.count;
        const int64_t enough = std::max(in_.leaf_size, even);
        std::vector<Top*> level = roots;
        while (!level.empty()) {
            std::vector<Top*> large, next;
            for (Top* top : level) (top->range.size() > enough ? large : subtrees_).push_back(top);
            if (large.empty()) break;
            if (!Level(splitter_, large, piece_size_).split()) return false;
            for (Top* top : large) next.push_back(top->left.get()), next.push_back(top->right.get());
            level = std::move(next);
        }
        return true;
    }

    bool build_subtrees() {
        // The largest first, so that no thread begins with one when the others end.
        std::stable_sort(subtrees_.begin(), subtrees_.end(),
                         [](const Top* a, const Top* b) { return a->range.size() > b->range.size(); });
        auto work = [this](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                Top* top = subtrees_[static_cast<size_t>(i)];
                top->nodes.reserve(
                    static_cast<size_t>(2 * top->range.size() / std::max<int64_t>(in_.leaf_size, 2) + 1));
                wl::build(splitter_, in_.leaf_size, top->range, out_, top->nodes);
            }
        };
        return parallel(static_cast<int64_t>(subtrees_.size()), work, subtree_ns());
    }

    // Finds where each subtree goes, and writes the nodes above them.
    static BinaryNode* place(Top* top, BinaryNode* at) { return place(top, at, at); }
    static BinaryNode* place(Top* top, BinaryNode* nodes, BinaryNode* at) {
        if (!top->left) {
            top->place = at;
            return at + top->nodes.size();
        }
        BinaryNode* end = place(top->right.get(), nodes, place(top->left.get(), nodes, at + 1));
        *at = node_of(top->box(), end - nodes, -1);
        return end;
    }

    bool copy_subtrees() {
        auto copy = [this](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                const Top& top = *subtrees_[static_cast<size_t>(i)];
                const auto offset = static_cast<int32_t>(top.place - out_.nodes);
                for (size_t k = 0; k < top.nodes.size(); ++k) {
                    BinaryNode node = top.nodes[k];
                    if (node.first < 0) node.skip += offset;
                    top.place[k] = node;
                }
            }
        };
        return parallel(static_cast<int64_t>(subtrees_.size()), copy, subtree_ns() / 16);
    }

    // What a thread takes, at least, for a piece and for a subtree.
    double piece_ns() const { return kItemNs * static_cast<double>(std::min(piece_size_, in_.count)); }
    double subtree_ns() const {
        return 16 * kItemNs * static_cast<double>(in_.count) / static_cast<double>(subtrees_.size());
    }

    static int64_t size(const Top& top) {
        return top.left ? 1 + size(*top.left) + size(*top.right) : static_cast<int64_t>(top.nodes.size());
    }

    // The number of the node that `wanted`, a range of items below `top`, begins with.
    static int32_t position(const Top& top, const Top* wanted) {
        if (&top == wanted) return 0;
        const bool is_left = wanted->range.begin < top.right->range.begin;
        return 1 + (is_left ? position(*top.left, wanted)
                            : static_cast<int32_t>(size(*top.left)) + position(*top.right, wanted));
    }

    const Input& in_;
    const Output& out_;
    Items first_, second_;
    const Splitter splitter_;
    const int64_t piece_size_;
    std::vector<Top*> subtrees_;
};

// ---- Python

PyObject* list_of(const std::vector<int32_t>& numbers) {
    Ref list(PyList_New(static_cast<Py_ssize_t>(numbers.size())));
    for (size_t i = 0; list && i < numbers.size(); ++i) {
        PyObject* number = PyLong_FromLong(numbers[i]);
        if (!number) return nullptr;
        PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), number);
    }
    return list.release();
}

PyObject* build_bvh(PyObject*, PyObject* args) {
    PyObject *lowers, *uppers, *groups, *order, *boxes, *nodes;
    long long count, leaf_size;
    int method;
    if (!PyArg_ParseTuple(args, "OOOLiLOOO:build_bvh", &lowers, &uppers, &groups, &count, &method, &leaf_size, &order,
                          &boxes, &nodes)) {
        return nullptr;
    }
    const int32_t* group_of = groups == Py_None ? nullptr : memory_of<int32_t>(groups, count);
    const Input in{memory_of<float>(lowers, 3 * count), memory_of<float>(uppers, 3 * count), group_of, count, method,
                   std::max<int64_t>(leaf_size, 1)};
    const Output out{memory_of<int32_t>(order, count), memory_of<float>(boxes, 6 * count),
                     memory_of<BinaryNode>(nodes, 8 * std::max<int64_t>(2 * count - 1, 0))};
    if (PyErr_Occurred()) return nullptr;
    Groups found;
    int64_t node_count;
    if (!Tree(in, out).build(&node_count, &found)) return nullptr;
    Ref group(list_of(found.group)), root(list_of(found.root));
    return group && root ? Py_BuildValue("LOO", static_cast<long long>(node_count), group.get(), root.get()) : nullptr;
}

PyMethodDef functions[] = {
    {"build_bvh", build_bvh, METH_VARARGS,
     "build_bvh($module, lowers, uppers, groups, count, method, leaf_size, order, boxes, nodes, /)\n--\n\nBuild a "
     "hierarchy; return the number of nodes, the groups, and the root of each."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_bvh(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
