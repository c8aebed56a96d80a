// Stable sorts of keys with values: a radix sort, eight bits a pass, whose passes are cut into blocks.
//
// Keys are compared as unsigned numbers made of their bits: integers in their order; floats in NumPy's, where -0 equals
// 0 and every NaN comes last.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "algorithms.h"
#include "parallel.h"

namespace wl {

namespace {

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
constexpr int64_t kLeastBlock = 8192;
constexpr int64_t kMostBlocks = 64;
constexpr int64_t kInsertion = 24;    // segments up to this length are sorted by insertion,
constexpr int64_t kComparison = 512;  // up to this by comparing, longer ones by digits

enum class Order { Unsigned, Signed, Float };

template <typename K, Order order>
inline K rank(K bits) {
    constexpr K sign = static_cast<K>(K{1} << (sizeof(K) * 8 - 1));
    constexpr K infinity = sizeof(K) == 4 ? static_cast<K>(0x7f800000u) : static_cast<K>(0x7ff0000000000000ull);
    if constexpr (order == Order::Unsigned) return bits;
    if constexpr (order == Order::Signed) return bits ^ sign;
    const K magnitude = bits & static_cast<K>(~sign);
    if (magnitude == 0) return sign;
    if (magnitude > infinity) return static_cast<K>(~K{0});
    return bits & sign ? static_cast<K>(~bits) : static_cast<K>(bits | sign);
}

template <typename K, typename V>
struct Pairs {
    K* keys;
    V* values;
};

struct Digit {
    int shift;
    uint32_t mask;
};

template <typename K, Order order>
inline uint32_t digit_of(K key, Digit digit) {
    return static_cast<uint32_t>(rank<K, order>(key) >> digit.shift) & digit.mask;
}

// The digits from `begin_bit` up to `end_bit`, lowest first.
std::vector<Digit> digits_between(int begin_bit, int end_bit) {
    std::vector<Digit> digits;
    for (int bit = begin_bit; bit < end_bit; bit += kDigitBits) {
        digits.push_back({bit, (1u << std::min(kDigitBits, end_bit - bit)) - 1});
    }
    return digits;
}

template <typename K, typename V, Order order>
void count_block(const K* keys, int64_t begin, int64_t end, Digit digit, int64_t* counts) {
    std::fill(counts, counts + kDigits, 0);
    for (int64_t i = begin; i < end; ++i) ++counts[digit_of<K, order>(keys[i], digit)];
}

template <typename K, typename V, Order order>
void scatter_block(const Pairs<K, V>& from, const Pairs<K, V>& to, int64_t begin, int64_t end, Digit digit, int64_t* at,
                   int64_t n) {
    for (int64_t i = begin; i < end; ++i) {
        const int64_t place = at[digit_of<K, order>(from.keys[i], digit)]++;
        if (place >= n) continue;  // another thread changes the keys meanwhile
        to.keys[place] = from.keys[i];
        to.values[place] = from.values[i];
    }
}

// Turns the blocks' counts into the places of their first pairs; false when all pairs have one digit.
bool place_blocks(int64_t* counts, int64_t blocks, int64_t n) {
    int64_t at = 0;
    for (int d = 0; d < kDigits; ++d) {
        const int64_t before = at;
        for (int64_t b = 0; b < blocks; ++b) at += std::exchange(counts[b * kDigits + d], at);
        if (at - before == n) return false;
    }
    return true;
}

// Sorts `pairs`, with room for as many in `scratch`; false with an exception set.
template <typename K, typename V, Order order>
bool radix_sort(Pairs<K, V> pairs, Pairs<K, V> scratch, int64_t n, int begin_bit, int end_bit) {
    const int64_t size = std::max(kLeastBlock, (n + kMostBlocks - 1) / kMostBlocks);
    const int64_t blocks = (n + size - 1) / size;
    std::vector<int64_t> counts(static_cast<size_t>(blocks * kDigits));
    Pairs<K, V> from = pairs, to = scratch;
    for (const Digit digit : digits_between(begin_bit, end_bit)) {
        auto count = [&](int64_t begin, int64_t end) {
            for (int64_t b = begin; b < end; ++b) {
                count_block<K, V, order>(from.keys, b * size, std::min(n, (b + 1) * size), digit,
                                         &counts[static_cast<size_t>(b * kDigits)]);
            }
        };
        if (!parallel(blocks, count)) return false;
        if (!place_blocks(counts.data(), blocks, n)) continue;
        auto scatter = [&](int64_t begin, int64_t end) {
            for (int64_t b = begin; b < end; ++b) {
                scatter_block<K, V, order>(from, to, b * size, std::min(n, (b + 1) * size), digit,
                                           &counts[static_cast<size_t>(b * kDigits)], n);
            }
        };
        if (!parallel(blocks, scatter)) return false;
        std::swap(from, to);
    }
    if (from.keys != pairs.keys) {
        std::memcpy(pairs.keys, from.keys, static_cast<size_t>(n) * sizeof(K));
        std::memcpy(pairs.values, from.values, static_cast<size_t>(n) * sizeof(V));
    }
    return true;
}

// ---- segments

template <typename K, typename V, Order order>
void insertion_sort(Pairs<K, V> p, int64_t n) {
    for (int64_t i = 1; i < n; ++i) {
        const K key = p.keys[i], wanted = rank<K, order>(key);
        const V value = p.values[i];
        int64_t j = i;
        for (; j > 0 && rank<K, order>(p.keys[j - 1]) > wanted; --j) {
            p.keys[j] = p.keys[j - 1];
            p.values[j] = p.values[j - 1];
        }
        p.keys[j] = key;
        p.values[j] = value;
    }
}

template <typename K, typename V, Order order>
void comparison_sort(Pairs<K, V> p, Pairs<K, V> scratch, int64_t n) {
    struct Item {
        K rank;
        uint32_t place;
        bool operator<(const Item& other) const { return rank != other.rank ? rank < other.rank : place < other.place; }
    };
    Item items[kComparison];
    for (int64_t i = 0; i < n; ++i) items[i] = {rank<K, order>(p.keys[i]), static_cast<uint32_t>(i)};
    std::sort(items, items + n);
    std::copy(p.keys, p.keys + n, scratch.keys);
    std::copy(p.values, p.values + n, scratch.values);
    for (int64_t i = 0; i < n; ++i) {
        p.keys[i] = scratch.keys[items[i].place];
        p.values[i] = scratch.values[items[i].place];
    }
}

template <typename K, typename V, Order order>
void digit_sort(Pairs<K, V> p, Pairs<K, V> scratch, int64_t n) {
    int64_t counts[kDigits];
    Pairs<K, V> from = p, to = scratch;
    for (int bit = 0; bit < static_cast<int>(sizeof(K)) * 8; bit += kDigitBits) {
        const Digit digit{bit, kDigits - 1};
        count_block<K, V, order>(from.keys, 0, n, digit, counts);
        if (!place_blocks(counts, 1, n)) continue;
        scatter_block<K, V, order>(from, to, 0, n, digit, counts, n);
        std::swap(from, to);
    }
    if (from.keys == p.keys) return;
    std::copy(from.keys, from.keys + n, p.keys);
    std::copy(from.values, from.values + n, p.values);
}

struct Segments {
    const int32_t *begin, *end;
    int64_t count;
};

template <typename K, typename V, Order order>
bool sort_segments(Pairs<K, V> pairs, Pairs<K, V> scratch, const Segments& segments) {
    auto work = [&](int64_t first, int64_t last) {
        for (int64_t s = first; s < last; ++s) {
            const int64_t at = segments.begin[s], n = segments.end[s] - at;
            const Pairs<K, V> part{pairs.keys + at, pairs.values + at}, room{scratch.keys + at, scratch.values + at};
            if (n <= kInsertion) {
                insertion_sort<K, V, order>(part, n);
            } else if (n <= kComparison) {
                comparison_sort<K, V, order>(part, room, n);
            } else {
                digit_sort<K, V, order>(part, room, n);
            }
        }
    };
    return parallel(segments.count, work);
}

// ---- Python

struct Request {
    Array *keys, *values;
    int64_t n;
    int begin_bit, end_bit;
    Segments segments;  // a count of -1: all pairs are one
};

template <typename K, typename V, Order order>
bool sort_pairs(const Request& r) {
    const Pairs<K, V> pairs{reinterpret_cast<K*>(r.keys->data), reinterpret_cast<V*>(r.values->data)};
    Pairs<K, V> scratch{pairs.keys + r.n, pairs.values + r.n};  // the arrays' second halves, as in Warp
    std::unique_ptr<K[]> keys;
    std::unique_ptr<V[]> values;
    if (r.keys->size < 2 * r.n || r.values->size < 2 * r.n) {
        keys.reset(new (std::nothrow) K[static_cast<size_t>(r.n)]);
        values.reset(new (std::nothrow) V[static_cast<size_t>(r.n)]);
        if (!keys || !values) return PyErr_NoMemory() != nullptr;
        scratch = {keys.get(), values.get()};
    }
    if (r.segments.count >= 0) return sort_segments<K, V, order>(pairs, scratch, r.segments);
    return radix_sort<K, V, order>(pairs, scratch, r.n, r.begin_bit, r.end_bit);
}

template <typename K, Order order>
bool sort_values(const Request& r) {
    return r.values->itemsize == 4 ? sort_pairs<K, uint32_t, order>(r) : sort_pairs<K, uint64_t, order>(r);
}

bool sort_keys(const Request& r) {
    Element key{};
    if (!element_of(r.keys, &key)) return false;
    switch (key.scalar) {
        case Scalar::Int32:
            return sort_values<uint32_t, Order::Signed>(r);
        case Scalar::Uint32:
            return sort_values<uint32_t, Order::Unsigned>(r);
        case Scalar::Float32:
            return sort_values<uint32_t, Order::Float>(r);
        case Scalar::Int64:
            return sort_values<uint64_t, Order::Signed>(r);
        case Scalar::Uint64:
            return sort_values<uint64_t, Order::Unsigned>(r);
        case Scalar::Float64:
            return sort_values<uint64_t, Order::Float>(r);
        default:
            PyErr_SetString(PyExc_TypeError, "sort_pairs() has no such dtype");
            return false;
    }
}

bool read_request(PyObject* const* args, Request* request) {
    request->keys = array_of(args[0]);
    request->values = array_of(args[1]);
    request->n = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred()) return false;
    const Array *keys = request->keys, *values = request->values;
    const bool fine = request->n >= 0 && keys->size >= request->n && values->size >= request->n && keys->contiguous &&
                      values->contiguous && (values->itemsize == 4 || values->itemsize == 8) && keys->aligned &&
                      reinterpret_cast<uintptr_t>(values->data) % static_cast<uintptr_t>(values->itemsize) == 0;
    if (!fine) PyErr_SetString(PyExc_ValueError, "needs contiguous keys and values of 4 or 8 bytes");
    return fine;
}

PyObject* array_sort(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    Request request{};
    if (nargs != 5 || !require_arrays(args, 2)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "sort_pairs(keys, values, count, begin_bit, end_bit)");
        return nullptr;
    }
    if (!read_request(args, &request)) return nullptr;
    request.begin_bit = static_cast<int>(PyLong_AsLong(args[3]));
    request.end_bit = static_cast<int>(PyLong_AsLong(args[4]));
    request.segments.count = -1;
    if (PyErr_Occurred() || !sort_keys(request)) return nullptr;
    Py_RETURN_NONE;
}

// The first segment that does not lie in [0, count) or overlaps another one; -1 if all are fine.
int64_t wrong_segment(const Segments& segments, int64_t n) {
    bool ordered = true;
    for (int64_t s = 0; s < segments.count; ++s) {
        if (segments.begin[s] < 0 || segments.begin[s] > segments.end[s] || segments.end[s] > n) return s;
        if (s && segments.begin[s] < segments.end[s - 1]) ordered = false;
    }
    if (ordered) return -1;
    std::vector<int64_t> by_start;
    for (int64_t s = 0; s < segments.count; ++s) {
        if (segments.begin[s] < segments.end[s]) by_start.push_back(s);
    }
    std::sort(by_start.begin(), by_start.end(),
              [&](int64_t a, int64_t b) { return segments.begin[a] < segments.begin[b]; });
    for (size_t k = 1; k < by_start.size(); ++k) {
        if (segments.begin[by_start[k]] < segments.end[by_start[k - 1]]) return by_start[k];
    }
    return -1;
}

PyObject* array_sort_segments(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    Request request{};
    if (nargs != 5 || !require_arrays(args, 2) || !require_arrays(args + 3, 2)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "sort_segments(keys, values, count, begin, end)");
        return nullptr;
    }
    if (!read_request(args, &request)) return nullptr;
    const Array *begin = array_of(args[3]), *end = array_of(args[4]);
    request.segments = {reinterpret_cast<const int32_t*>(begin->data), reinterpret_cast<const int32_t*>(end->data),
                        std::min(begin->size, end->size)};
    const int64_t wrong = wrong_segment(request.segments, request.n);
    if (wrong >= 0) return PyLong_FromLongLong(wrong);
    if (!sort_keys(request)) return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"sort_pairs", method(array_sort), METH_FASTCALL,
     "sort_pairs($module, keys, values, count, begin_bit, end_bit, /)\n--\n\nSort the first `count` pairs by the bits "
     "of the keys."},
    {"sort_segments", method(array_sort_segments), METH_FASTCALL,
     "sort_segments($module, keys, values, count, begin, end, /)\n--\n\nSort the pairs of each segment; returns the "
     "number of one that is out of range or overlaps another, with nothing done, else None."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_sort(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
