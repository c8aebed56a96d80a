#include "xla_run.h"

#include <algorithm>
#include <cfenv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

#include "chunk_scheduler.h"
#include "chunks.h"
#include "ordered_sums.h"
#include "sums.h"
#include "thread_pool.h"
#include "watchdog.h"

namespace wl {

namespace {

constexpr int64_t kOrderedBytes = (1 << 20) / kFixedChunks;  // of the copies for one chunk of a deterministic call, or
constexpr int64_t kOrderedBytesPerThread = 16;               // so many for each of its kernel threads

struct Free {
    void operator()(char* memory) const { std::free(memory); }
};

// A copy of an array that the code only adds to.
struct Sum {
    std::unique_ptr<char, Free> copy;
    char* target;  // the array of the present element of the batch
    const Hole* hole;

    // Adds the copy to the array, and makes it zero again. A chunk that the launch's end has cut off has no target.
    void add() const {
        if (!target) return;
        add_scalars(hole->scalar, target, copy.get(), hole->sum_bytes);
        std::memset(copy.get(), 0, static_cast<size_t>(hole->sum_bytes));
    }
};

using Order = InOrder<std::vector<Sum>>;

// One OS thread's part in a call: it has an argument block of its own, filled for one element of the batch at
// a time. Where several threads add to one array without atomics, each has a copy of it as well.
class Runner {
  public:
    // `watchdog` is the call's on the thread that XLA calls, else null.
    Runner(const BatchedCall& call, RunRecord* record, Watchdog* watchdog)
        : call_(call), worker_(record, call.lanes, watchdog) {
        block_ = inline_;
        if (call.block_size > sizeof inline_) {
            large_.resize(call.block_size);
            block_ = large_.data();
        }
        std::memcpy(block_, call.block, call.block_size);
    }

    // Says that what is left for this OS thread takes about `ns`.
    void expect(double ns) {
        if (!call_.deterministic) worker_.partials.expect(ns);  // which are added up in any order
    }

    // Runs the threads from `begin` to `end`, counted through all elements of the batch.
    void run(int64_t begin, int64_t end) {
        while (begin < end && !worker_.cancel->load(std::memory_order_relaxed)) {
            const int64_t item = begin / call_.count;
            const int64_t first = begin - item * call_.count;
            const int64_t last = end - begin < call_.count - first ? first + end - begin : call_.count;
            if (item != item_) {
                add_sums();
                fill(item);
            }
            in_parts(
                first, last, call_.deterministic,
                [this](int64_t from, int64_t to) { worker_.call(call_.entry, block_, call_.dims, from, to); },
                [this] { return worker_.poll(); });
            begin += last - first;
        }
    }

    // Lets the arrays that the code only adds to be copies, until `add_sums` adds them up under `lock`; false when
    // the memory does not allow it. To be called between two runs.
    bool part(std::mutex* lock) {
        add_partials();
        lock_ = lock;
        item_ = -1;
        return make_copies(&sums_);
    }

    // Hands the sums of the chunk of this number on, in a call of one element all of whose chunks come by here.
    void hand_on(Order* order, int64_t number) {
        const auto add = [](std::vector<Sum>* done) {
            for (const Sum& sum : *done) sum.add();
        };
        sums_ = order->exchange(number, std::move(sums_), add,
                                [this](std::vector<Sum>* fresh) { return make_copies(fresh); });
        item_ = -1;
    }

    // Adds the partial sums of lanes to the arrays, or to their copies.
    void add_partials() { worker_.partials.add(); }

    // Adds the copies to the arrays that they stand for.
    void add_sums() {
        add_partials();
        if (sums_.empty() || item_ < 0) return;
        std::lock_guard<std::mutex> held(*lock_);
        for (const Sum& sum : sums_) sum.add();
    }

  private:
    bool make_copies(std::vector<Sum>* made) const {
        for (const Hole& hole : call_.holes) {
            if (!hole.sum_bytes) continue;
            std::unique_ptr<char, Free> copy(static_cast<char*>(std::calloc(static_cast<size_t>(hole.sum_bytes), 1)));
            if (!copy) {
                made->clear();
                return false;
            }
            made->push_back({std::move(copy), nullptr, &hole});
        }
        return true;
    }

    void fill(int64_t item) {
        const size_t n = call_.batch.size();
        const int64_t* steps = call_.steps.data();
        for (const Hole& hole : call_.holes) {
            char* data = hole.data;
            int64_t rest = item;
            for (size_t d = n; d-- > 0; rest /= call_.batch[d]) data += rest % call_.batch[d] * steps[d];
            steps += n;
            if (hole.bytes) {
                std::memcpy(block_ + hole.offset, data, static_cast<size_t>(hole.bytes));
            } else {
                std::memcpy(block_ + hole.offset, &data, sizeof data);
            }
        }
        for (Sum& sum : sums_) {
            uint8_t* at = block_ + sum.hole->offset;
            std::memcpy(&sum.target, at, sizeof sum.target);
            const char* copy = sum.copy.get();
            std::memcpy(at, &copy, sizeof copy);
        }
        item_ = item;
    }

    const BatchedCall& call_;
    Worker worker_;
    uint8_t* block_;
    int64_t item_ = -1;
    std::vector<Sum> sums_;
    std::mutex* lock_ = nullptr;
    std::vector<uint8_t> large_;
    alignas(64) uint8_t inline_[1024];
};

// XLA's threads flush denormal numbers to zero. Kernels compute as everywhere else.
class PlainFloatingPoint {
  public:
    PlainFloatingPoint() {
        std::fegetenv(&saved_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~PlainFloatingPoint() { std::fesetenv(&saved_); }
    PlainFloatingPoint(const PlainFloatingPoint&) = delete;
    PlainFloatingPoint& operator=(const PlainFloatingPoint&) = delete;

  private:
    std::fenv_t saved_;
};

// A call that several threads work on. XLA may start a task long after the call is over, or never while the
// caller waits: so the caller waits only for the tasks that have begun, and the last one to leave deletes
// the team.
class Team {
  public:
    Team(const BatchedCall& call, RunRecord* record, int64_t begin, double thread_ns, int participants, int64_t fixed,
         Order* order)
        : call_(call),
          record_(record),
          part_ns_(thread_ns * static_cast<double>(call.count * call.items - begin) / participants),
          fixed_(fixed),
          order_(order),
          scheduler_(begin, call.count * call.items, thread_ns, participants,
                     chunk_alignment(call.lanes, call.rows, call.dims), fixed, 0, order != nullptr, &record->cancel) {}

    void invite(const xla::Api* api, xla::ExecutionContext* context, int helpers) {
        for (int i = 0; i < helpers; ++i) {
            references_.fetch_add(1, std::memory_order_relaxed);
            xla::ScheduleArgs args{sizeof args, nullptr, context, help, this};
            if (xla::Error* error = api->schedule(&args)) {
                xla::ErrorDestroyArgs destroy{sizeof destroy, nullptr, error};
                api->error_destroy(&destroy);
                release();
                return;
            }
        }
    }

    template <typename Between>
    void work(Runner* runner, Between between) {
        runner->expect(part_ns_);
        scheduler_.participate(
            [this, runner](int64_t begin, int64_t end) {
                runner->run(begin, end);
                if (order_) runner->hand_on(order_, begin / fixed_);
            },
            between);
        runner->add_sums();
    }

    // Held while a thread adds its copies to the arrays.
    std::mutex* sums() { return &sums_; }

    // Lets no more helpers in, and waits for those inside.
    void finish(Watchdog* watchdog) {
        std::unique_lock<std::mutex> lock(mutex_);
        closed_ = true;
        while (!idle_.wait_for(lock, std::chrono::milliseconds(20), [this] { return inside_ == 0; })) {
            watchdog->poll(now_ns());
        }
    }

    void release() {
        if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
    }

  private:
    static void help(void* data) {
        Team* team = static_cast<Team*>(data);
        if (team->enter()) {
            try {
                PlainFloatingPoint plain;
                Runner runner(team->call_, team->record_, nullptr);
                if (runner.part(team->sums())) team->work(&runner, [](double, double) { return true; });
            } catch (const std::bad_alloc&) {
                // No room for another argument block: the other threads do the work.
            }
            team->leave();
        }
        team->release();
    }

    bool enter() {
        std::lock_guard<std::mutex> lock(mutex_);
        if (closed_) return false;
        ++inside_;
        return true;
    }

    void leave() {
        std::lock_guard<std::mutex> lock(mutex_);
        if (--inside_ == 0) idle_.notify_one();
    }

    const BatchedCall& call_;
    RunRecord* record_;
    const double part_ns_;  // what one OS thread's part takes
    const int64_t fixed_;
    Order* const order_;  // not null: chunks add in their order
    ChunkScheduler scheduler_;
    std::atomic<int> references_{1};
    std::mutex mutex_;
    std::mutex sums_;
    std::condition_variable idle_;
    int inside_ = 0;
    bool closed_ = false;
};

// The threads that a call may use, the caller's included.
int64_t threads_of(const xla::Api* api, xla::ExecutionContext* context) {
    int64_t pool = 0;
    xla::NumThreadsArgs args{sizeof args, nullptr, context, &pool};
    if (xla::Error* error = api->num_threads(&args)) {
        xla::ErrorDestroyArgs destroy{sizeof destroy, nullptr, error};
        api->error_destroy(&destroy);
        return 1;
    }
    const int64_t allowed = thread_count();
    return pool < allowed ? pool : allowed;
}

// Runs the threads from `begin` on with XLA's pool; false when that has no threads to spare, or memory is short.
bool share(const BatchedCall& call, Runner* runner, RunRecord* record, Watchdog* watchdog, int64_t begin,
           double thread_ns, int64_t fixed, Order* order, const xla::Api* api, xla::ExecutionContext* context) {
    const int64_t left = call.count * call.items - begin;
    const int64_t threads = within(thread_ns * static_cast<double>(left), kWorthNs, threads_of(api, context));
    if (threads < 2) return false;
    Team* team = new Team(call, record, begin, thread_ns, static_cast<int>(threads), fixed, order);
    if (!order && !runner->part(team->sums())) {
        team->release();
        return false;
    }
    team->invite(api, context, static_cast<int>(threads) - 1);
    team->work(runner, [watchdog](double now, double) {
        watchdog->poll(now);
        return true;
    });
    team->finish(watchdog);
    team->release();
    return true;
}

// Whether the sums of a deterministic call can be formed in order: of one element, in copies that are worth it.
bool adds_in_order(const BatchedCall& call, int64_t fixed) {
    if (!fixed || !call.non_associative || call.order_dependent || call.items != 1 || fixed >= call.count) return false;
    int64_t bytes = 0;
    for (const Hole& hole : call.holes) bytes += hole.sum_bytes;
    return bytes && bytes <= std::max(kOrderedBytes, call.count / kFixedChunks * kOrderedBytesPerThread);
}

}  // namespace

void run_batched(const BatchedCall& call, const xla::Api* api, xla::ExecutionContext* context, RunRecord* record) {
    int64_t total;
    if (__builtin_mul_overflow(call.count, call.items, &total) || total <= 0) return;
    PlainFloatingPoint plain;
    const double start = now_ns();
    Watchdog watchdog(record, nullptr, start);
    Runner runner(call, record, &watchdog);
    double last = start;
    double thread_ns = 0;
    const int64_t fixed = call.deterministic ? fixed_chunk(total, call.lanes, false) : 0;
    std::optional<Order> in_order;
    if (adds_in_order(call, fixed) && runner.part(nullptr)) in_order.emplace();
    Order* order = in_order ? &*in_order : nullptr;
    const bool alone = fixed && (call.order_dependent || (call.non_associative && !order));
    const ChunkAlignment alignment = chunk_alignment(call.lanes, call.rows, call.dims);
    for (int64_t done = 0; done < total && !record->cancel.load(std::memory_order_relaxed);) {
        const int64_t left = total - done;
        const int64_t size = fixed ? std::min(fixed, left) : next_alone(done, left, thread_ns, alignment);
        runner.expect(thread_ns * static_cast<double>(left) / thread_count());
        runner.run(done, done + size);
        if (order) runner.hand_on(order, done / fixed);
        if (done && done + size == total) break;
        const double now = now_ns();
        thread_ns = (now - last) / static_cast<double>(size);
        last = now;
        done += size;
        watchdog.poll(now);
        const double left_ns = thread_ns * static_cast<double>(total - done);
        // The first threads may be slow because code and data are cold: a guess needs some substance.
        const bool sure = now - start > 3e3 || done >= 80;
        if (left_ns > kShareNs && sure && !alone &&
            share(call, &runner, record, &watchdog, done, thread_ns, fixed, order, api, context)) {
            break;
        }
    }
    runner.add_partials();
}

}  // namespace wl
