// The GIL as a launch handles it, and the launches that are in flight without it.
//
// A launch holds the GIL at first and lets go of it when it turns out to take long. From then on launches of other
// Python threads may run beside it. Those that add to an array, or take elements, without atomics must not: they wait
// for each other.
//
// When the interpreter exits, a thread that asks for the GIL never returns, or is unwound in the middle of our frames.
// So the exit handler cancels the launches in flight and waits for them, and from then on none lets go of the GIL.
#pragma once

#include <thread>
#include <utility>
#include <vector>

#include "args.h"
#include "context.h"
#include "python.h"

namespace wl {

// What a launch does to memory.
struct Footprint {
    const Signature* signature = nullptr;  // null: it is nobody's business
    const uint8_t* block = nullptr;        // the arguments
    bool plain = false;                    // it adds to the arrays in `signature->non_atomic` without atomics
    const Footprint* next = nullptr;       // of another launch that runs together with it

    // Whether `other` writes where this one updates without atomics.
    bool is_written_by(const Footprint& other) const;
};

class Gil {
  public:
    explicit Gil(RunRecord* record, Footprint footprint = {}) : record_(record), footprint_(footprint) {}
    ~Gil();
    Gil(const Gil&) = delete;
    Gil& operator=(const Gil&) = delete;

    void release();
    void acquire();
    // Runs Python's signal handlers; false when one of them raised, and the exception is then set.
    bool check_signals();

    // Whether a launch is in flight that one with this footprint must not run beside.
    static bool clashes(const Footprint& footprint) { return first_ && clashes(footprint, INT64_MAX); }
    // Waits for those that have begun before; false when a signal handler raised.
    bool wait_for_turn();

    // Keeps `object` until the launches that are in flight now have ended: they may use its memory.
    static void keep(PyObject* object);

    // The exit handler, called with the GIL.
    static void close();
    // Forgets the launches of the parent.
    static void after_fork();
    // Says that this thread works on the launches of others, and so must never wait for one.
    static void enter_worker();

  private:
    static bool clashes(const Footprint& footprint, int64_t before);
    bool clashes_with(const Footprint& footprint) const;
    void enlist();
    void unlist();
    static void let_go();

    RunRecord* record_;
    Footprint footprint_;
    PyThreadState* saved_ = nullptr;
    bool listed_ = false;
    int64_t number_ = 0;      // in the order in which launches came on the list
    std::thread::id thread_;  // whose launch it is
    Gil* next_ = nullptr;
    Gil* previous_ = nullptr;

    static Gil* first_;  // the launches in flight; guarded by the GIL
    static int64_t count_;
    // What is kept for launches in flight, each with the number of the first launch that does not need it.
    static std::vector<std::pair<int64_t, PyObject*>> kept_;
    static bool closed_;
};

}  // namespace wl
