#include "host_write.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "alloc.h"
#include "extent.h"
#include "tensor_memory.h"
#include "thread_pool.h"

namespace wl {

namespace {

constexpr int64_t kAloneBytes = 1 << 16;  // less than this is written at once
constexpr int64_t kPattern = 4096;        // about so many bytes of a repeated element are copied at a time

// What an entry point below reads.
struct Writing {
    char* to;
    const char* from;
    int64_t item;    // bytes of an element
    int64_t period;  // `from` has so many elements, which are repeated
    int ndim;
    int64_t shape[kMaxDims];
    int64_t to_strides[kMaxDims];
    int64_t from_strides[kMaxDims];
};

const Writing& writing_of(const uint8_t* args) { return *reinterpret_cast<const Writing*>(args); }

void set_zeros(const uint8_t* args, const int64_t*, int64_t begin, int64_t end, Context*) {
    const Writing& w = writing_of(args);
    std::memset(w.to + begin * w.item, 0, static_cast<size_t>((end - begin) * w.item));
}

// The elements of `from` are all the same, so it does not matter which comes first.
void repeat(const uint8_t* args, const int64_t*, int64_t begin, int64_t end, Context*) {
    const Writing& w = writing_of(args);
    for (int64_t i = begin; i < end; i += w.period) {
        std::memcpy(w.to + i * w.item, w.from, static_cast<size_t>(std::min(w.period, end - i) * w.item));
    }
}

void copy_elements(const uint8_t* args, const int64_t*, int64_t begin, int64_t end, Context*) {
    const Writing& w = writing_of(args);
    std::memmove(w.to + begin * w.item, w.from + begin * w.item, static_cast<size_t>((end - begin) * w.item));
}

template <typename T>
void add_numbers(const uint8_t* args, const int64_t*, int64_t begin, int64_t end, Context*) {
    const Writing& w = writing_of(args);
    const int64_t numbers = w.item / static_cast<int64_t>(sizeof(T));
    T* to = reinterpret_cast<T*>(w.to);
    const T* from = reinterpret_cast<const T*>(w.from);
    for (int64_t i = begin * numbers; i < end * numbers; ++i) to[i] += from[i];
}

void write_strided(const uint8_t* args, const int64_t*, int64_t begin, int64_t end, Context*) {
    const Writing& w = writing_of(args);
    int64_t at[kMaxDims] = {}, to = 0, from = 0, rest = begin;
    for (int d = w.ndim; d-- > 0;) {
        at[d] = rest % w.shape[d];
        rest /= w.shape[d];
        to += at[d] * w.to_strides[d];
        from += at[d] * w.from_strides[d];
    }
    for (int64_t i = begin; i < end; ++i) {
        std::memcpy(w.to + to, w.from + from, static_cast<size_t>(w.item));
        for (int d = w.ndim; d-- > 0;) {
            to += w.to_strides[d];
            from += w.from_strides[d];
            if (++at[d] < w.shape[d]) break;
            to -= w.shape[d] * w.to_strides[d];
            from -= w.shape[d] * w.from_strides[d];
            at[d] = 0;
        }
    }
}

struct Work {
    Ref dest;
    Ref source;              // an array, or null
    Ref python;              // does the same where a library wants to know of writes
    std::vector<char> data;  // the elements, where there is no `source`
    Writing writing{};
    Entry entry = nullptr;
    bool at_once = false;  // source and destination overlap
    bool adds = false;
};

struct HostWrite {
    PyObject_HEAD Work* work;
};

Work* work_of(PyObject* object) { return reinterpret_cast<HostWrite*>(object)->work; }
const Array* dest_of(const Work* work) { return reinterpret_cast<const Array*>(work->dest.get()); }
const Array* source_of(const Work* work) { return reinterpret_cast<const Array*>(work->source.get()); }

bool is_plain(const Array* array) {
    const bool told = array->hooked || is_watched(array->owner);
    return array->type_code != kUnbound && !told && array->device_type == kDLCPU;
}

// ---- binding

bool same_elements(const Array* a, const Array* b) {
    return a->type_code == b->type_code && a->itemsize == b->itemsize && a->ndim == b->ndim &&
           std::equal(a->shape, a->shape + a->ndim, b->shape);
}

// Chooses how to write `data`, an element or all of them in C order; false where it is neither.
bool bind_data(Work* work) {
    const Array* dest = dest_of(work);
    Writing& w = work->writing;
    const auto size = static_cast<int64_t>(work->data.size());
    const bool zeros = std::all_of(work->data.begin(), work->data.end(), [](char c) { return c == 0; });
    if (size == w.item && dest->contiguous) {
        w.period = std::max<int64_t>(1, std::min(dest->size, kPattern / w.item));
        const std::vector<char> one = work->data;
        for (int64_t i = 1; i < w.period; ++i) work->data.insert(work->data.end(), one.begin(), one.end());
        work->entry = zeros ? set_zeros : repeat;
    } else if (size == w.item) {
        work->entry = write_strided;  // steps of zero repeat the element
    } else if (size == w.item * dest->size) {
        work->entry = dest->contiguous ? copy_elements : write_strided;
        int64_t step = w.item;
        for (int d = w.ndim; d-- > 0; step *= w.shape[d]) w.from_strides[d] = step;
    } else {
        return false;
    }
    w.from = work->data.data();
    return true;
}

bool bind_copy(Work* work) {
    const Array *dest = dest_of(work), *source = source_of(work);
    if (!same_elements(dest, source) || source->device_type != kDLCPU) return false;
    const bool contiguous = dest->contiguous && source->contiguous;
    work->at_once = extent_of(work->dest.get()).overlaps(extent_of(work->source.get()));
    if (work->at_once && !contiguous) return false;
    work->writing.from = source->data;
    std::copy(source->strides, source->strides + source->ndim, work->writing.from_strides);
    work->entry = contiguous ? copy_elements : write_strided;
    return true;
}

bool bind_sum(Work* work) {
    Element element{};
    if (!dest_of(work)->contiguous || !source_of(work)->contiguous || work->at_once ||
        !Element::decode(dest_of(work)->type_code, &element)) {
        return false;
    }
    const bool narrow = element.scalar == Scalar::Float32;
    work->entry = narrow ? add_numbers<float> : add_numbers<double>;
    return narrow || element.scalar == Scalar::Float64;
}

// False, with no exception set, where Python has to do it.
bool bind(Work* work, PyObject* values) {
    const Array* dest = dest_of(work);
    if (!is_plain(dest) || dest->readonly) return false;
    Writing& w = work->writing;
    w.to = dest->data;
    w.item = dest->itemsize;
    w.ndim = dest->ndim;
    std::copy(dest->shape, dest->shape + dest->ndim, w.shape);
    std::copy(dest->strides, dest->strides + dest->ndim, w.to_strides);
    if (!PyBytes_Check(values)) {
        work->source = Ref::borrow(values);
        return bind_copy(work) && (!work->adds || bind_sum(work));
    }
    const char* bytes = PyBytes_AS_STRING(values);
    work->data.assign(bytes, bytes + PyBytes_GET_SIZE(values));
    return !work->adds && bind_data(work);
}

PyObject* bind_write(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 4 || !is_array(args[0]) || !(is_array(args[1]) || PyBytes_Check(args[1])) ||
        !PyCallable_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError, "bind_write(dest, values, adds, python)");
        return nullptr;
    }
    Ref object(HostWriteType.tp_alloc(&HostWriteType, 0));
    if (!object) return nullptr;
    Work* work = new (std::nothrow) Work;
    if (!work) return PyErr_NoMemory();
    reinterpret_cast<HostWrite*>(object.get())->work = work;
    work->dest = Ref::borrow(args[0]);
    work->adds = args[2] == Py_True;
    work->python = Ref::borrow(args[3]);
    if (!bind(work, args[1])) Py_RETURN_NONE;
    return object.release();
}

// ---- the type

int traverse(PyObject* object, visitproc visit, void* arg) {
    Work* work = work_of(object);
    if (!work) return 0;
    Py_VISIT(work->dest.get());
    Py_VISIT(work->source.get());
    Py_VISIT(work->python.get());
    return 0;
}

void dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    delete work_of(object);
    Py_TYPE(object)->tp_free(object);
}

PyMethodDef functions[] = {
    {"bind_write", method(bind_write), METH_FASTCALL,
     "bind_write($module, dest, values, adds, python, /)\n--\n\nReturn a HostWrite: `values`, an array or the bytes of "
     "an element or of all, are copied or added to `dest`. `python` is called in its place where a library wants to "
     "know of writes. None where only Python can do it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject HostWriteType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool as_element_write(PyObject* object, ElementWrite* out) {
    const Work* work = work_of(object);
    if (work->at_once || !is_plain(dest_of(work))) return false;
    *out = {work->entry, reinterpret_cast<const uint8_t*>(&work->writing), dest_of(work), source_of(work), work->adds};
    return true;
}

bool require_memory_of_write(PyObject* object) {
    const Work* work = work_of(object);
    return require_memory(dest_of(work)) && (!work->source || require_memory(source_of(work)));
}

bool run_host_write(PyObject* object) {
    const Ref held = Ref::borrow(object);
    const Work* work = work_of(object);
    if (!require_memory_of_write(object)) return false;
    if (!is_plain(dest_of(work))) return static_cast<bool>(Ref(PyObject_CallNoArgs(work->python.get())));
    const int64_t count = dest_of(work)->size;
    const auto* args = reinterpret_cast<const uint8_t*>(&work->writing);
    if (!count) return true;
    if (work->at_once || count * work->writing.item <= kAloneBytes) {
        work->entry(args, nullptr, 0, count, nullptr);
        return true;
    }
    const auto dims = line_of(count);
    RunRecord record;
    Gil gil(&record);
    return !run({work->entry, args, dims.data(), count, nullptr, 1}, &record, &gil).interrupted;
}

bool register_host_write(PyObject* module) {
    HostWriteType.tp_name = "warp_like._native.HostWrite";
    HostWriteType.tp_basicsize = sizeof(HostWrite);
    HostWriteType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    HostWriteType.tp_doc = "A write of the host to a whole array, made by `bind_write`.";
    HostWriteType.tp_dealloc = dealloc;
    HostWriteType.tp_traverse = traverse;
    return add_type(module, "HostWrite", &HostWriteType) && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
