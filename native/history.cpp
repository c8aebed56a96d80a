#include "history.h"

#include <algorithm>
#include <new>

#include "adjoint.h"
#include "array.h"
#include "structmember.h"

namespace wl {

namespace {

// ---- what recorded launches read

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

void add_reader(History* self, const Extent& extent, PyObject* record, Py_ssize_t position) {
    if (!extent.empty()) self->readers->at(extent).push_back({Ref::borrow(record).release(), position});
}

}  // namespace

bool may_overwrite(History* self, const Extent& extent) {
    const auto unneeded = [&](const Extent&, const std::vector<Reader>& readers) {
        return std::all_of(readers.begin(), readers.end(), surely_unneeded);
    };
    const auto noted = [&](const Extent&, const std::vector<Reader>& readers) {
        return std::all_of(readers.begin(), readers.end(),
                           [&](const Reader& reader) { return note_uncopied(self, reader); });
    };
    if (!self->readers->overlapping(extent, unneeded)) return false;
    if (!self->readers->overlapping(extent, noted)) {
        forget_error();
        return false;
    }
    std::vector<Reader> old;
    self->readers->overlapping(extent, [&](const Extent& found, std::vector<Reader>& readers) {
        if (!extent.holds(found)) return true;
        old.insert(old.end(), readers.begin(), readers.end());
        readers.clear();
        return true;
    });
    for (const Reader& reader : old) Py_DECREF(reader.record);
    return true;
}

bool remember(History* self, const Dispatcher* dispatcher, PyObject* record) {
    const auto& params = dispatcher->signature->params;
    PyObject* args = as_record(record)->args;
    for (size_t i = 0; i < params.size(); ++i) {
        if (params[i].kind != ParamKind::Array || !(params[i].reads || params[i].writes)) continue;
        PyObject* array = PyList_GET_ITEM(args, static_cast<Py_ssize_t>(i));
        add_reader(self, extent_of(array), record, static_cast<Py_ssize_t>(i));
        if (params[i].writes && has_gradient(array) && PyList_Append(self->written, array) < 0) return false;
    }
    return true;
}

namespace {

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
    if (extent.empty()) Py_RETURN_NONE;
    auto& readers = as_history(object)->readers->at(extent);
    const auto found = std::find_if(readers.begin(), readers.end(), [&](const Reader& reader) {
        return reader.record == args[0] && reader.position == position;
    });
    if (found == readers.end()) Py_RETURN_NONE;
    const Ref record(found->record);
    readers.erase(found);
    Py_RETURN_NONE;
}

PyObject* history_overlapping_readers(PyObject* object, PyObject* array) {
    if (!is_array(array)) return PyErr_Format(PyExc_TypeError, "overlapping_readers() needs an array, got %R", array);
    std::vector<Reader> readers;
    as_history(object)->readers->overlapping(extent_of(array), [&](const Extent&, const std::vector<Reader>& list) {
        readers.insert(readers.end(), list.begin(), list.end());
        return true;
    });
    Ref found(PyList_New(0));
    for (const Reader& reader : readers) {
        Ref pair(Py_BuildValue("(On)", reader.record, reader.position));
        if (!found || !pair || PyList_Append(found.get(), pair.get()) < 0) return nullptr;
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
    self->readers = new (std::nothrow) IntervalMap<Reader>;
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
    int result = 0;
    self->readers->all([&](const Reader& reader) { result = result ? result : visit(reader.record, arg); });
    return result;
}

int history_clear(PyObject* object) {
    History* self = as_history(object);
    Py_CLEAR(self->written);
    Py_CLEAR(self->without);
    Py_CLEAR(self->uncopied);
    if (!self->readers) return 0;
    IntervalMap<Reader> old;
    std::swap(old, *self->readers);
    old.all([](const Reader& reader) { Py_DECREF(reader.record); });
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
     "add_reader($self, record, position, /)\n--\n\nNote that the adjoint of `record` may read its argument at "
     "`position`."},
    {"discard_reader", method(history_discard_reader), METH_FASTCALL,
     "discard_reader($self, record, position, /)\n--\n\nForget that it may."},
    {"overlapping_readers", history_overlapping_readers, METH_O,
     "overlapping_readers($self, array, /)\n--\n\nReturn (record, position) for each reader whose argument spans "
     "memory that `array` spans as well."},
    {"take_written", history_take_written, METH_NOARGS,
     "take_written($self, /)\n--\n\nReturn, once, the arrays with gradients that launches have written which "
     "try_record took."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef history_members[] = {
    {"without", T_OBJECT_EX, offsetof(History, without), READONLY,
     "A dict by id: the arrays that had no gradient when it was decided that copies are not needed."},
    {"uncopied", T_OBJECT_EX, offsetof(History, uncopied), READONLY,
     "(record, position) of each argument of which no copy was made then; of a launch's own, -1 for the position."},
    {nullptr, 0, 0, 0, nullptr},
};

}  // namespace

PyTypeObject HistoryType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool register_history(PyObject* module) {
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
    return add_type(module, "History", &HistoryType);
}

}  // namespace wl
