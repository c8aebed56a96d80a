#include "thread_pool.h"

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "affinity.h"
#include "chunk_scheduler.h"
#include "chunks.h"
#include "ordered_sums.h"
#include "platform.h"
#include "sums.h"
#include "watchdog.h"
#include "zeroing.h"

namespace wl {

namespace {

constexpr double kSpinNs = 50e3;  // how long one looks for work, or for the others' end, before going to sleep
constexpr int kMaxThreads = 1024;
constexpr int64_t kTrial = 256;  // kernel threads
constexpr double kGain = 0.9;    // of the time that one OS thread takes, what several must stay below

// One launch that several threads work on. It lives on the caller's stack.
struct Shared {
    const Job& job;
    RunRecord* record;
    std::fenv_t floating_point;  // the caller's rounding and denormal modes, which its workers take over
    ChunkScheduler scheduler;
    Halos halos;
    OrderedSums* in_order;                // not null: sums are added up in the order of the chunks
    std::unique_ptr<PrivateSums> copies;  // of workers that have finished; guarded by the pool's mutex
    double share_ns;                      // what one OS thread's part takes
    std::atomic<bool> called_off{false};  // workers leave after their chunk: the caller is faster without them
};

struct Pool {
    std::mutex mutex;
    std::condition_variable wake;
    std::condition_variable idle;
    std::atomic<bool> busy{false};  // owned by the thread whose launch is shared
    Shared* shared = nullptr;
    std::atomic<int> seats{0};              // workers that may still join; changed under the mutex, as `inside` is
    std::atomic<int> inside{0};             // workers that work on `shared`
    std::deque<WorkerAffinity> affinities;  // of all workers, those that sleep and those that work
    std::atomic<bool> crowded{false};       // there are more of them, and the caller, than processors
};

// Never destroyed, since sleeping workers outlive the interpreter; replaced in the child after a fork.
std::atomic<Pool*> the_pool{nullptr};
std::atomic<int> thread_setting{0};
std::atomic<bool> deterministic{false};

// How many processors the process could use when it first launched.
int processor_count() {
    static const int available = available_cpus();
    return available;
}

// Waits for `count` to be zero (or no longer to be), for a short time: sleeping and being woken takes longer than what
// is mostly left to wait, a few chunks or the next of many launches. The processor is offered to others only if these
// are workers, too: whoever gets it keeps it for milliseconds.
void wait_briefly(const Pool& pool, const std::atomic<int>& count, bool zero) {
    const double start = now_ns();
    while ((count.load(std::memory_order_relaxed) == 0) != zero && now_ns() - start < kSpinNs) {
        for (int i = 0; i < 32; ++i) pause_processor();
        if (pool.crowded.load(std::memory_order_relaxed)) std::this_thread::yield();
    }
}

}  // namespace

int thread_count() {
    const int setting = thread_setting.load(std::memory_order_relaxed);
    return setting ? setting : std::min(processor_count(), kMaxThreads);
}

bool is_deterministic() { return deterministic.load(std::memory_order_relaxed); }

namespace {

constexpr double kDeterministicNs =
    64;  // what a kernel thread takes, as far as sums of lanes do not depend on the time

// Whether partial sums of lanes may stay in memory until the launch ends; else until a chunk does.
bool keeps_partials(const Job& job) { return job.sums && !job.deterministic; }

// Says what of that an OS thread may keep.
void limit_partials(const Job& job, LanePartials* partials) {
    if (job.sums && job.halo) partials->leave_out_halos(*job.sums, job.args);
}

// Runs the threads from `begin` to `end`, piece by piece where what they add to has to be set to zero, from that of the
// thread `clear_from` on.
void call_in_pieces(const Job& job, Worker* worker, const uint8_t* args, int64_t begin, int64_t end,
                    int64_t clear_from) {
    const int64_t piece = job.zeroing->piece(job.lanes);
    int64_t at = begin;
    do {
        const int64_t next = std::min((at / piece + 1) * piece, end);
        job.zeroing->clear(clear_from, next, job.count);
        if (at < next) worker->call(job.entry, args, job.dims, at, next);
        clear_from = at = next;
    } while (at < end && !worker->cancel->load(std::memory_order_relaxed));
}

// Runs the threads from `begin` to `end`, which are a chunk where sums are `in_order`; adds to `copy` if there is one.
// Not those of a halo have to clear what they add to, from that of the thread `clear_from` on; of a halo this is
// `kCleared`.
void run_chunk(const Job& job, OrderedSums* in_order, Worker* worker, std::unique_ptr<PrivateSums>* copy, int64_t begin,
               int64_t end, int64_t clear_from) {
    const uint8_t* args = *copy ? (*copy)->block() : job.args;
    if (job.sums && job.deterministic) worker->partials.expect(kDeterministicNs * static_cast<double>(end - begin));
    in_parts(
        begin, end, job.deterministic,
        [&](int64_t from, int64_t to) {
            if (job.zeroing && clear_from != kCleared) {
                call_in_pieces(job, worker, args, from, to, clear_from);
            } else if (from < to) {
                worker->call(job.entry, args, job.dims, from, to);
            }
        },
        [worker] { return worker->poll(); });
    if (job.deterministic) worker->partials.add();
    if (in_order) *copy = in_order->exchange(begin, std::move(*copy));
}

// Works on chunks until none is left, or `between` says no; see `ChunkScheduler::participate`.
template <typename Between>
void work_on(Shared* shared, Worker* worker, std::unique_ptr<PrivateSums>* copy, Between between) {
    if (keeps_partials(shared->job)) worker->partials.expect(shared->share_ns);
    shared->scheduler.participate(
        [&](int64_t begin, int64_t end) {
            shared->halos.run(begin, end, [&](int64_t first, int64_t last, int64_t clear_from) {
                run_chunk(shared->job, shared->in_order, worker, copy, first, last, clear_from);
            });
        },
        between);
    worker->partials.add();
}

// ---- workers

void work(Pool* pool, WorkerAffinity* affinity) {
    Gil::enter_worker();
    std::unique_lock<std::mutex> lock(pool->mutex);
    affinity->settle();
    for (;;) {
        pool->wake.wait(lock, [pool] { return pool->seats > 0; });
        affinity->arrive();
        --pool->seats;
        ++pool->inside;
        Shared* shared = pool->shared;
        lock.unlock();
        const Job& job = shared->job;
        std::unique_ptr<PrivateSums> copy;
        if (job.sums) copy = PrivateSums::make(*job.sums, job.args, job.halo == 0);
        if (copy || !job.sums) {
            std::fesetenv(&shared->floating_point);
            Worker worker(shared->record, job.lanes);
            limit_partials(job, &worker.partials);
            work_on(shared, &worker, &copy,
                    [shared](double, double) { return !shared->called_off.load(std::memory_order_relaxed); });
            if (shared->in_order) copy.reset();  // while the launch lasts, whose signature says what is in it
        }
        lock.lock();
        if (copy) {
            copy->next = std::move(shared->copies);
            shared->copies = std::move(copy);
        }
        if (--pool->inside == 0) pool->idle.notify_one();
        affinity->settle();
        lock.unlock();
        wait_briefly(*pool, pool->seats, false);
        lock.lock();
    }
}

// Starts workers until there are `wanted`, as far as the system allows.
void start_workers(Pool* pool, int wanted) {
    if (static_cast<int>(pool->affinities.size()) >= wanted) return;
    const SignalsBlocked blocked;
    try {
        while (static_cast<int>(pool->affinities.size()) < wanted) {
            pool->affinities.emplace_back();
            std::thread(work, pool, &pool->affinities.back()).detach();
        }
    } catch (const std::system_error&) {
        pool->affinities.pop_back();  // out of threads: fewer workers share the launch
    }
    pool->crowded.store(static_cast<int>(pool->affinities.size()) >= processor_count(), std::memory_order_relaxed);
}

Pool* pool_of_process() {
    Pool* pool = the_pool.load(std::memory_order_acquire);
    if (pool) return pool;
    Pool* fresh = new Pool;
    if (the_pool.compare_exchange_strong(pool, fresh)) return fresh;
    delete fresh;
    return pool;
}

// The parent's workers do not exist in the child, and its locks may be held for ever.
void forget_pool() {
    the_pool.store(nullptr);
    Gil::after_fork();
}

// Calls sharing off where it does not pay. OS threads that take elements of the same memory, such as places in lists,
// wait for each other's cache lines, and one alone may be faster than all of them, as it takes elements plainly.
class Contention {
  public:
    Contention(Pool* pool, Shared* shared, Worker* self, double most_ns)
        : pool_(pool), shared_(shared), self_(self), most_ns_(most_ns) {}

    // Notes what a kernel thread of the caller's last chunk took: more than `most_ns` twice in a row is too much.
    void note(double thread_ns) {
        if (!shared_->job.takes || self_->alone) return;
        const bool off = shared_->called_off.load(std::memory_order_relaxed);
        slow_ = thread_ns > most_ns_ ? slow_ + 1 : 0;
        if (!off && slow_ < 2) return;
        shared_->called_off.store(true, std::memory_order_relaxed);
        const std::lock_guard<std::mutex> lock(pool_->mutex);
        pool_->seats = 0;
        self_->alone = pool_->inside == 0;
    }

  private:
    Pool* const pool_;
    Shared* const shared_;
    Worker* const self_;
    const double most_ns_;
    int slow_ = 0;
};

// What kernel threads cost that run `alone`, on one OS thread, and those that run beside others.
struct ThreadCost {
    double alone_ns;
    double shared_ns;
};

// Runs the threads from `begin` on with the pool; false when another launch has it.
bool share(const Job& job, Worker* self, OrderedSums* in_order, std::unique_ptr<PrivateSums>* copy, int64_t begin,
           const ThreadCost& cost, int64_t fixed, Watchdog* watchdog) {
    const double thread_ns = cost.shared_ns;
    const int threads =
        static_cast<int>(within(thread_ns * static_cast<double>(job.count - begin), kWorthNs, thread_count()));
    if (threads < 2) return false;
    Pool* pool = pool_of_process();
    if (pool->busy.exchange(true, std::memory_order_acquire)) return false;
    const int64_t halo = in_vectors(job.halo, job.lanes, INT64_MAX);
    Shared shared{job,
                  self->record,
                  {},
                  {begin, job.count, thread_ns, threads, chunk_alignment(job.lanes, job.rows, job.dims), fixed,
                   2 * halo, in_order != nullptr, &self->record->cancel},
                  {halo, begin, job.count},
                  in_order,
                  nullptr,
                  thread_ns * static_cast<double>(job.count - begin) / threads};
    std::fegetenv(&shared.floating_point);
    self->alone = 0;
    {
        std::lock_guard<std::mutex> lock(pool->mutex);
        start_workers(pool, threads - 1);
        pool->shared = &shared;
        const int workers = static_cast<int>(pool->affinities.size());
        const int seats = workers < threads - 1 ? workers : threads - 1;
        separate_workers(&pool->affinities);
        pool->seats = seats;
        for (int i = 0; i < seats; ++i) pool->wake.notify_one();
    }
    Contention contention(pool, &shared, self, kGain * cost.alone_ns * threads);
    work_on(&shared, self, copy, [&](double now, double chunk_ns) {
        watchdog->poll(now);
        contention.note(chunk_ns);
        return true;
    });
    std::unique_lock<std::mutex> lock(pool->mutex);
    pool->seats = 0;
    lock.unlock();
    wait_briefly(*pool, pool->inside, true);
    lock.lock();
    while (pool->inside) {
        pool->idle.wait_for(lock, std::chrono::milliseconds(20));
        if (!pool->inside) break;
        lock.unlock();
        watchdog->poll(now_ns());
        lock.lock();
    }
    pool->shared = nullptr;
    lock.unlock();
    pool->busy.store(false, std::memory_order_release);
    while (shared.copies) {
        shared.copies->add_to(job.args);
        shared.copies = std::move(shared.copies->next);
    }
    return true;
}

}  // namespace

Outcome run(const Job& job, RunRecord* record, Gil* gil) {
    Outcome outcome;
    const double start = now_ns();
    Watchdog watchdog(record, gil, start);
    Worker self(record, job.lanes, &watchdog);
    limit_partials(job, &self.partials);
    double last = start;
    double thread_ns = 0;
    const bool apart = job.lanes == 1 && job.rows == 1 && !job.sums;
    const int64_t fixed = job.deterministic ? fixed_chunk(job.count, job.lanes, apart) : 0;
    std::unique_ptr<PrivateSums> copy;  // what this thread adds to, if not the arrays themselves
    std::optional<OrderedSums> sums;
    if (fixed && job.non_associative && job.sums && !job.order_dependent && fixed < job.count) {
        sums.emplace(*job.sums, job.args, fixed);
        copy = sums->begin();
        if (!copy) sums.reset();
    }
    OrderedSums* in_order = sums ? &*sums : nullptr;
    const ChunkAlignment alignment = chunk_alignment(job.lanes, job.rows, job.dims);
    const bool alone = fixed && (job.order_dependent || (job.non_associative && !in_order));
    // Where few kernel threads took long the last time, one that runs alone to be timed would keep the others waiting.
    if (job.known_ns > kShareNs && job.count > 1 && job.count <= kFewThreads && !alone) {
        gil->release();
        if (share(job, &self, in_order, &copy, 0, {job.known_ns, job.known_ns}, fixed, &watchdog)) {
            const int64_t at_once = std::min<int64_t>(thread_count(), job.count);
            outcome.first_ns = (now_ns() - start) * static_cast<double>(at_once) / static_cast<double>(job.count);
            outcome.interrupted = watchdog.interrupted();
            return outcome;
        }
    }
    bool trial = false;    // of what kernel threads cost that share the launch with others, and so take atomically
    double atomic_ns = 0;  // what that has told
    for (int64_t done = 0; done < job.count && !record->cancel.load(std::memory_order_relaxed);) {
        const int64_t left = job.count - done;
        int64_t size = fixed ? std::min(fixed, left) : next_alone(done, left, thread_ns, alignment);
        if (trial && !fixed) size = in_vectors(kTrial, job.lanes, left);
        self.alone = job.takes && !trial;
        if (keeps_partials(job)) self.partials.expect(thread_ns * static_cast<double>(left) / thread_count());
        run_chunk(job, in_order, &self, &copy, done, done + size, done);
        if (done && done + size == job.count) break;
        const double now = now_ns();
        (trial ? atomic_ns : thread_ns) = (now - last) / static_cast<double>(size);
        last = now;
        if (!done) outcome.first_ns = thread_ns;
        done += size;
        const double left_ns = thread_ns * static_cast<double>(job.count - done);
        if (left_ns + now - start > kKeepGilNs) gil->release();
        watchdog.poll(now);
        // The first threads may be slow because code and data are cold: a guess needs some substance.
        const bool sure = now - start > 3e3 || done >= 80;
        const bool worth = left_ns > (job.takes ? kShareTakesNs : kShareNs) && sure && !alone;
        trial = worth && job.takes && atomic_ns == 0 && thread_count() > 1;
        const bool gains = atomic_ns < thread_ns * static_cast<double>(thread_count());
        const ThreadCost cost{thread_ns, std::max(thread_ns, atomic_ns)};
        if (!worth || trial || !gains) continue;
        if (share(job, &self, in_order, &copy, done, cost, fixed, &watchdog)) break;
    }
    self.partials.add();
    outcome.interrupted = watchdog.interrupted();
    return outcome;
}

// ---- Python

namespace {

PyObject* set_num_threads(PyObject*, PyObject* arg) {
    const long n = PyLong_AsLong(arg);
    if (n == -1 && PyErr_Occurred()) return nullptr;
    if (n < 0 || n > kMaxThreads) {
        PyErr_Format(PyExc_ValueError, "set_num_threads() needs a number from 1 to %d, or 0 for one a CPU, got %ld",
                     kMaxThreads, n);
        return nullptr;
    }
    thread_setting.store(static_cast<int>(n));
    Py_RETURN_NONE;
}

PyObject* set_deterministic(PyObject*, PyObject* arg) {
    const int on = PyObject_IsTrue(arg);
    if (on < 0) return nullptr;
    deterministic.store(on != 0);
    Py_RETURN_NONE;
}

PyObject* num_threads(PyObject*, PyObject*) { return PyLong_FromLong(thread_count()); }

PyObject* close(PyObject*, PyObject*) {
    Gil::close();
    Py_RETURN_NONE;
}

PyObject* keep_for_launches(PyObject*, PyObject* object) {
    Gil::keep(object);
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"keep_for_launches", keep_for_launches, METH_O,
     "keep_for_launches($module, object, /)\n--\n\nKeep `object` alive until the launches that are in flight in other "
     "threads have ended."},
    {"_close", close, METH_NOARGS, "_close($module, /)\n--\n\nEnd the launches of other threads; called at exit."},
    {"set_num_threads", set_num_threads, METH_O,
     "set_num_threads($module, n, /)\n--\n\nSet how many threads a launch may use; 0 means one for each available "
     "CPU."},
    {"set_deterministic", set_deterministic, METH_O,
     "set_deterministic($module, on, /)\n--\n\nSet whether launches give the same bits whatever the number of "
     "threads."},
    {"num_threads", num_threads, METH_NOARGS,
     "num_threads($module, /)\n--\n\nReturn how many threads a launch may use."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_thread_pool(PyObject* module) {
    static const bool registered = call_at_forks(nullptr, forget_pool);
    if (!registered) {
        PyErr_NoMemory();
        return false;
    }
    if (PyModule_AddFunctions(module, functions) != 0) return false;
    Ref atexit(PyImport_ImportModule("atexit"));
    Ref handler(PyObject_GetAttrString(module, "_close"));
    return atexit && handler && Ref(PyObject_CallMethod(atexit.get(), "register", "O", handler.get()));
}

}  // namespace wl
