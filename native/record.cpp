#include "record.h"

#include <algorithm>
#include <new>

#include "adjoint.h"
#include "array.h"
#include "fingerprint.h"
#include "history.h"
#include "structmember.h"
#include "value.h"

namespace wl {

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
    self->saved = PyDict_New();
    self->prelaunch_copies = PyDict_New();
    new (&self->seen) std::vector<Seen>;
    return self->saved && self->prelaunch_copies ? object.release() : nullptr;
}

PyObject* record_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"kernel", "dims", "types", "args", "same", nullptr};
    PyObject *kernel, *dims, *types, *operands, *same = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!OO|O:Record", const_cast<char**>(names), &kernel, &PyTuple_Type,
                                     &dims, &types, &operands, &same)) {
        return nullptr;
    }
    Ref list(PySequence_List(operands));
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
    Py_VISIT(self->saved);
    Py_VISIT(self->prelaunch_copies);
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
    Py_CLEAR(self->saved);
    Py_CLEAR(self->prelaunch_copies);
    Py_CLEAR(self->refusal);
    Py_CLEAR(self->dispatcher);
    return 0;
}

void record_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    record_clear(object);
    as_record(object)->seen.~vector();
    Py_TYPE(object)->tp_free(object);
}

// Whether the array of a record has other elements now.
bool has_changed(const Record* record, const Seen& seen) {
    if (seen.position >= PyList_GET_SIZE(record->args)) return false;
    PyObject* arg = PyList_GET_ITEM(record->args, seen.position);
    return is_array(arg) && quick_fingerprint(reinterpret_cast<Array*>(arg)) != seen.fingerprint;
}

bool has_run_again(const Record* record) {
    return !PyObject_TypeCheck(record->dispatcher, &DispatcherType) ||
           as_dispatcher(record->dispatcher)->unrecorded != record->unrecorded;
}

PyObject* record_ran(PyObject* object, PyObject*) {
    Record* self = as_record(object);
    if (!PyObject_TypeCheck(self->dispatcher, &DispatcherType)) Py_RETURN_NONE;
    --as_dispatcher(self->dispatcher)->unrecorded;
    note_seen(self);
    Py_RETURN_NONE;
}

PyObject* record_runs_elsewhere(PyObject* object, PyObject*) {
    if (PyObject_TypeCheck(as_record(object)->dispatcher, &DispatcherType)) note_seen(as_record(object));
    Py_RETURN_NONE;
}

PyObject* record_follow(PyObject* object, PyObject*) {
    as_record(object)->seen.clear();
    Py_RETURN_NONE;
}

PyObject* record_changed(PyObject* object, PyObject*) {
    const Record* self = as_record(object);
    Ref list(PyList_New(0));
    if (!list || has_run_again(self)) return list.release();
    for (const Seen& seen : self->seen) {
        if (!has_changed(self, seen)) continue;
        const Ref position(PyLong_FromSsize_t(seen.position));
        if (!position || PyList_Append(list.get(), position.get()) < 0) return nullptr;
    }
    return list.release();
}

// Called when a tape ends its recording.
PyObject* note_torn(PyObject*, PyObject* launches) {
    if (!PyList_Check(launches)) return PyErr_Format(PyExc_TypeError, "note_torn() needs a list, got %R", launches);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(launches); ++i) {
        if (!is_record(PyList_GET_ITEM(launches, i))) continue;
        Record* record = as_record(PyList_GET_ITEM(launches, i));
        if (has_run_again(record)) continue;
        record->torn |= std::any_of(record->seen.begin(), record->seen.end(),
                                    [record](const Seen& seen) { return has_changed(record, seen); });
    }
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"note_torn", note_torn, METH_O,
     "note_torn($module, launches, /)\n--\n\nNote which of the records in a list something unseen has written to "
     "already."},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef record_methods[] = {
    {"ran", record_ran, METH_NOARGS,
     "ran($self, /)\n--\n\nNote that the launch has run, through its dispatcher, and what its arrays hold now."},
    {"runs_elsewhere", record_runs_elsewhere, METH_NOARGS,
     "runs_elsewhere($self, /)\n--\n\nNote what the arguments hold before something runs that means this launch."},
    {"follow", record_follow, METH_NOARGS,
     "follow($self, /)\n--\n\nForget what the arguments held: the adjoint takes them as they are from now on."},
    {"changed", record_changed, METH_NOARGS,
     "changed($self, /)\n--\n\nReturn the positions of the arrays that hold other elements, as far as fingerprints "
     "show it, than when the launch had run; none where the kernel has run again since without being recorded."},
    {"try_reverse", try_reverse, METH_NOARGS,
     "try_reverse($self, /)\n--\n\nRun the adjoint with the arrays' own gradients, and return True; or return False, "
     "with nothing done, when something is not plainly right or the adjoint is not installed."},
    {"can_reverse", can_reverse, METH_NOARGS,
     "can_reverse($self, /)\n--\n\nReturn whether try_reverse would run the adjoint."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef record_members[] = {
    {"kernel", T_OBJECT, offsetof(Record, kernel), READONLY, "The kernel."},
    {"dims", T_OBJECT, offsetof(Record, dims), READONLY, "The grid."},
    {"types", T_OBJECT, offsetof(Record, types), READONLY, "The types of the kernel's parameters."},
    {"args", T_OBJECT, offsetof(Record, args), 0, "The checked arguments."},
    {"same", T_OBJECT, offsetof(Record, same), 0,
     "Pairs (j, i): argument j is the same piece of memory, seen the same way, as the earlier one i."},
    {"saved", T_OBJECT, offsetof(Record, saved), READONLY,
     "Copies of arguments that have been overwritten since and that the adjoint reads, by position."},
    {"prelaunch_copies", T_OBJECT, offsetof(Record, prelaunch_copies), READONLY,
     "Copies, from before the launch, of arguments that the launch itself overwrote, by position."},
    {"refusal", T_OBJECT, offsetof(Record, refusal), 0,
     "Why there is no gradient, where that is known from the arguments; else None."},
    {"dispatcher", T_OBJECT, offsetof(Record, dispatcher), 0, "The kernel's dispatcher, or None."},
    {"torn", T_BOOL, offsetof(Record, torn), READONLY,
     "Whether something unseen changed its arguments while the tape was recording: see note_torn."},
    {"block_dim", T_LONGLONG, offsetof(Record, block_dim), 0,
     "On CUDA, the threads of a block, in which the adjoint runs as well; 0: the usual."},
    {nullptr, 0, 0, 0, nullptr},
};

// ---- recording a launch

// Whether a tape needs no more of this launch than its arguments: arrays of our own, of which those that the kernel
// writes overlap neither each other nor what an earlier record needs.
bool is_plain(const Dispatcher* self, const Operands& operands, History* history) {
    const auto& params = self->signature->params;
    std::vector<Extent> extents(params.size(), Extent{0, 0});
    for (size_t i = 0; i < params.size(); ++i) {
        if (params[i].kind != ParamKind::Array) continue;
        if (!is_array(operands[i])) return false;
        extents[i] = extent_of(operands[i]);
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

Ref snapshots(const Operands& operands) {
    Ref list(PyList_New(static_cast<Py_ssize_t>(operands.size())));
    for (size_t i = 0; list && i < operands.size(); ++i) {
        Ref item = snapshot(operands[i]);
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

void note_seen(Record* record) {
    const Dispatcher* forward = as_dispatcher(record->dispatcher);
    record->unrecorded = forward->unrecorded;
    record->seen.clear();
    const auto& params = forward->signature->params;
    const Dispatcher* adjoint = nullptr;
    const bool known = !PyTuple_GET_SIZE(record->same) && find_adjoint(record, &adjoint);
    const bool fits = PyList_GET_SIZE(record->args) == static_cast<Py_ssize_t>(params.size());
    if (runs_elsewhere(forward) || !fits || (known && !adjoint)) return;
    for (size_t i = 0; i < params.size(); ++i) {
        const auto position = static_cast<Py_ssize_t>(i);
        PyObject* arg = PyList_GET_ITEM(record->args, position);
        if (params[i].kind != ParamKind::Array || !is_array(arg) || !(params[i].reads || params[i].writes)) continue;
        if (known && !adjoint->signature->params[i].reads) continue;
        record->seen.push_back({position, quick_fingerprint(reinterpret_cast<Array*>(arg))});
    }
}

bool is_outdated(const Record* record, const Dispatcher* adjoint) {
    if (record->seen.empty() || has_run_again(record)) return false;
    for (const Seen& seen : record->seen) {
        if (adjoint->signature->params[static_cast<size_t>(seen.position)].reads && has_changed(record, seen))
            return true;
    }
    return false;
}

PyObject* try_record(PyObject* object, const LaunchCall& call, PyObject* recorded, PyObject* kernel) {
    if (!PyObject_TypeCheck(recorded, &HistoryType)) {
        PyErr_Format(PyExc_TypeError, "try_record() needs a History, got %R", recorded);
        return nullptr;
    }
    Dispatcher* self = as_dispatcher(object);
    History* history = as_history(recorded);
    Refusal refusal;
    Grid grid;
    Operands operands;
    if (!self->recordable || !same_device(self, call.device, &refusal.reason) ||
        !read_grid(call.dim, &grid, &refusal.reason) ||
        operands.take(self->signature->declared, call.inputs, call.outputs)) {
        Py_RETURN_NONE;
    }
    Arguments arguments(*self->signature);
    if (!arguments.pack(operands, self->device, &refusal) || !is_plain(self, operands, history)) Py_RETURN_NONE;
    if (leaves(self, grid)) Py_RETURN_NONE;
    Variant* variant = variant_for(self, grid, arguments);
    if (grid.count && !variant->entry) Py_RETURN_NONE;
    if (kernel == Py_None) {  // runs without being recorded
        if (grid.count && !execute(self, variant, grid, &arguments)) return nullptr;
        Py_RETURN_TRUE;
    }
    Ref dims = dims_of(call.dim);
    if (!dims) return nullptr;
    Ref record(make_record(kernel, dims.get(), self->types, snapshots(operands), Ref(PyTuple_New(0)), object));
    if (!record) return nullptr;
    if (grid.count && !execute(self, variant, grid, &arguments)) return nullptr;
    note_seen(as_record(record.get()));
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
    return add_type(module, "Record", &RecordType) && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
