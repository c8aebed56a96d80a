#include "record.h"

#include <algorithm>
#include <new>

#include "adjoint.h"
#include "array.h"
#include "structmember.h"
#include "value.h"

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

Extent extent_of(PyObject* object) {
    const Array* array = reinterpret_cast<const Array*>(object);
    return span(reinterpret_cast<uintptr_t>(array->data), array->ndim, array->shape, array->strides, array->itemsize);
}

bool has_gradient(PyObject* object) {
    PyObject* gradient = reinterpret_cast<Array*>(object)->grad_array;
    return gradient && gradient != Py_None;
}

namespace {

// ---- records

// A vector or a matrix as it is now: the caller may change it afterwards.
Ref snapshot(PyObject* object) {
    if (!PyObject_TypeCheck(object, &ValueType)) return Ref::borrow(object);
    Ref copy(Py_TYPE(object)->tp_alloc(Py_TYPE(object), Py_SIZE(object)));
    if (copy) {
        std::copy_n(reinterpret_cast<Value*>(object)->bytes, Py_SIZE(object),
                    reinterpret_cast<Value*>(copy.get())->bytes);
    }
    return copy;
}

// Takes the references to `args` and `same`.
PyObject* make_record(PyObject* kernel, PyObject* dims, PyObject* types, Ref args, Ref same, PyObject* dispatcher) {
    Ref object(RecordType.tp_alloc(&RecordType, 0));
    if (!object || !args || !same) return nullptr;
    Record* self = as_record(object.get());
    self->kernel = Ref::borrow(kernel).release();
    self->dims = Ref::borrow(dims).release();
    self->types = Ref::borrow(types).release();
    self->args = args.release();
    self->same = same.release();
    self->refusal = Ref::borrow(Py_None).release();
    self->dispatcher = Ref::borrow(dispatcher).release();
    self->kept = PyDict_New();
    self->scratch = PyDict_New();
    return self->kept && self->scratch ? object.release() : nullptr;
}

PyObject* record_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"kernel", "dims", "types", "args", "same", nullptr};
    PyObject *kernel, *dims, *types, *given, *same = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!OO|O:Record", const_cast<char**>(names), &kernel, &PyTuple_Type,
                                     &dims, &types, &given, &same)) {
        return nullptr;
    }
    Ref list(PySequence_List(given));
    if (!list) return nullptr;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
        Ref item = snapshot(PyList_GET_ITEM(list.get(), i));
        if (!item || PyList_SetItem(list.get(), i, item.release()) < 0) return nullptr;
    }
    Ref pairs = same ? Ref::borrow(same) : Ref(PyTuple_New(0));
    return make_record(kernel, dims, types, std::move(list), std::move(pairs), Py_None);
}

int record_traverse(PyObject* object, visitproc visit, void* arg) {
    Record* self = as_record(object);
    Py_VISIT(self->kernel);
    Py_VISIT(self->dims);
    Py_VISIT(self->types);
    Py_VISIT(self->args);
    Py_VISIT(self->same);
    Py_VISIT(self->kept);
    Py_VISIT(self->scratch);
    Py_VISIT(self->refusal);
    Py_VISIT(self->dispatcher);
    return 0;
}

int record_clear(PyObject* object) {
    Record* self = as_record(object);
    Py_CLEAR(self->kernel);
    Py_CLEAR(self->dims);
    Py_CLEAR(self->types);
    Py_CLEAR(self->args);
    Py_CLEAR(self->same);
    Py_CLEAR(self->kept);
    Py_CLEAR(self->scratch);
    Py_CLEAR(self->refusal);
    Py_CLEAR(self->dispatcher);
    return 0;
}

void record_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    record_clear(object);
    Py_TYPE(object)->tp_free(object);
}

PyMethodDef record_methods[] = {
    {"try_reverse", try_reverse, METH_NOARGS,
     "try_reverse()\n--\n\nRun the adjoint with the arrays' own gradients, and return True; or return False, with "
     "nothing done, when something is not plainly right or the adjoint is not installed."},
    {"can_reverse", can_reverse, METH_NOARGS, "can_reverse()\n--\n\nReturn whether try_reverse would run the adjoint."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef record_members[] = {
    {"kernel", T_OBJECT, offsetof(Record, kernel), READONLY, "The kernel."},
    {"dims", T_OBJECT, offsetof(Record, dims), READONLY, "The grid."},
    {"types", T_OBJECT, offsetof(Record, types), READONLY, "The types of the kernel's parameters."},
    {"args", T_OBJECT, offsetof(Record, args), 0, "The checked arguments."},
    {"same", T_OBJECT, offsetof(Record, same), 0,
     "Pairs (j, i): argument j is the same piece of memory, seen the same way, as the earlier one i."},
    {"kept", T_OBJECT, offsetof(Record, kept), READONLY,
     "Copies of arguments that have been overwritten since and that the adjoint reads, by position."},
    {"scratch", T_OBJECT, offsetof(Record, scratch), READONLY,
     "Copies, from before the launch, of arguments that the launch itself overwrote, by position."},
    {"refusal", T_OBJECT, offsetof(Record, refusal), 0,
     "Why there is no gradient, where that is known from the arguments; else None."},
    {"dispatcher", T_OBJECT, offsetof(Record, dispatcher), 0, "The kernel's dispatcher, or None."},
    {"block_dim", T_LONGLONG, offsetof(Record, block_dim), 0,
     "On CUDA, the threads of a block, in which the adjoint runs as well; 0: the usual."},
    {nullptr, 0, 0, 0, nullptr},
};

// ---- what recorded launches read

struct Reader {
    PyObject* record;  // owned
    Py_ssize_t position;
};

// All that read one piece of memory.
struct Readers {
    Extent extent;
    std::vector<Reader> list;
};

struct History {
    PyObject_HEAD std::vector<Readers>* readers;
    PyObject* written;  // a list: arrays with gradients that launches recorded here have written
    // Where no copy was made because arrays had no gradient: these arrays, a dict by id, and a list of (record,
    // position).
    PyObject* without;
    PyObject* uncopied;
};

History* as_history(PyObject* object) { return reinterpret_cast<History*>(object); }

// Whether the adjoint of a record surely does not load its argument at `position`.
bool surely_unneeded(const Reader& reader) {
    Record* record = as_record(reader.record);
    const Dispatcher* adjoint = nullptr;
    if (PyTuple_GET_SIZE(record->same) || !find_adjoint(record, &adjoint)) return false;
    return !adjoint || !adjoint->signature->params[static_cast<size_t>(reader.position)].reads;
}

// Notes that no copy is made for a reader, and the arrays of its record without a gradient if there are any; false with
// an exception set.
bool note_uncopied(History* self, const Reader& reader) {
    const Record* record = as_record(reader.record);
    bool any = false;
    const auto& params = as_dispatcher(record->dispatcher)->signature->params;
    for (size_t i = 0; i < params.size(); ++i) {
        PyObject* arg = PyList_GET_ITEM(record->args, static_cast<Py_ssize_t>(i));
        if (params[i].kind != ParamKind::Array || !params[i].gradient || !is_array(arg) || has_gradient(arg)) continue;
        const Ref key(PyLong_FromVoidPtr(arg));
        if (!key || PyDict_SetItem(self->without, key.get(), arg) < 0) return false;
        any = true;
    }
    if (!any) return true;
    const Ref pair(Py_BuildValue("(On)", reader.record, reader.position));
    return pair && PyList_Append(self->uncopied, pair.get()) == 0;
}

// Whether overwriting `extent` takes nothing that an earlier record needs. Forgets the readers that it overwrites then.
bool may_overwrite(History* self, const Extent& extent) {
    for (const Readers& readers : *self->readers) {
        if (!readers.extent.overlaps(extent)) continue;
        if (!std::all_of(readers.list.begin(), readers.list.end(), surely_unneeded)) return false;
        for (const Reader& reader : readers.list) {
            if (note_uncopied(self, reader)) continue;
            PyErr_Clear();
            return false;
        }
    }
    for (Readers& readers : *self->readers) {
        if (!extent.holds(readers.extent)) continue;
        std::vector<Reader> old;
        old.swap(readers.list);
        for (const Reader& reader : old) Py_DECREF(reader.record);
    }
    return true;
}

void add_reader(History* self, const Extent& extent, PyObject* record, Py_ssize_t position) {
    auto found = std::find_if(self->readers->begin(), self->readers->end(), [&](const Readers& readers) {
        return readers.extent.begin == extent.begin && readers.extent.end == extent.end;
    });
    if (found == self->readers->end()) found = self->readers->insert(found, Readers{extent, {}});
    Py_INCREF(record);
    found->list.push_back({record, position});
}

bool read_position(PyObject* const* args, Py_ssize_t nargs, Extent* extent, Py_ssize_t* position) {
    if (nargs != 2 || !is_record(args[0])) {
        PyErr_SetString(PyExc_TypeError, "needs a Record and the position of an argument");
        return false;
    }
    *position = PyLong_AsSsize_t(args[1]);
    if (*position == -1 && PyErr_Occurred()) return false;
    PyObject* list = as_record(args[0])->args;
    if (*position < 0 || *position >= PyList_GET_SIZE(list) || !is_array(PyList_GET_ITEM(list, *position))) {
        PyErr_SetString(PyExc_IndexError, "there is no array argument at this position");
        return false;
    }
    *extent = extent_of(PyList_GET_ITEM(list, *position));
    return true;
}

PyObject* history_add_reader(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    Extent extent;
    Py_ssize_t position;
    if (!read_position(args, nargs, &extent, &position)) return nullptr;
    add_reader(as_history(object), extent, args[0], position);
    Py_RETURN_NONE;
}

PyObject* history_discard_reader(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    Extent extent;
    Py_ssize_t position;
    if (!read_position(args, nargs, &extent, &position)) return nullptr;
    for (Readers& readers : *as_history(object)->readers) {
        auto found = std::find_if(readers.list.begin(), readers.list.end(), [&](const Reader& reader) {
            return reader.record == args[0] && reader.position == position;
        });
        if (found == readers.list.end()) continue;
        PyObject* record = found->record;
        readers.list.erase(found);
        Py_DECREF(record);
        Py_RETURN_NONE;
    }
    Py_RETURN_NONE;
}

PyObject* history_readers_near(PyObject* object, PyObject* array) {
    if (!is_array(array)) return PyErr_Format(PyExc_TypeError, "readers_near() needs an array, got %R", array);
    const Extent extent = extent_of(array);
    Ref found(PyList_New(0));
    for (const Readers& readers : *as_history(object)->readers) {
        if (!found || !readers.extent.overlaps(extent)) continue;
        for (const Reader& reader : readers.list) {
            Ref pair(Py_BuildValue("(On)", reader.record, reader.position));
            if (!pair || PyList_Append(found.get(), pair.get()) < 0) return nullptr;
        }
    }
    return found.release();
}

PyObject* history_take_written(PyObject* object, PyObject*) {
    PyObject* fresh = PyList_New(0);
    return fresh ? std::exchange(as_history(object)->written, fresh) : nullptr;
}

PyObject* history_new(PyTypeObject* type, PyObject*, PyObject*) {
    Ref object(type->tp_alloc(type, 0));
    if (!object) return nullptr;
    History* self = as_history(object.get());
    self->readers = new (std::nothrow) std::vector<Readers>;
    self->written = PyList_New(0);
    self->without = PyDict_New();
    self->uncopied = PyList_New(0);
    if (!self->readers) return PyErr_NoMemory();
    return self->written && self->without && self->uncopied ? object.release() : nullptr;
}

int history_traverse(PyObject* object, visitproc visit, void* arg) {
    History* self = as_history(object);
    Py_VISIT(self->written);
    Py_VISIT(self->without);
    Py_VISIT(self->uncopied);
    if (!self->readers) return 0;
    for (const Readers& readers : *self->readers) {
        for (const Reader& reader : readers.list) Py_VISIT(reader.record);
    }
    return 0;
}

int history_clear(PyObject* object) {
    History* self = as_history(object);
    Py_CLEAR(self->written);
    Py_CLEAR(self->without);
    Py_CLEAR(self->uncopied);
    if (!self->readers) return 0;
    std::vector<Readers> old;
    old.swap(*self->readers);
    for (const Readers& readers : old) {
        for (const Reader& reader : readers.list) Py_DECREF(reader.record);
    }
    return 0;
}

void history_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    history_clear(object);
    delete as_history(object)->readers;
    Py_TYPE(object)->tp_free(object);
}

PyMethodDef history_methods[] = {
    {"add_reader", method(history_add_reader), METH_FASTCALL,
     "add_reader(record, position)\n--\n\nNote that the adjoint of `record` may read its argument at `position`."},
    {"discard_reader", method(history_discard_reader), METH_FASTCALL,
     "discard_reader(record, position)\n--\n\nForget that it may."},
    {"readers_near", history_readers_near, METH_O,
     "readers_near(array)\n--\n\nReturn (record, position) for each reader whose argument spans memory that `array` "
     "spans as well."},
    {"take_written", history_take_written, METH_NOARGS,
     "take_written()\n--\n\nReturn, once, the arrays with gradients that launches have written which try_record "
     "took."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef history_members[] = {
    {"without", T_OBJECT_EX, offsetof(History, without), READONLY,
     "A dict by id: the arrays that had no gradient when it was decided that copies are not needed."},
    {"uncopied", T_OBJECT_EX, offsetof(History, uncopied), READONLY,
     "(record, position) of each argument of which no copy was made then; of a launch's own, -1 for the position."},
    {nullptr, 0, 0, 0, nullptr},
};

PyTypeObject HistoryType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// ---- recording a launch

// Whether a tape needs no more of this launch than its arguments: arrays of our own, of which those that the kernel
// writes overlap neither each other nor what an earlier record needs.
bool is_plain(const Dispatcher* self, const Given& given, History* history) {
    const auto& params = self->signature->params;
    std::vector<Extent> extents(params.size(), Extent{0, 0});
    for (size_t i = 0; i < params.size(); ++i) {
        if (params[i].kind != ParamKind::Array) continue;
        if (!is_array(given[i])) return false;
        extents[i] = extent_of(given[i]);
        for (size_t k = 0; k < i; ++k) {
            if (params[k].kind != ParamKind::Array || !extents[i].overlaps(extents[k])) continue;
            if (params[i].writes || params[k].writes || extents[i].begin == extents[k].begin) return false;
        }
    }
    for (size_t i = 0; i < params.size(); ++i) {
        if (params[i].kind == ParamKind::Array && params[i].writes && !may_overwrite(history, extents[i])) return false;
    }
    return true;
}

// Notes a launch that has run.
bool remember(History* history, const Dispatcher* self, PyObject* record) {
    const auto& params = self->signature->params;
    PyObject* args = as_record(record)->args;
    for (size_t i = 0; i < params.size(); ++i) {
        if (params[i].kind != ParamKind::Array || !(params[i].reads || params[i].writes)) continue;
        PyObject* array = PyList_GET_ITEM(args, static_cast<Py_ssize_t>(i));
        add_reader(history, extent_of(array), record, static_cast<Py_ssize_t>(i));
        if (params[i].writes && has_gradient(array) && PyList_Append(history->written, array) < 0) return false;
    }
    return true;
}

Ref snapshots(const Given& given) {
    Ref list(PyList_New(static_cast<Py_ssize_t>(given.size())));
    for (size_t i = 0; list && i < given.size(); ++i) {
        Ref item = snapshot(given[i]);
        if (!item) return Ref();
        PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item.release());
    }
    return list;
}

Ref dims_of(PyObject* dim) {
    if (PyTuple_CheckExact(dim)) return Ref::borrow(dim);
    return PyLong_Check(dim) ? Ref(PyTuple_Pack(1, dim)) : Ref(PySequence_Tuple(dim));
}

}  // namespace

PyTypeObject RecordType = {PyVarObject_HEAD_INIT(nullptr, 0)};

PyObject* try_record(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 6 || !PyObject_TypeCheck(args[0], &HistoryType)) {
        PyErr_SetString(PyExc_TypeError, "try_record(history, kernel, dim, inputs, outputs, device)");
        return nullptr;
    }
    Dispatcher* self = as_dispatcher(object);
    History* history = as_history(args[0]);
    Refusal refusal;
    Grid grid;
    Given given;
    if (!self->recordable || !same_device(self, args[5], &refusal.reason) ||
        !read_grid(args[2], &grid, &refusal.reason) || given.take(self->signature->declared, args[3], args[4])) {
        Py_RETURN_NONE;
    }
    Arguments arguments(*self->signature);
    if (!arguments.pack(given, self->device, &refusal) || !is_plain(self, given, history)) Py_RETURN_NONE;
    Variant* variant = variant_for(self, grid, arguments);
    if (grid.count && !variant->entry) Py_RETURN_NONE;
    Ref dims = dims_of(args[2]);
    if (!dims) return nullptr;
    Ref record(make_record(args[1], dims.get(), self->types, snapshots(given), Ref(PyTuple_New(0)), object));
    if (!record) return nullptr;
    if (grid.count && !execute(self, variant, grid, &arguments)) return nullptr;
    return remember(history, self, record.get()) ? record.release() : nullptr;
}

bool register_record(PyObject* module) {
    RecordType.tp_name = "warp_like._native.Record";
    RecordType.tp_basicsize = sizeof(Record);
    RecordType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    RecordType.tp_doc =
        "Record(kernel, dims, types, args, same=())\n--\n\nOne launch on a tape: enough to run its adjoint. Vectors "
        "and matrices among `args` are copied.";
    RecordType.tp_new = record_new;
    RecordType.tp_dealloc = record_dealloc;
    RecordType.tp_traverse = record_traverse;
    RecordType.tp_clear = record_clear;
    RecordType.tp_methods = record_methods;
    RecordType.tp_members = record_members;
    HistoryType.tp_name = "warp_like._native.History";
    HistoryType.tp_basicsize = sizeof(History);
    HistoryType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
    HistoryType.tp_doc = "The native part of a tape's history: which recorded launches read which memory.";
    HistoryType.tp_new = history_new;
    HistoryType.tp_dealloc = history_dealloc;
    HistoryType.tp_traverse = history_traverse;
    HistoryType.tp_clear = history_clear;
    HistoryType.tp_methods = history_methods;
    HistoryType.tp_members = history_members;
    return add_type(module, "Record", &RecordType) && add_type(module, "History", &HistoryType);
}

}  // namespace wl
