// Colours of a graph's nodes, such that the two ends of every edge differ: `warp_like.utils.graph_coloring_assign`.
//
// Nodes are coloured one after the other, each with the lowest colour that no neighbour has. The orders are those of
// maximum cardinality search (the node with the most coloured neighbours comes next, which is the best order for
// chordal graphs) and of falling degrees. Equal nodes are taken by their numbers, so a graph has one result.
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "algorithms.h"
#include "tensor_memory.h"

namespace wl {

namespace {

// The neighbours of node `i` are `ends[begin[i]]` up to `ends[begin[i + 1]]`. Edges from a node to itself are left out.
struct Graph {
    std::vector<int64_t> begin;
    std::vector<int32_t> ends;

    Graph(const int32_t* edges, int64_t count, int64_t nodes) : begin(static_cast<size_t>(nodes) + 1, 0) {
        for (int64_t e = 0; e < count; ++e) {
            if (edges[2 * e] == edges[2 * e + 1]) continue;
            ++begin[edges[2 * e] + 1];
            ++begin[edges[2 * e + 1] + 1];
        }
        std::partial_sum(begin.begin(), begin.end(), begin.begin());
        ends.resize(static_cast<size_t>(begin.back()));
        std::vector<int64_t> at(begin.begin(), begin.end() - 1);
        for (int64_t e = 0; e < count; ++e) {
            const int32_t a = edges[2 * e], b = edges[2 * e + 1];
            if (a == b) continue;
            ends[at[a]++] = b;
            ends[at[b]++] = a;
        }
    }

    int64_t nodes() const { return static_cast<int64_t>(begin.size()) - 1; }
    int64_t degree(int64_t node) const { return begin[node + 1] - begin[node]; }

    template <typename Visit>
    void each_neighbour(int64_t node, Visit visit) const {
        for (int64_t k = begin[node]; k < begin[node + 1]; ++k) visit(ends[k]);
    }
};

// Gives a node the lowest colour that no neighbour has. `taken[c]` is the last node that saw a neighbour of colour `c`.
void color_node(const Graph& graph, int64_t node, int32_t* colors, std::vector<int64_t>* taken) {
    graph.each_neighbour(node, [&](int32_t other) {
        if (colors[other] >= 0) (*taken)[colors[other]] = node;
    });
    int32_t color = 0;
    while (color < static_cast<int32_t>(taken->size()) && (*taken)[color] == node) ++color;
    if (color == static_cast<int32_t>(taken->size())) taken->push_back(-1);
    colors[node] = color;
}

int64_t color_by_degree(const Graph& graph, int32_t* colors) {
    std::vector<int32_t> order(static_cast<size_t>(graph.nodes()));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return graph.degree(a) > graph.degree(b); });
    std::vector<int64_t> taken;
    for (const int32_t node : order) color_node(graph, node, colors, &taken);
    return static_cast<int64_t>(taken.size());
}

// `waiting[n]` holds nodes that had `n` coloured neighbours when they were put there; outdated ones are skipped.
int64_t color_by_cardinality(const Graph& graph, int32_t* colors) {
    std::vector<int64_t> known(static_cast<size_t>(graph.nodes()), 0);
    std::vector<std::vector<int32_t>> waiting(1);
    for (int64_t node = graph.nodes() - 1; node >= 0; --node) waiting[0].push_back(static_cast<int32_t>(node));
    std::vector<int64_t> taken;
    int64_t most = 0;
    while (most >= 0) {
        if (waiting[most].empty()) {
            --most;
            continue;
        }
        const int32_t node = waiting[most].back();
        waiting[most].pop_back();
        if (colors[node] >= 0 || known[node] != most) continue;
        color_node(graph, node, colors, &taken);
        graph.each_neighbour(node, [&](int32_t other) {
            if (colors[other] >= 0) return;
            const int64_t n = ++known[other];
            if (n >= static_cast<int64_t>(waiting.size())) waiting.resize(static_cast<size_t>(n) + 1);
            waiting[n].push_back(other);
            most = std::max(most, n);
        });
    }
    return static_cast<int64_t>(taken.size());
}

// ---- balance

struct Balance {
    const Graph& graph;
    int32_t* colors;
    std::vector<std::vector<int32_t>> members;
    int64_t moves_left;

    Balance(const Graph& g, int32_t* c, int64_t count, int64_t moves)
        : graph(g), colors(c), members(static_cast<size_t>(count)), moves_left(moves) {
        for (int64_t i = 0; i < graph.nodes(); ++i) members[colors[i]].push_back(static_cast<int32_t>(i));
    }

    double ratio() const {
        size_t least = std::numeric_limits<size_t>::max(), most = 0;
        for (const auto& group : members) {
            least = std::min(least, group.size());
            most = std::max(most, group.size());
        }
        return least ? static_cast<double>(most) / static_cast<double>(least) : std::numeric_limits<double>::infinity();
    }

    bool is_free(int32_t node, int32_t color) const {
        for (int64_t k = graph.begin[node]; k < graph.begin[node + 1]; ++k) {
            if (colors[graph.ends[k]] == color) return false;
        }
        return true;
    }

    // Moves nodes from one colour to another until they are equally frequent; returns whether one was moved.
    bool level(int32_t from, int32_t to) {
        auto &large = members[from], &small = members[to];
        bool moved = false;
        size_t kept = 0, i = 0;
        for (; i < large.size(); ++i) {
            const int32_t node = large[i];
            const size_t size = large.size() - (i - kept);
            if (moves_left > 0 && size > small.size() + 1 && is_free(node, to)) {
                colors[node] = to;
                small.push_back(node);
                --moves_left;
                moved = true;
            } else {
                large[kept++] = node;
            }
        }
        large.resize(kept);
        return moved;
    }

    // Levels the first two colours, the most frequent one with the rarest one, between which a node can move.
    bool improve() {
        std::vector<int32_t> order(members.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int32_t a, int32_t b) { return members[a].size() > members[b].size(); });
        for (const int32_t from : order) {
            for (auto to = order.rbegin(); to != order.rend(); ++to) {
                if (members[from].size() <= members[*to].size() + 1) break;
                if (level(from, *to)) return true;
            }
        }
        return false;
    }
};

// ---- what Python calls

bool is_plain(PyObject* object, int ndim) {
    if (!is_array(object)) return false;
    const Array* a = array_of(object);
    return has_memory(a) && a->type_code == static_cast<uint32_t>(Scalar::Int32) && a->ndim == ndim && a->contiguous &&
           a->device_type == kDLCPU && (ndim == 1 || a->shape[1] == 2);
}

// Reads the first two arguments, edges and colours; false with an exception set where one would not do.
bool read_graph(PyObject* const* args, const int32_t** edges, int64_t* count, int32_t** colors, int64_t* nodes) {
    if (!is_plain(args[0], 2) || !is_plain(args[1], 1)) {
        PyErr_SetString(PyExc_TypeError, "needs contiguous arrays of int32 on the CPU");
        return false;
    }
    *edges = reinterpret_cast<const int32_t*>(array_of(args[0])->data);
    *count = array_of(args[0])->shape[0];
    *colors = reinterpret_cast<int32_t*>(array_of(args[1])->data);
    *nodes = array_of(args[1])->shape[0];
    for (int64_t i = 0; i < 2 * *count; ++i) {
        if ((*edges)[i] >= 0 && (*edges)[i] < *nodes) continue;
        PyErr_Format(PyExc_ValueError, "edge %lld names node %d of a graph of %lld nodes",
                     static_cast<long long>(i / 2), (*edges)[i], static_cast<long long>(*nodes));
        return false;
    }
    return true;
}

PyObject* color_graph(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    const int32_t* edges;
    int32_t* colors;
    int64_t count, nodes, found;
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "color_graph(edges, colors, by_degree)");
        return nullptr;
    }
    const int by_degree = PyObject_IsTrue(args[2]);
    if (by_degree < 0 || !read_graph(args, &edges, &count, &colors, &nodes)) return nullptr;
    std::fill(colors, colors + nodes, -1);
    const Graph graph(edges, count, nodes);
    found = by_degree ? color_by_degree(graph, colors) : color_by_cardinality(graph, colors);
    return PyLong_FromLongLong(found);
}

PyObject* balance_colors(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    const int32_t* edges;
    int32_t* colors;
    int64_t count, nodes;
    if (nargs != 5) {
        PyErr_SetString(PyExc_TypeError, "balance_colors(edges, colors, color_count, target, most_moves)");
        return nullptr;
    }
    const long long known = PyLong_AsLongLong(args[2]), most_moves = PyLong_AsLongLong(args[4]);
    const double target = PyFloat_AsDouble(args[3]);
    if (PyErr_Occurred() || !read_graph(args, &edges, &count, &colors, &nodes)) return nullptr;
    for (int64_t i = 0; i < nodes; ++i) {
        if (colors[i] >= 0 && colors[i] < known) continue;
        return PyErr_Format(PyExc_ValueError, "node %lld has colour %d of %lld colours", static_cast<long long>(i),
                            colors[i], known);
    }
    const Graph graph(edges, count, nodes);
    Balance balance(graph, colors, known, most_moves);
    bool better = true;
    while (balance.moves_left > 0 && balance.ratio() > target && better) better = balance.improve();
    return Py_BuildValue("(dN)", balance.ratio(), PyBool_FromLong(better && balance.ratio() > target));
}

PyMethodDef functions[] = {
    {"color_graph", method(color_graph), METH_FASTCALL,
     "color_graph($module, edges, colors, by_degree, /)\n--\n\nColour nodes so that the ends of each edge differ; "
     "returns how many colours there are. In the order of degrees, or of maximum cardinality search."},
    {"balance_colors", method(balance_colors), METH_FASTCALL,
     "balance_colors($module, edges, colors, color_count, target, most_moves, /)\n--\n\nRecolour nodes until the most "
     "frequent colour is at most `target` times as frequent as the rarest; returns that ratio, and whether "
     "`most_moves` ended it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_coloring(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
