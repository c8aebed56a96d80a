// What a running kernel shares with the runtime. Generated code reads a Context (contract.h) and calls the wl_
// functions; nothing here needs the GIL.
#pragma once

#include <atomic>
#include <csetjmp>
#include <cstdint>

#include "contract.h"
#include "lane_partials.h"
#include "python.h"
#include "spare.h"

namespace wl {

// One launch's record, shared by all its threads. The first error wins.
struct RunRecord {
    std::atomic<int32_t> code{0};  // set last
    int32_t where = 0;
    int64_t thread = 0;
    const char* text = nullptr;  // says what was wrong; belongs to the kernel's code
    int32_t count = 0;
    int64_t values[kErrorValues];  // the numbers that go into the text; `count` of them are set
    std::atomic<int32_t> claimed{0};
    std::atomic<int32_t> cancel{0};   // nonzero: no further chunk is started
    std::atomic<int32_t> closing{0};  // nonzero: cancelled because the interpreter exits
    std::atomic<int32_t> printed{0};  // nonzero: C's stdout has to be flushed
    double deadline = 0;              // by now_ns(), when the launch has to be over; 0: it may take any time

    // Cancels the launch, with an error, where `now` is after its deadline.
    void cancel_if_late(double now) {
        if (deadline != 0 && now > deadline) expire();
    }
    void expire();

    // What `explain(code, where, thread[, text, values])` makes of the error; null with an exception set if it fails.
    PyObject* explained(PyObject* explain) const;
};

using Entry = void (*)(const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end, Context* context);

class Watchdog;

// A Context with what only the runtime needs. It lives as long as one launch does, and borrows the stack
// memory that its OS thread keeps from launch to launch.
class Worker : public Context {
  public:
    // The code runs `lanes` kernel threads at once, whose stacks are one. `watchdog` is the launch's on the thread that
    // launched, else null.
    Worker(RunRecord* shared, int64_t lanes, Watchdog* watchdog = nullptr) : lanes_(lanes), watchdog_(watchdog) {
        record = shared;
        cancel = &shared->cancel;
    }
    ~Worker() {
        if (stack) give_back_stack();
        if (locals_.memory) give_back_locals();
    }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    // Calls `entry` for the threads from `begin` to `end`; returns early when the kernel gives up.
    void call(Entry entry, const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end);

    // Leaves the entry point that is running. Nothing on the way has a destructor: the frames are the
    // kernel's own and those of the wl_ functions.
    [[noreturn]] void give_up();

    // Looks at what goes on beside the kernel; false when the launch's results are not wanted any more.
    bool poll();

    // Makes room for `nbytes` more; false when the cap or the memory does not allow it.
    bool grow(int64_t nbytes);

    // Returns memory for local arrays of the threads that run now, which stays until the launch ends; null if there is
    // none.
    char* local_memory(int64_t nbytes);

    // What the code adds as vectors; whoever runs a launch says what is worth it, and adds them up at its end.
    LanePartials partials;

  private:
    void give_back_stack();
    void give_back_locals();

    int64_t lanes_;
    Block locals_;
    Watchdog* watchdog_;
    std::jmp_buf exit_;
};

// The most bytes of stack that a kernel thread may have.
int64_t stack_limit();

bool register_context(PyObject* module);

}  // namespace wl
