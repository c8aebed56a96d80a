// Loops over the thread pool for the extension's own algorithms: a C++ callable in place of a compiled kernel.
#pragma once

#include "thread_pool.h"

namespace wl {

// Calls `work(begin, end)` for pieces of [0, count), on the caller's thread and, where that is worth it, on others,
// without the GIL when it takes long. `work` must not throw, nor touch Python objects. False with an exception set
// when a signal handler raised or the interpreter exits; some pieces have then not been done. Where `ns` says what one
// takes, about, others help with few pieces (`kFewThreads`) at once; else when the first one has shown that.
template <typename Work>
bool parallel(int64_t count, Work& work, double ns = 0) {
    if (count <= 0) return true;
    Work* pointer = &work;
    const Entry entry = [](const uint8_t* args, const int64_t*, int64_t begin, int64_t end, Context*) {
        (**reinterpret_cast<Work* const*>(args))(begin, end);
    };
    const auto dims = line_of(count);
    RunRecord record;
    Outcome outcome;
    Job job{entry, reinterpret_cast<const uint8_t*>(&pointer), dims.data(), count, nullptr, 1};
    job.known_ns = ns;
    {
        Gil gil(&record);
        outcome = run(job, &record, &gil);
    }
    if (outcome.interrupted) return false;
    if (record.closing.load(std::memory_order_relaxed)) {
        PyErr_SetString(PyExc_RuntimeError, "an array operation was cut short: the interpreter exits");
        return false;
    }
    return true;
}

}  // namespace wl
