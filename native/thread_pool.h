// The thread pool: one per process, shared by all launches.
//
// A launch starts on its own thread with a few kernel threads, which tells what one costs. Only when what is
// left is worth waking sleeping workers (tens of microseconds) does it share: a small launch touches no lock,
// no worker and, once a first launch has shown what a thread costs, not the GIL. If the pool is busy with
// another Python thread's launch, a launch runs alone.
#pragma once

#include <array>

#include "args.h"
#include "context.h"
#include "gil.h"
#include "python.h"

namespace wl {

class Zeroing;

struct Job {
    Entry entry;
    const uint8_t* args;
    const int64_t* dims;           // kMaxDims of them
    int64_t count;                 // kernel threads
    const Signature* sums;         // not null: each worker needs copies of arrays that the kernel adds to
    int64_t lanes;                 // how many threads the code runs at once
    int64_t rows = 1;              // and of how many rows of the grid
    bool order_dependent = false;  // what it computes depends on the order in which its threads run
    bool non_associative = false;  // it depends on the order in which the copies of `sums` are added up
    int64_t halo = 0;  // kernel threads that are at most so far apart must not run at the same time; 0: any may
    bool deterministic = false;        // the same bits whatever the number of threads
    bool takes = false;                // it takes elements of arrays that no other launch writes to meanwhile
    double known_ns = 0;               // what a kernel thread took the last time; 0 if that is not known
    const Zeroing* zeroing = nullptr;  // what chunks set to zero before they run; null: nothing
};

// The extents of a grid of one dimension, of as many as entry points are given.
inline std::array<int64_t, kMaxDims> line_of(int64_t count) {
    std::array<int64_t, kMaxDims> dims;
    dims.fill(1);
    dims[0] = count;
    return dims;
}

struct Outcome {
    bool interrupted = false;  // a signal handler raised
    double first_ns = 0;       // what the launch's first kernel thread took
};

// Runs `job` to its end, to its first error (in `record`) or to an exception from a signal handler. Must be
// called with the GIL, which it may release meanwhile through `gil`.
Outcome run(const Job& job, RunRecord* record, Gil* gil);

// How many threads a launch may use.
int thread_count();

// Whether launches have to give the same bits whatever the number of threads, where a kernel does not say.
bool is_deterministic();

bool register_thread_pool(PyObject* module);

}  // namespace wl
