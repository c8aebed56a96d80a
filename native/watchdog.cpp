#include "watchdog.h"

#include <atomic>
#include <cmath>

#include "chunks.h"

namespace wl {

namespace {

constexpr double kSignalNs = 30e6;  // between looks at pending signals

std::atomic<double> launch_limit_ns{0};  // 0: none

}  // namespace

void start_clock(RunRecord* record) {
    const double limit = launch_limit_ns.load(std::memory_order_relaxed);
    if (limit > 0) record->deadline = now_ns() + limit;
}

void Watchdog::poll(double now) {
    record_->cancel_if_late(now);
    if (!gil_ || interrupted_) return;
    if (now - start_ > kKeepGilNs) gil_->release();
    if (now - last_ < kSignalNs) return;
    if (!gil_->check_signals()) {
        interrupted_ = true;
        record_->cancel.store(1, std::memory_order_relaxed);
    }
    last_ = now_ns();
}

namespace {

PyObject* set_launch_timeout(PyObject*, PyObject* arg) {
    const double seconds = PyFloat_AsDouble(arg);
    if (seconds == -1 && PyErr_Occurred()) return nullptr;
    if (!(seconds >= 0)) {
        PyErr_SetString(PyExc_ValueError, "set_launch_timeout() needs a number of seconds, or 0 for no limit");
        return nullptr;
    }
    launch_limit_ns.store(std::isinf(seconds) ? 0 : seconds * 1e9);
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"set_launch_timeout", set_launch_timeout, METH_O,
     "set_launch_timeout($module, seconds, /)\n--\n\nLimit how long a launch may take; 0 means no limit."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_watchdog(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
