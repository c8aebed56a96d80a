// What the thread that launched looks at while its launch runs, between chunks and from inside the kernel (wl_poll):
// whether it has held the GIL for too long, whether a signal has come, whether the launch is over its time limit.
//
// The workers of the pool look at the record's cancel flag alone, which this thread sets.
#pragma once

#include "context.h"
#include "gil.h"
#include "python.h"

namespace wl {

class Watchdog {
  public:
    // For a launch that began at `start`; `gil` is null on a thread that does not belong to Python.
    Watchdog(RunRecord* record, Gil* gil, double start) : record_(record), gil_(gil), start_(start), last_(start) {}
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    // Cancels the launch where it has to end. May let go of the GIL, and may run Python's signal handlers.
    void poll(double now);
    // Whether a signal handler raised; its exception is set then.
    bool interrupted() const { return interrupted_; }

  private:
    RunRecord* record_;
    Gil* gil_;
    double start_;
    double last_;  // when it last looked at signals
    bool interrupted_ = false;
};

// Starts the clock of a launch, where launches have a time limit.
void start_clock(RunRecord* record);

bool register_watchdog(PyObject* module);

}  // namespace wl
