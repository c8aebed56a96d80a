#include "signals.h"

#include <bitset>

#include "platform.h"

namespace wl {

namespace {

// Enough that Ctrl-C ends the endless launch of a handler, or of one inside that; each takes the stack of a launch,
// with the arrays of its threads' own.
constexpr int kMostInside = 8;

thread_local int inside = 0;  // calls of handlers from launches of this thread that have not ended

// While the object is entered on the main thread, signals for handlers in Python wait.
struct DeferredSignals {
    PyObject_HEAD bool on_main;
    std::bitset<kSignals> deferred;  // by this object, not by one around it
};

DeferredSignals* as_deferred(PyObject* object) { return reinterpret_cast<DeferredSignals*>(object); }

// Whether `number` has a handler of the user's; -1 with an exception set. Ctrl-C's own only raises, and is not made to
// wait for a compiler.
int has_handler(PyObject* signals, PyObject* of_interrupts, int number) {
    const Ref handler(PyObject_CallMethod(signals, "getsignal", "i", number));
    if (!handler) return -1;
    return PyCallable_Check(handler.get()) && handler.get() != of_interrupts;
}

PyObject* deferred_new(PyTypeObject* type, PyObject* args, PyObject*) {
    int on_main;
    if (!PyArg_ParseTuple(args, "p:DeferredSignals", &on_main)) return nullptr;
    PyObject* object = type->tp_alloc(type, 0);
    if (object) as_deferred(object)->on_main = on_main != 0;
    return object;
}

PyObject* deferred_enter(PyObject* object, PyObject*) {
    DeferredSignals* self = as_deferred(object);
    if (!self->on_main) Py_RETURN_NONE;
    const Ref signals(PyImport_ImportModule("_signal"));
    const Ref of_interrupts(signals ? PyObject_GetAttrString(signals.get(), "default_int_handler") : nullptr);
    if (!of_interrupts) return nullptr;
    std::bitset<kSignals> found;
    for (int number = 1; number < kSignals; ++number) {
        const int has = may_defer(number) ? has_handler(signals.get(), of_interrupts.get(), number) : 0;
        if (has < 0) return nullptr;
        found[static_cast<size_t>(number)] = has != 0;
    }
    // No Python code runs from here on.
    for (int number = 1; number < kSignals; ++number) {
        if (found[static_cast<size_t>(number)] && defer(number)) self->deferred.set(static_cast<size_t>(number));
    }
    Py_RETURN_NONE;
}

PyObject* deferred_exit(PyObject* object, PyObject*) {
    DeferredSignals* self = as_deferred(object);
    for (int number = 1; number < kSignals; ++number) {
        const bool mine = self->deferred[static_cast<size_t>(number)];
        if (mine && end_deferral(number)) PyErr_SetInterruptEx(number);  // as if it came now
    }
    self->deferred.reset();
    Py_RETURN_NONE;
}

PyTypeObject DeferredSignalsType = {PyVarObject_HEAD_INIT(nullptr, 0)};

PyMethodDef methods[] = {
    {"__enter__", deferred_enter, METH_NOARGS, "__enter__($self, /)\n--\n\nLet handlers wait."},
    {"__exit__", deferred_exit, METH_VARARGS, "__exit__($self, *args)\n--\n\nLet them run."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool run_signal_handlers() {
    if (inside == kMostInside) return true;
    ++inside;
    const bool fine = PyErr_CheckSignals() == 0;
    --inside;
    return fine;
}

bool register_signals(PyObject* module) {
    static const bool registered = call_at_forks(nullptr, end_deferrals);
    if (!registered) {
        PyErr_NoMemory();
        return false;
    }
    DeferredSignalsType.tp_name = "warp_like._native.DeferredSignals";
    DeferredSignalsType.tp_basicsize = sizeof(DeferredSignals);
    DeferredSignalsType.tp_flags = Py_TPFLAGS_DEFAULT;
    DeferredSignalsType.tp_doc =
        "DeferredSignals(on_main)\n--\n\nA context in which the user's signal handlers in Python wait, on the main "
        "thread. Handlers of signals that came meanwhile run at its end, each once.";
    DeferredSignalsType.tp_new = deferred_new;
    DeferredSignalsType.tp_methods = methods;
    return add_type(module, "DeferredSignals", &DeferredSignalsType);
}

}  // namespace wl
