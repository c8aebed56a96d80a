#include "affinity.h"

#include <thread>

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace wl {

#ifdef __linux__

int available_cpus() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
    const unsigned count = std::thread::hardware_concurrency();
    return count ? static_cast<int>(count) : 1;
}

int current_cpu() {
    const int cpu = sched_getcpu();
    return cpu < 0 ? 0 : cpu;
}

void WorkerAffinity::settle() {
    if (!thread_) thread_ = static_cast<int>(syscall(SYS_gettid));
    cpu_ = sched_getcpu();
}

void WorkerAffinity::arrive() {
    if (!moved_) return;
    moved_ = false;
    sched_setaffinity(thread_, sizeof allowed_, &allowed_);  // a failure leaves it where it is, which is fine, too
}

void separate_workers(std::deque<WorkerAffinity>* affinities) {
    cpu_set_t taken;
    CPU_ZERO(&taken);
    const int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE) return;
    CPU_SET(here, &taken);
    for (WorkerAffinity& affinity : *affinities) {
        if (!affinity.thread_ || affinity.moved_ || affinity.cpu_ < 0 || affinity.cpu_ >= CPU_SETSIZE) continue;
        if (!CPU_ISSET(affinity.cpu_, &taken)) {
            CPU_SET(affinity.cpu_, &taken);
            continue;
        }
        cpu_set_t elsewhere;
        if (sched_getaffinity(affinity.thread_, sizeof affinity.allowed_, &affinity.allowed_) != 0) continue;
        CPU_AND(&elsewhere, &affinity.allowed_, &taken);
        CPU_XOR(&elsewhere, &affinity.allowed_, &elsewhere);
        if (CPU_COUNT(&elsewhere) == 0) continue;
        affinity.moved_ = sched_setaffinity(affinity.thread_, sizeof elsewhere, &elsewhere) == 0;
    }
}

#else

int available_cpus() {
    const unsigned count = std::thread::hardware_concurrency();
    return count ? static_cast<int>(count) : 1;
}

int current_cpu() { return 0; }

void WorkerAffinity::settle() {}
void WorkerAffinity::arrive() {}
void separate_workers(std::deque<WorkerAffinity>*) {}

#endif

}  // namespace wl
