#include "extent.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "array.h"

namespace wl {

namespace {

Extent span(uintptr_t data, int ndim, const int64_t* shape, const int64_t* strides, int64_t itemsize) {
    Extent extent{data, data + static_cast<uintptr_t>(itemsize)};
    for (int i = 0; i < ndim; ++i) {
        if (shape[i] == 0) return {data, data};
        const int64_t reach = (shape[i] - 1) * strides[i];
        (reach < 0 ? extent.begin : extent.end) += static_cast<uintptr_t>(reach);
    }
    return extent;
}

}  // namespace

Extent extent_of(const int64_t* slot, int ndim, int64_t itemsize) {
    return span(static_cast<uintptr_t>(slot[0]), ndim, slot + 1, slot + 1 + ndim, itemsize);
}

bool overlaps_itself(int ndim, const int64_t* shape, const int64_t* strides, int64_t itemsize) {
    int axes[kMaxDims], count = 0;
    for (int d = 0; d < ndim; ++d) {
        if (shape[d] > 1) axes[count++] = d;
    }
    std::sort(axes, axes + count, [&](int a, int b) { return std::abs(strides[a]) < std::abs(strides[b]); });
    int64_t length = itemsize;
    for (int k = 0; k < count; ++k) {
        const int64_t stride = std::abs(strides[axes[k]]);
        if (stride < length || __builtin_mul_overflow(stride, shape[axes[k]], &length)) return true;
    }
    return false;
}

Extent extent_of(PyObject* object) {
    const Array* array = reinterpret_cast<const Array*>(object);
    return span(reinterpret_cast<uintptr_t>(array->data), array->ndim, array->shape, array->strides, array->itemsize);
}

namespace {

// ---- for Python

struct PythonMap {
    PyObject_HEAD IntervalMap<PyObject*>* found;  // owned references
};

PythonMap* as_map(PyObject* object) { return reinterpret_cast<PythonMap*>(object); }

bool takes_array(PyObject* object) {
    if (is_array(object)) return true;
    PyErr_Format(PyExc_TypeError, "needs an array, got %R", object);
    return false;
}

PyObject* map_add(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 2) return PyErr_Format(PyExc_TypeError, "add(array, value)");
    if (!takes_array(args[0])) return nullptr;
    const Extent extent = extent_of(args[0]);
    if (!extent.empty()) as_map(object)->found->at(extent).push_back(Ref::borrow(args[1]).release());
    Py_RETURN_NONE;
}

PyObject* map_overlapping(PyObject* object, PyObject* array) {
    if (!takes_array(array)) return nullptr;
    Ref list(PyList_New(0));
    const bool fine = list && as_map(object)->found->overlapping(extent_of(array), [&](const Extent&, auto& values) {
        return std::all_of(values.begin(), values.end(),
                           [&](PyObject* value) { return PyList_Append(list.get(), value) == 0; });
    });
    return fine ? list.release() : nullptr;
}

PyObject* map_discard(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 2) return PyErr_Format(PyExc_TypeError, "discard(array, value)");
    if (!takes_array(args[0])) return nullptr;
    const Extent extent = extent_of(args[0]);
    if (extent.empty()) Py_RETURN_NONE;
    auto& values = as_map(object)->found->at(extent);
    const auto at = std::find(values.begin(), values.end(), args[1]);
    if (at == values.end()) Py_RETURN_NONE;
    const Ref gone(*at);
    values.erase(at);
    Py_RETURN_NONE;
}

PyObject* map_new(PyTypeObject* type, PyObject*, PyObject*) {
    Ref object(type->tp_alloc(type, 0));
    if (!object) return nullptr;
    as_map(object.get())->found = new (std::nothrow) IntervalMap<PyObject*>;
    return as_map(object.get())->found ? object.release() : PyErr_NoMemory();
}

int map_traverse(PyObject* object, visitproc visit, void* arg) {
    int result = 0;
    if (!as_map(object)->found) return 0;
    as_map(object)->found->all([&](PyObject* value) { result = result ? result : visit(value, arg); });
    return result;
}

int map_clear(PyObject* object) {
    if (!as_map(object)->found) return 0;
    IntervalMap<PyObject*> old;
    std::swap(old, *as_map(object)->found);
    old.all([](PyObject* value) { Py_DECREF(value); });
    return 0;
}

void map_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    map_clear(object);
    delete as_map(object)->found;
    Py_TYPE(object)->tp_free(object);
}

PyMethodDef map_methods[] = {
    {"add", method(map_add), METH_FASTCALL,
     "add($self, array, value, /)\n--\n\nKeep a value for the memory of an array."},
    {"discard", method(map_discard), METH_FASTCALL,
     "discard($self, array, value, /)\n--\n\nForget a value that was added for an array of the same extent, if it is "
     "there."},
    {"overlapping", map_overlapping, METH_O,
     "overlapping($self, array, /)\n--\n\nReturn the values of all memory between the first and the last byte of an "
     "array."},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject IntervalMapType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

bool register_extent(PyObject* module) {
    IntervalMapType.tp_name = "warp_like._native.IntervalMap";
    IntervalMapType.tp_basicsize = sizeof(PythonMap);
    IntervalMapType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    IntervalMapType.tp_doc =
        "IntervalMap()\n--\n\nValues by the memory that they are about, found in logarithmic time.";
    IntervalMapType.tp_new = map_new;
    IntervalMapType.tp_dealloc = map_dealloc;
    IntervalMapType.tp_traverse = map_traverse;
    IntervalMapType.tp_clear = map_clear;
    IntervalMapType.tp_methods = map_methods;
    return add_type(module, "IntervalMap", &IntervalMapType);
}

}  // namespace wl
