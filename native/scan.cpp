// Prefix sums and runs of equal values, in two passes over blocks: what each block has, then what each block writes.
#include <algorithm>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "algorithms.h"
#include "parallel.h"

namespace wl {

namespace {

constexpr int64_t kBlockItems = 16384;

// What a prefix sum is kept in: integers wrap.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<Total<T>, double>, double, uint64_t>;

template <typename T>
T rounded(Wide<T> total) {
    if constexpr (std::is_same_v<T, Half>) {
        return {to_float16(total)};
    } else if constexpr (std::is_same_v<T, BFloat>) {
        return {to_bfloat16(total)};
    } else {
        return static_cast<T>(total);
    }
}

template <typename T>
Wide<T> wide(const char* at) {
    return static_cast<Wide<T>>(number(load_at<T>(at)));
}

struct Line {
    char* data;
    int64_t stride;  // of elements, in bytes
};

// Scans the elements of a block from `acc`, component by component, and leaves the totals in `acc`.
template <typename T>
void scan_block(const Line& in, const Line& out, int64_t begin, int64_t end, int64_t components, bool inclusive,
                Wide<T>* acc) {
    for (int64_t c = 0; c < components; ++c) {
        auto total = acc[c];
        const char* from = in.data + begin * in.stride + c * static_cast<int64_t>(sizeof(T));
        char* to = out.data + begin * out.stride + c * static_cast<int64_t>(sizeof(T));
        for (int64_t i = begin; i < end; ++i, from += in.stride, to += out.stride) {
            const auto before = total;
            total += wide<T>(from);
            store_at<T>(to, rounded<T>(inclusive ? total : before));
        }
        acc[c] = total;
    }
}

template <typename T>
void sum_block(const Line& in, int64_t begin, int64_t end, int64_t components, Wide<T>* acc) {
    constexpr int64_t size = sizeof(T);
    for (int64_t c = 0; c < components; ++c) {
        Wide<T> part[8] = {};
        const char* from = in.data + begin * in.stride + c * size;
        int64_t i = begin;
        for (; i + 8 <= end; i += 8, from += 8 * in.stride) {
            for (int k = 0; k < 8; ++k) part[k] += wide<T>(from + k * in.stride);
        }
        for (; i < end; ++i, from += in.stride) part[0] += wide<T>(from);
        acc[c] = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    }
}

template <typename T>
bool scan(const Line& in, const Line& out, int64_t count, int64_t components, bool inclusive) {
    const int64_t size = std::max<int64_t>(1, kBlockItems / components);
    const int64_t blocks = (count + size - 1) / size;
    using Acc = Wide<T>;
    std::unique_ptr<Acc[]> start(new (std::nothrow) Acc[static_cast<size_t>(blocks * components)]());
    if (!start) return PyErr_NoMemory() != nullptr;
    const auto at = [&](int64_t block) { return &start[static_cast<size_t>(block * components)]; };
    auto sum = [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
            sum_block<T>(in, k * size, std::min(count, (k + 1) * size), components, at(k));
        }
    };
    if (blocks > 1 && !parallel(blocks, sum)) return false;
    for (int64_t c = 0; c < components; ++c) {
        Acc total{};
        for (int64_t k = 0; k < blocks; ++k) total += std::exchange(at(k)[c], total);
    }
    auto write = [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
            scan_block<T>(in, out, k * size, std::min(count, (k + 1) * size), components, inclusive, at(k));
        }
    };
    return parallel(blocks, write);
}

// The elements of an array that is contiguous or has one dimension.
Line line_of(const Array* array) { return {array->data, array->ndim == 1 ? array->strides[0] : array->itemsize}; }

PyObject* array_scan(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 3 || !require_arrays(args, 2)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "scan(source, out, inclusive)");
        return nullptr;
    }
    const Array *source = array_of(args[0]), *out = array_of(args[1]);
    const int inclusive = PyObject_IsTrue(args[2]);
    Element element{};
    if (inclusive < 0 || !element_of(source, &element)) return nullptr;
    const Line from = line_of(source), to = line_of(out);
    const int64_t n = std::min(source->size, out->size), components = element.size / element.scalar_size;
    bool done = false;
    switch (element.scalar) {
        case Scalar::Int8:
        case Scalar::Uint8:
            done = scan<uint8_t>(from, to, n, components, inclusive);
            break;
        case Scalar::Int16:
        case Scalar::Uint16:
            done = scan<uint16_t>(from, to, n, components, inclusive);
            break;
        case Scalar::Float16:
            done = scan<Half>(from, to, n, components, inclusive);
            break;
        case Scalar::Bfloat16:
            done = scan<BFloat>(from, to, n, components, inclusive);
            break;
        case Scalar::Int32:
        case Scalar::Uint32:
            done = scan<uint32_t>(from, to, n, components, inclusive);
            break;
        case Scalar::Int64:
        case Scalar::Uint64:
            done = scan<uint64_t>(from, to, n, components, inclusive);
            break;
        case Scalar::Float32:
            done = scan<float>(from, to, n, components, inclusive);
            break;
        case Scalar::Float64:
            done = scan<double>(from, to, n, components, inclusive);
            break;
        default:
            PyErr_SetString(PyExc_TypeError, "scan() has no such dtype");
            break;
    }
    if (!done) return nullptr;
    Py_RETURN_NONE;
}

// ---- runs

struct Block {
    int64_t runs;    // that start in it
    int64_t first;   // where its first run starts, -1 for none
    int64_t before;  // runs of earlier blocks
    int64_t next;    // where the first run of a later block starts
};

template <typename T>
bool starts_run(const Line& in, int64_t i) {
    return i == 0 || load_at<T>(in.data + i * in.stride) != load_at<T>(in.data + (i - 1) * in.stride);
}

template <typename T, typename L>
int64_t encode_runs(const Line& in, const Line& values, const Line& lengths, int64_t count) {
    const int64_t blocks = (count + kBlockItems - 1) / kBlockItems;
    std::unique_ptr<Block[]> found(new (std::nothrow) Block[static_cast<size_t>(blocks)]);
    if (!found) {
        PyErr_NoMemory();
        return -1;
    }
    auto look = [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
            Block block{0, -1, 0, 0};
            for (int64_t i = k * kBlockItems; i < std::min(count, (k + 1) * kBlockItems); ++i) {
                const bool start = starts_run<T>(in, i);
                block.runs += start;
                if (start && block.first < 0) block.first = i;
            }
            found[static_cast<size_t>(k)] = block;
        }
    };
    if (!parallel(blocks, look)) return -1;
    int64_t runs = 0, next = count;
    for (int64_t k = 0; k < blocks; ++k) {
        found[static_cast<size_t>(k)].before = runs;
        runs += found[static_cast<size_t>(k)].runs;
    }
    for (int64_t k = blocks; k-- > 0;) {
        Block& block = found[static_cast<size_t>(k)];
        block.next = next;
        if (block.first >= 0) next = block.first;
    }
    auto write = [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
            const Block& block = found[static_cast<size_t>(k)];
            if (block.runs == 0) continue;
            int64_t run = block.before, start = block.first;
            const auto finish = [&](int64_t stop) {
                store_at<T>(values.data + run * values.stride, load_at<T>(in.data + start * in.stride));
                store_at<L>(lengths.data + run * lengths.stride, static_cast<L>(stop - start));
            };
            for (int64_t i = start + 1; i < std::min(count, (k + 1) * kBlockItems); ++i) {
                if (!starts_run<T>(in, i)) continue;
                finish(i);
                ++run;
                start = i;
            }
            finish(block.next);
        }
    };
    return parallel(blocks, write) ? runs : -1;
}

template <typename T>
int64_t encode_runs(const Line& in, const Line& values, const Line& lengths, int64_t count, int64_t length_size) {
    return length_size == 8 ? encode_runs<T, int64_t>(in, values, lengths, count)
                            : encode_runs<T, int32_t>(in, values, lengths, count);
}

PyObject* array_runs(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 4 || !require_arrays(args, 3)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "encode_runs(source, values, lengths, count)");
        return nullptr;
    }
    const int64_t count = PyLong_AsLongLong(args[3]);
    Element element{};
    if (PyErr_Occurred() || !element_of(array_of(args[0]), &element)) return nullptr;
    const Line in = line_of(array_of(args[0])), values = line_of(array_of(args[1])),
               lengths = line_of(array_of(args[2]));
    const int64_t wide = array_of(args[2])->itemsize;
    int64_t runs = 0;
    switch (count ? element.size : 0) {
        case 0:
            break;
        case 1:
            runs = encode_runs<uint8_t>(in, values, lengths, count, wide);
            break;
        case 2:
            runs = encode_runs<uint16_t>(in, values, lengths, count, wide);
            break;
        case 4:
            runs = encode_runs<uint32_t>(in, values, lengths, count, wide);
            break;
        case 8:
            runs = encode_runs<uint64_t>(in, values, lengths, count, wide);
            break;
        default:
            PyErr_SetString(PyExc_TypeError, "encode_runs() has no such dtype");
            return nullptr;
    }
    return runs < 0 ? nullptr : PyLong_FromLongLong(runs);
}

PyMethodDef functions[] = {
    {"scan", method(array_scan), METH_FASTCALL,
     "scan($module, source, out, inclusive, /)\n--\n\nWrite the prefix sums of the elements, component by component."},
    {"encode_runs", method(array_runs), METH_FASTCALL,
     "encode_runs($module, source, values, lengths, count, /)\n--\n\nWrite each run's value and its length; returns "
     "their number."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_scan(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
