// The thread pool: one per process, shared by all launches.
//
// A launch starts on its own thread with a few kernel threads, which tells what one costs. Only when what is
// left is worth waking sleeping workers (tens of microseconds) does it share: a small launch touches no lock,
// no worker and, once a first launch has shown what a thread costs, not the GIL. If the pool is busy with
// another Python thread's launch, a launch runs alone.
#pragma once

#include "args.h"
#include "context.h"
#include "python.h"

namespace wl {

struct Job {
    Entry entry;
    const uint8_t* args;
    const int64_t* dims;
    int64_t count;  // kernel threads
    const Signature* sums;  // not null: each worker needs copies of arrays that the kernel adds to
    int64_t lanes;          // how many threads the code runs at once
    bool ordered = false;   // what it computes depends on the order in which its threads run
    int64_t seam = 0;       // kernel threads that are at most so far apart must not run at the same time; 0: any may
};

// The GIL as a launch handles it: held at first, let go when the launch turns out to take long.
//
// When the interpreter exits, a thread that asks for the GIL never returns, or is unwound in the middle of
// our frames. So the launches without the GIL are on a list; the exit handler cancels them and waits for
// them, and from then on none lets go of the GIL.
class Gil {
  public:
    explicit Gil(RunRecord* record) : record_(record) {}
    ~Gil() { acquire(); }
    Gil(const Gil&) = delete;
    Gil& operator=(const Gil&) = delete;

    void release();
    void acquire();
    // Runs Python's signal handlers; false when one of them raised, and the exception is then set.
    bool check_signals();

    // The exit handler, called with the GIL.
    static void close();
    // Forgets the launches of the parent's other threads.
    static void after_fork() { first_ = nullptr; }

  private:
    RunRecord* record_;
    PyThreadState* saved_ = nullptr;
    Gil* next_ = nullptr;
    Gil* previous_ = nullptr;

    static Gil* first_;  // guarded by the GIL
    static bool closed_;
};

struct Outcome {
    bool interrupted = false;  // a signal handler raised
    double first_ns = 0;       // what the launch's first kernel thread took
};

// Runs `job` to its end, to its first error (in `record`) or to an exception from a signal handler. Must be
// called with the GIL, which it may release meanwhile through `gil`.
Outcome run(const Job& job, RunRecord* record, Gil* gil);

// How many threads a launch may use.
int thread_count();

// Whether launches have to give the same bits whatever the number of threads.
bool is_deterministic();

bool register_thread_pool(PyObject* module);

}  // namespace wl
