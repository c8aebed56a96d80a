// On which processors the pool's workers wake up.
//
// Linux wakes a thread where it last ran, even if the thread that wakes it is at work there and other processors are
// idle: on a machine with few processors it looks for idle ones only while load is low. Such a worker waits until the
// launch is over, and at the next launch it is there again. So a launch sends workers elsewhere that would wake on its
// own processor, or on that of another worker.
#pragma once

#include <deque>

#ifdef __linux__
#include <sched.h>
#endif

namespace wl {

// How many processors this thread may run on.
int available_cpus();

// The number of the processor that this thread runs on, 0 where the system does not tell.
int current_cpu();

// Tells the processor that this is a loop that waits.
inline void pause_processor() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Where one worker is. Used under the pool's mutex.
class WorkerAffinity {
  public:
    // The worker is about to wait for work.
    void settle();
    // It has got some, and may run anywhere again.
    void arrive();

  private:
    friend void separate_workers(std::deque<WorkerAffinity>* affinities);
#ifdef __linux__
    int thread_ = 0;  // the system's number; 0 while it has not run yet
    int cpu_ = -1;
    bool moved_ = false;
    cpu_set_t allowed_;  // where it may run, kept while it is `moved_`
#endif
};

// Called before workers are woken: those that would wake where the caller or one another works are sent elsewhere.
void separate_workers(std::deque<WorkerAffinity>* affinities);

}  // namespace wl
