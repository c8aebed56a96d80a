// Bounding volume hierarchies: building the trees that kernels walk (`builtins/device/bvh.py`).
//
// Nodes lie in preorder. An inner node is followed by its first child; the node after its subtree is its `skip`. So a
// walk needs no stack: it goes on with the next node where a node's box is met, and with its skip where it is not.
// Splits by the surface area heuristic follow Wald (2007), "On fast Construction of SAH-based Bounding Volume
// Hierarchies". The top of a tree is split on one thread, the subtrees below on all.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "algorithms.h"
#include "bvh.h"
#include "parallel.h"

namespace wl {

namespace {

constexpr int kBins = 16;
constexpr int kTasks = 128;             // about as many subtrees are built side by side
constexpr int kUnbalanced = 48;         // from this depth on ranges are halved, so that the depth is bounded
enum : int { kSah, kMedian, kMorton };  // as Python numbers them

BinaryNode node_of(const Box& box, int64_t skip, int64_t first) {
    BinaryNode made{};
    set_box(made, box);
    made.skip = static_cast<int32_t>(skip), made.first = static_cast<int32_t>(first);
    return made;
}

struct Item {
    Box box;  // here, since boxes are looked at in the order of items
    Four center;
    int32_t index;
    uint32_t code;
};

// What a tree is built of: item `i` is the box from `lowers[3 * i]` to `uppers[3 * i]`.
struct Input {
    const float* lowers;
    const float* uppers;
    int method;
    int64_t leaf_size;

    Box box(int32_t i) const {
        Box b;
        b.add(three(lowers + 3 * int64_t{i}), three(uppers + 3 * int64_t{i}));
        return b;
    }
};

// A number to sort and bin by; what is none counts as 0.
float finite(float x) { return std::isnan(x) ? 0.0f : std::clamp(x, -1e30f, 1e30f); }

uint32_t spread(uint32_t x) {  // 10 bits, two zeros between each
    x = (x | (x << 16)) & 0x030000FF;
    x = (x | (x << 8)) & 0x0300F00F;
    x = (x | (x << 4)) & 0x030C30C3;
    return (x | (x << 2)) & 0x09249249;
}

class Builder {
  public:
    Builder(const Input& input, Item* items) : in_(input), items_(items) {}

    // Where to split the items [begin, end), at least two, which it orders.
    int64_t split(int64_t begin, int64_t end, int depth) const {
        if (in_.method == kMorton) return split_codes(begin, end);
        Box centers;
        for (int64_t i = begin; i < end; ++i) centers.add(items_[i].center, items_[i].center);
        int axis = 0;
        for (int k = 1; k < 3; ++k) {
            if (extent(centers, k) > extent(centers, axis)) axis = k;
        }
        if (extent(centers, axis) > 0) {
            const int64_t found = in_.method == kSah && depth < kUnbalanced ? split_binned(begin, end, centers) : -1;
            if (found > 0) return found;
            const int64_t middle = begin + (end - begin) / 2;
            std::nth_element(items_ + begin, items_ + middle, items_ + end, [axis](const Item& a, const Item& b) {
                return a.center[axis] != b.center[axis] ? a.center[axis] < b.center[axis] : a.index < b.index;
            });
            return middle;
        }
        return begin + (end - begin) / 2;
    }

    // Appends the subtree of [begin, end) to `nodes`, whose skips count from the start of `nodes`.
    void build(int64_t begin, int64_t end, int depth, std::vector<BinaryNode>& nodes) const {
        const size_t at = nodes.size();
        nodes.emplace_back();
        if (end - begin <= in_.leaf_size) {
            nodes[at] = node_of(boxes(begin, end), end - begin, begin);
            return;
        }
        const int64_t middle = split(begin, end, depth);
        build(begin, middle, depth + 1, nodes);
        const size_t right = nodes.size();
        build(middle, end, depth + 1, nodes);
        Box box = box_of(nodes[at + 1]);
        box.add(box_of(nodes[right]));
        nodes[at] = node_of(box, static_cast<int64_t>(nodes.size()), -1);
    }

  private:
    static float extent(const Box& b, int axis) { return b.upper[axis] - b.lower[axis]; }

    Box boxes(int64_t begin, int64_t end) const {
        Box b;
        for (int64_t i = begin; i < end; ++i) b.add(items_[i].box);
        return b;
    }

    // The bins of an item along each axis.
    struct Bins {
        Four low, scale;
        int last;

        Bins(const Box& centers, int64_t items) : low(centers.lower) {
            last = static_cast<int>(std::min<int64_t>(kBins, items + 2)) - 1;
            for (int k = 0; k < 4; ++k) {
                const float size = k < 3 ? extent(centers, k) : 0;
                scale[k] = size > 0 ? static_cast<float>(last + 1) / size : 0;
            }
        }
        Four of(const Item& item) const {
            return least(most((item.center - low) * scale, four(0)), four(static_cast<float>(last)));
        }
        int of(const Item& item, int axis) const { return static_cast<int>(of(item)[axis]); }
    };

    int64_t split_binned(int64_t begin, int64_t end, const Box& centers) const {
        const Bins bins(centers, end - begin);
        Box box[3][kBins];
        int64_t count[3][kBins] = {};
        for (int64_t i = begin; i < end; ++i) {
            const Item& item = items_[i];
            const Four at = bins.of(item);
            for (int axis = 0; axis < 3; ++axis) {
                const int b = static_cast<int>(at[axis]);
                box[axis][b].add(item.box);
                ++count[axis][b];
            }
        }
        float best = kInfinity;
        int best_axis = -1, best_bin = 0;
        for (int axis = 0; axis < 3; ++axis) {
            if (!(bins.scale[axis] > 0)) continue;
            float right[kBins];
            Box sum;
            int64_t n = 0;
            for (int b = bins.last; b > 0; --b) {
                sum.add(box[axis][b]);
                n += count[axis][b];
                right[b] = n ? sum.half_area() * static_cast<float>(n) : kInfinity;
            }
            sum = Box();
            n = 0;
            for (int b = 0; b < bins.last; ++b) {
                sum.add(box[axis][b]);
                n += count[axis][b];
                const float cost = n ? sum.half_area() * static_cast<float>(n) + right[b + 1] : kInfinity;
                if (cost < best) best = cost, best_axis = axis, best_bin = b;
            }
        }
        if (best_axis < 0) return -1;
        Item* middle = std::partition(items_ + begin, items_ + end,
                                      [=](const Item& item) { return bins.of(item, best_axis) <= best_bin; });
        const int64_t at = middle - items_;
        return at > begin && at < end ? at : -1;
    }

    // Items are in the order of their codes: split where the highest bit in which they differ changes.
    int64_t split_codes(int64_t begin, int64_t end) const {
        const uint32_t first = items_[begin].code, last = items_[end - 1].code;
        if (first == last) return begin + (end - begin) / 2;
        const uint32_t bit = 1u << (31 - __builtin_clz(first ^ last));
        const Item* found =
            std::partition_point(items_ + begin, items_ + end, [bit](const Item& i) { return !(i.code & bit); });
        return found - items_;
    }

    const Input& in_;
    Item* items_;
};

// The top of a tree: inner nodes, and ranges of items whose subtrees are built side by side.
struct Top {
    int64_t begin, end;
    int depth;
    std::unique_ptr<Top> left, right;
    std::vector<BinaryNode> nodes;  // of a range

    Box box() const {
        if (!left) return box_of(nodes[0]);
        Box b = left->box();
        b.add(right->box());
        return b;
    }
};

std::unique_ptr<Top> split_top(const Builder& builder, int64_t begin, int64_t end, int depth, int64_t enough,
                               std::vector<Top*>& ranges) {
    std::unique_ptr<Top> top(new Top{begin, end, depth, nullptr, nullptr, {}});
    if (end - begin <= enough) {
        ranges.push_back(top.get());
        return top;
    }
    const int64_t middle = builder.split(begin, end, depth);
    top->left = split_top(builder, begin, middle, depth + 1, enough, ranges);
    top->right = split_top(builder, middle, end, depth + 1, enough, ranges);
    return top;
}

BinaryNode* write(const Top& top, BinaryNode* nodes, BinaryNode* out) {
    const auto offset = static_cast<int32_t>(out - nodes);
    if (!top.left) {
        for (BinaryNode n : top.nodes) {
            if (n.first < 0) n.skip += offset;
            *out++ = n;
        }
        return out;
    }
    BinaryNode* end = write(*top.right, nodes, write(*top.left, nodes, out + 1));
    *out = node_of(top.box(), end - nodes, -1);
    return end;
}

void set_codes(std::vector<Item>& items) {
    Box centers;
    for (const Item& i : items) centers.add(i.center, i.center);
    for (Item& i : items) {
        i.code = 0;
        for (int k = 0; k < 3; ++k) {
            const float size = centers.upper[k] - centers.lower[k];
            const float x = size > 0 ? (i.center[k] - centers.lower[k]) / size * 1024.0f : 0.0f;
            i.code |= spread(static_cast<uint32_t>(std::clamp(x, 0.0f, 1023.0f))) << k;
        }
    }
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.code < b.code; });
}

struct Groups {
    std::vector<int32_t> group;
    std::vector<int32_t> root;
};

class Tree {
  public:
    Tree(const Input& input, int64_t count) : in_(input), items_(static_cast<size_t>(count)) {
        for (int64_t i = 0; i < count; ++i) {
            Item& item = items_[static_cast<size_t>(i)];
            item.index = static_cast<int32_t>(i);
            item.box = in_.box(item.index);
            for (int k = 0; k < 3; ++k) {
                item.center[k] = finite(0.5f * in_.lowers[3 * i + k] + 0.5f * in_.uppers[3 * i + k]);
            }
        }
        if (in_.method == kMorton) set_codes(items_);
    }

    // Builds the tree; with groups, each has a subtree of its own. False with an exception set where it was
    // interrupted.
    bool build(const int32_t* groups, BinaryNode* nodes, int64_t* node_count, Groups* found) {
        const auto count = static_cast<int64_t>(items_.size());
        *node_count = 0;
        if (!count) return true;
        const Builder builder(in_, items_.data());
        std::vector<Top*> ranges;
        const int64_t enough = std::max(in_.leaf_size, std::max<int64_t>(1024, count / kTasks));
        std::unique_ptr<Top> top;
        std::vector<Top*> roots;
        if (groups) {
            std::stable_sort(items_.begin(), items_.end(),
                             [groups](const Item& a, const Item& b) { return groups[a.index] < groups[b.index]; });
            std::vector<int64_t> starts;
            for (int64_t i = 0; i < count; ++i) {
                const int32_t group = groups[items_[static_cast<size_t>(i)].index];
                if (found->group.empty() || found->group.back() != group) {
                    found->group.push_back(group);
                    starts.push_back(i);
                }
            }
            starts.push_back(count);
            top = join(builder, starts, 0, found->group.size(), enough, ranges, roots);
        } else {
            top = split_top(builder, 0, count, 0, enough, ranges);
        }
        auto work = [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                Top* range = ranges[static_cast<size_t>(i)];
                builder.build(range->begin, range->end, range->depth, range->nodes);
            }
        };
        if (!parallel(static_cast<int64_t>(ranges.size()), work)) return false;
        *node_count = write(*top, nodes, nodes) - nodes;
        for (const Top* root : roots) found->root.push_back(position(*top, root));
        return true;
    }

    const std::vector<Item>& items() const { return items_; }

  private:
    std::unique_ptr<Top> join(const Builder& builder, const std::vector<int64_t>& starts, size_t first, size_t last,
                              int64_t enough, std::vector<Top*>& ranges, std::vector<Top*>& roots) {
        if (last - first == 1) {
            auto top = split_top(builder, starts[first], starts[last], 0, enough, ranges);
            roots.push_back(top.get());
            return top;
        }
        const size_t middle = first + (last - first) / 2;
        std::unique_ptr<Top> top(new Top{starts[first], starts[last], 0, nullptr, nullptr, {}});
        top->left = join(builder, starts, first, middle, enough, ranges, roots);
        top->right = join(builder, starts, middle, last, enough, ranges, roots);
        return top;
    }

    static int64_t size(const Top& top) {
        return top.left ? 1 + size(*top.left) + size(*top.right) : static_cast<int64_t>(top.nodes.size());
    }

    // The number of the node that `wanted`, a range of items below `top`, begins with.
    static int32_t position(const Top& top, const Top* wanted) {
        if (&top == wanted) return 0;
        const bool is_left = wanted->begin < top.right->begin;
        return 1 + (is_left ? position(*top.left, wanted)
                            : static_cast<int32_t>(size(*top.left)) + position(*top.right, wanted));
    }

    const Input& in_;
    std::vector<Item> items_;
};

// ---- Python

void write_boxes(const Input& in, const int32_t* order, int64_t count, float* boxes) {
    for (int64_t i = 0; i < count; ++i) {
        std::memcpy(boxes + 6 * i, in.lowers + 3 * int64_t{order[i]}, 12);
        std::memcpy(boxes + 6 * i + 3, in.uppers + 3 * int64_t{order[i]}, 12);
    }
}

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
    const Input in{memory_of<float>(lowers, 3 * count), memory_of<float>(uppers, 3 * count), method,
                   std::max<int64_t>(leaf_size, 1)};
    auto* places = memory_of<int32_t>(order, count);
    auto* item_boxes = memory_of<float>(boxes, 6 * count);
    auto* tree_nodes = memory_of<BinaryNode>(nodes, 8 * std::max<int64_t>(2 * count - 1, 0));
    const int32_t* group_of = groups == Py_None ? nullptr : memory_of<int32_t>(groups, count);
    if (PyErr_Occurred()) return nullptr;
    Groups found;
    int64_t node_count;
    Tree tree(in, count);
    if (!tree.build(group_of, tree_nodes, &node_count, &found)) return nullptr;
    for (int64_t i = 0; i < count; ++i) places[i] = tree.items()[static_cast<size_t>(i)].index;
    write_boxes(in, places, count, item_boxes);
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
