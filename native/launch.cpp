#include "launch.h"

#include "adjoint.h"
#include "bound_launch.h"
#include "dispatch.h"
#include "fast_path.h"
#include "record.h"
#include "recorder.h"
#include "structmember.h"
#include "watch.h"

namespace wl {

namespace {

// ---- kernels as launches see them

// The native base of Kernel.
struct Launchable {
    PyObject_HEAD PyObject* fast;  // the Dispatcher that launches try first; null or None when there is none
    PyObject* latest;              // of a generic kernel, the instance whose dispatcher they try
    PyObject* others;  // a list of dispatchers for other devices, which they try next; null or None: there is none
};

int launchable_traverse(PyObject* object, visitproc visit, void* arg) {
    Launchable* self = reinterpret_cast<Launchable*>(object);
    Py_VISIT(self->fast);
    Py_VISIT(self->latest);
    Py_VISIT(self->others);
    return 0;
}

int launchable_clear(PyObject* object) {
    Launchable* self = reinterpret_cast<Launchable*>(object);
    Py_CLEAR(self->fast);
    Py_CLEAR(self->latest);
    Py_CLEAR(self->others);
    return 0;
}

void launchable_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    launchable_clear(object);
    Py_TYPE(object)->tp_free(object);
}

PyMemberDef launchable_members[] = {
    {"fast", T_OBJECT, offsetof(Launchable, fast), 0, "The native dispatcher that launches try first, or None."},
    {"latest", T_OBJECT, offsetof(Launchable, latest), 0,
     "Of a generic kernel, the instance whose dispatcher launches try first, or None."},
    {"others", T_OBJECT, offsetof(Launchable, others), 0,
     "A list of dispatchers for other devices, tried next, or None."},
    {nullptr, 0, 0, 0, nullptr},
};

PyTypeObject LaunchableType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// ---- the arguments of launch(), by position or by name

enum Parameter {
    kKernel,
    kDim,
    kInputs,
    kOutputs,
    kAdjInputs,
    kAdjOutputs,
    kDevice,
    kStream,
    kAdjoint,
    kRecordTape,
    kRecordCmd,
    kMaxBlocks,
    kBlockDim,
    kParameters,
};
constexpr const char* kNames[kParameters] = {"kernel",      "dim",        "inputs",   "outputs", "adj_inputs",
                                             "adj_outputs", "device",     "stream",   "adjoint", "record_tape",
                                             "record_cmd",  "max_blocks", "block_dim"};
PyObject* names[kParameters];  // interned
PyObject* no_arguments = nullptr;
PyObject* history_name = nullptr;
PyObject* launches_name = nullptr;

struct Call {
    PyObject* given[kParameters] = {};  // borrowed; null where the default is meant

    // False where Python has to see to it, be it right or wrong.
    bool read(PyObject* const* args, Py_ssize_t positional, PyObject* kwnames) {
        if (positional > kParameters) return false;
        for (Py_ssize_t i = 0; i < positional; ++i) given[i] = args[i];
        const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
        int at = static_cast<int>(positional);  // names mostly come in the order of the parameters
        for (Py_ssize_t k = 0; k < named; ++k) {
            PyObject* name = PyTuple_GET_ITEM(kwnames, k);
            int tried = 0;
            while (tried < kParameters && names[at % kParameters] != name) ++at, ++tried;
            if (tried == kParameters || given[at % kParameters]) return false;
            given[at % kParameters] = args[positional + k];
            at = (at + 1) % kParameters;
        }
        return given[kKernel] && given[kDim];
    }

    PyObject* sequence(Parameter which) const { return given[which] ? given[which] : no_arguments; }
    PyObject* optional(Parameter which) const { return given[which] ? given[which] : Py_None; }
    bool is(Parameter which, PyObject* value, bool by_default) const {
        return given[which] ? given[which] == value : by_default;
    }
    LaunchCall launch() const {
        const bool plain = !given[kStream] && !given[kMaxBlocks] && !given[kBlockDim];
        return {given[kDim], sequence(kInputs), sequence(kOutputs),   optional(kDevice),
                plain,       optional(kStream), optional(kMaxBlocks), optional(kBlockDim)};
    }
};

// ---- launch()

// Records a launch; or, where `kernel` is None, runs it where it overwrites nothing that the tape needs.
PyObject* record(const LaunchCall& call, PyObject* dispatcher, PyObject* kernel, PyObject* recorder) {
    const Ref held = Ref::borrow(recorder);
    const Ref history(PyObject_GetAttr(recorder, history_name));
    if (!history) return nullptr;
    if (history.get() == Py_None) Py_RETURN_FALSE;
    const Ref made(try_record(dispatcher, call, history.get(), kernel));
    if (!made) return nullptr;
    if (made.get() == Py_None) Py_RETURN_FALSE;
    if (made.get() == Py_True) return Py_NewRef(Py_True);
    const Ref launches(PyObject_GetAttr(recorder, launches_name));
    if (!launches || PyList_Append(launches.get(), made.get()) < 0) return nullptr;
    Py_RETURN_TRUE;
}

// Tries the dispatchers for other devices than that of the last launch. One that takes the launch is tried first from
// now on, so that programs which go from device to device find each.
PyObject* launch_elsewhere(PyObject* kernel, const LaunchCall& call) {
    const Ref held = Ref::borrow(kernel);
    auto* self = reinterpret_cast<Launchable*>(kernel);
    const Ref others = Ref::borrow(self->others);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(others.get()); ++i) {
        Ref dispatcher = Ref::borrow(PyList_GET_ITEM(others.get(), i));
        if (Py_TYPE(dispatcher.get()) != &DispatcherType) continue;
        Ref done(try_launch(dispatcher.get(), call));
        if (!done) return nullptr;
        if (done.get() != Py_True) continue;
        // What ran may have forgotten the kernel's programs.
        if (self->others == others.get() && self->fast && i < PyList_GET_SIZE(others.get())) {
            PyList_SetItem(others.get(), i, self->fast);
            self->fast = dispatcher.release();
        }
        return done.release();
    }
    Py_RETURN_FALSE;
}

// Whether it was launched; a new reference, null with an exception set.
PyObject* launch(const Call& call) {
    const bool unusual = launches_are_held() || !call.is(kRecordCmd, Py_False, true);
    PyObject* kernel = call.given[kKernel];
    if (unusual || !PyObject_TypeCheck(kernel, &LaunchableType)) Py_RETURN_FALSE;
    PyObject* latest = reinterpret_cast<Launchable*>(kernel)->latest;
    if (latest && latest != Py_None && PyObject_TypeCheck(latest, &LaunchableType)) kernel = latest;
    const Ref held = Ref::borrow(kernel);
    const Ref dispatcher = Ref::borrow(reinterpret_cast<Launchable*>(kernel)->fast);
    if (!dispatcher || Py_TYPE(dispatcher.get()) != &DispatcherType) Py_RETURN_FALSE;
    if (!is_current(as_dispatcher(dispatcher.get())->watch)) Py_RETURN_FALSE;
    PyObject* recorder = active_recorder();
    const LaunchCall asked = call.launch();
    if (!asked.plain && (recorder || !call.is(kAdjoint, Py_False, true))) Py_RETURN_FALSE;
    if (!call.is(kAdjoint, Py_False, true)) {
        if (recorder || !call.is(kAdjoint, Py_True, false)) Py_RETURN_FALSE;
        return try_adjoint(dispatcher.get(), asked, call.sequence(kAdjInputs), call.sequence(kAdjOutputs));
    }
    if (recorder) {
        const bool recorded = call.is(kRecordTape, Py_True, true);
        if (!recorded && !call.is(kRecordTape, Py_False, false)) Py_RETURN_FALSE;
        return record(asked, dispatcher.get(), recorded ? kernel : Py_None, recorder);
    }
    PyObject* others = reinterpret_cast<Launchable*>(kernel)->others;
    if (!others || !PyList_CheckExact(others)) return try_launch(dispatcher.get(), asked);
    Ref done(try_launch(dispatcher.get(), asked));
    if (!done || done.get() != Py_False) return done.release();
    return launch_elsewhere(held.get(), asked);
}

PyObject* launch_shortcut(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    Call call;
    if (!call.read(args, nargs, kwnames)) return nullptr;
    const Ref launched(launch(call));
    if (launched.get() != Py_True) return nullptr;
    Py_RETURN_NONE;
}

PyObject* launcher(PyObject*, PyObject* checked) { return make_fast_path(launch_shortcut, checked); }

PyMethodDef functions[] = {
    {"launcher", launcher, METH_O,
     "launcher($module, checked, /)\n--\n\nReturn the function `launch`: what a kernel's dispatcher takes runs at "
     "once, all else goes to `checked`."},
    {nullptr, nullptr, 0, nullptr},
};

// ---- Launch.launch

// The native base of Launch.
struct Command {
    PyObject_HEAD PyObject* bound;  // what runs; null when Python has to prepare it first
    long long changes;              // how often arguments or the grid were set
};

Command* as_command(PyObject* object) { return reinterpret_cast<Command*>(object); }

PyObject* checked_name = nullptr;

PyObject* command_launch(PyObject* object, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    const Ref held = Ref::borrow(as_command(object)->bound);
    PyObject* bound = held.get();
    if (bound && !is_stale(bound) && !nargs && !kwnames && !launches_are_held() && !active_recorder() &&
        refresh_values(bound)) {
        if (!run_bound_launch(bound)) return nullptr;
        Py_RETURN_NONE;
    }
    const Ref checked(PyObject_GetAttr(object, checked_name));
    return checked ? PyObject_Vectorcall(checked.get(), args, static_cast<size_t>(nargs), kwnames) : nullptr;
}

PyObject* command_changed(PyObject* object, PyObject*) {
    ++as_command(object)->changes;
    Py_CLEAR(as_command(object)->bound);
    Py_RETURN_NONE;
}

// Another thread may have set an argument since the launch was bound.
PyObject* command_keep(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 2 || (args[0] != Py_None && !is_bound_launch(args[0]))) {
        return PyErr_Format(PyExc_TypeError, "_keep(bound, changes)");
    }
    const long long changes = PyLong_AsLongLong(args[1]);
    if (changes == -1 && PyErr_Occurred()) return nullptr;
    if (changes == as_command(object)->changes && args[0] != Py_None) {
        Py_XSETREF(as_command(object)->bound, Ref::borrow(args[0]).release());
    }
    Py_RETURN_NONE;
}

int command_traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(as_command(object)->bound);
    return 0;
}

int command_clear(PyObject* object) {
    Py_CLEAR(as_command(object)->bound);
    return 0;
}

void command_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    command_clear(object);
    Py_TYPE(object)->tp_free(object);
}

PyMethodDef command_methods[] = {
    {"launch", method(command_launch), METH_FASTCALL | METH_KEYWORDS,
     "launch($self, stream=None)\n--\n\nRun it, as `wp.launch` with these arguments would: an active tape records "
     "it.\n\nArgs:\n    stream: For CUDA devices."},
    {"_changed", command_changed, METH_NOARGS,
     "_changed($self, /)\n--\n\nForget what `launch` runs: an argument or the grid was set."},
    {"_keep", method(command_keep), METH_FASTCALL,
     "_keep($self, bound, changes, /)\n--\n\nLet `launch` run this BoundLaunch, unless something was set since "
     "`_changes` was that."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef command_members[] = {
    {"_bound", T_OBJECT, offsetof(Command, bound), READONLY, "The BoundLaunch that `launch` runs, or None."},
    {"_changes", T_LONGLONG, offsetof(Command, changes), READONLY, "How often arguments or the grid were set."},
    {nullptr, 0, 0, 0, nullptr},
};

PyTypeObject CommandType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// ---- registering

bool intern_names() {
    for (int i = 0; i < kParameters; ++i) {
        names[i] = PyUnicode_InternFromString(kNames[i]);
        if (!names[i]) return false;
    }
    no_arguments = PyTuple_New(0);
    history_name = PyUnicode_InternFromString("history");
    launches_name = PyUnicode_InternFromString("launches");
    checked_name = PyUnicode_InternFromString("_launch_checked");
    return no_arguments && history_name && launches_name && checked_name;
}

void describe_bases() {
    constexpr unsigned long flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
    LaunchableType.tp_name = "warp_like._native.Launchable";
    LaunchableType.tp_basicsize = sizeof(Launchable);
    LaunchableType.tp_flags = flags;
    LaunchableType.tp_doc = "The native part of a kernel: what a launch reads.";
    LaunchableType.tp_new = PyType_GenericNew;
    LaunchableType.tp_dealloc = launchable_dealloc;
    LaunchableType.tp_traverse = launchable_traverse;
    LaunchableType.tp_clear = launchable_clear;
    LaunchableType.tp_members = launchable_members;
    CommandType.tp_name = "warp_like._native.Command";
    CommandType.tp_basicsize = sizeof(Command);
    CommandType.tp_flags = flags;
    CommandType.tp_doc = "The native part of a recorded launch.";
    CommandType.tp_new = PyType_GenericNew;
    CommandType.tp_dealloc = command_dealloc;
    CommandType.tp_traverse = command_traverse;
    CommandType.tp_clear = command_clear;
    CommandType.tp_methods = command_methods;
    CommandType.tp_members = command_members;
}

}  // namespace

bool register_launch(PyObject* module) {
    describe_bases();
    return intern_names() && add_type(module, "Launchable", &LaunchableType) &&
           add_type(module, "Command", &CommandType) && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
