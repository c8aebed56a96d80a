#include "gil.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "chunks.h"
#include "extent.h"
#include "signals.h"
#include "sums.h"

namespace wl {

namespace {

constexpr auto kExitPatience = std::chrono::seconds(5);  // of the exit handler with a chunk that does not end
constexpr int kShortestWaitUs = 20, kLongestWaitUs = 1000;

thread_local bool is_worker = false;

// Whether `other` writes to the parameter at position `i` of `plain`.
bool writes_to(const Footprint& other, const Footprint& plain, int i) {
    const Extent updated = extent_of(plain.signature->params[static_cast<size_t>(i)], plain.block);
    for (const Param& param : other.signature->params) {
        const bool writes = param.kind == ParamKind::Array && param.writes;
        if (writes && updated.overlaps(extent_of(param, other.block))) return true;
    }
    return false;
}

}  // namespace

bool Footprint::is_written_by(const Footprint& other) const {
    const auto meets = [&](int i) { return writes_to(other, *this, i); };
    return (plain && std::any_of(signature->non_atomic.begin(), signature->non_atomic.end(), meets)) ||
           std::any_of(signature->taken.begin(), signature->taken.end(), meets);
}

Gil* Gil::first_ = nullptr;
int64_t Gil::count_ = 0;
std::vector<std::pair<int64_t, PyObject*>> Gil::kept_;
bool Gil::closed_ = false;

Gil::~Gil() {
    acquire();
    if (!listed_) return;
    unlist();
    if (!kept_.empty()) let_go();
}

void Gil::unlist() {
    (previous_ ? previous_->next_ : first_) = next_;
    if (next_) next_->previous_ = previous_;
}

void Gil::keep(PyObject* object) {
    if (first_) kept_.emplace_back(count_, Py_NewRef(object));
}

// Releases what no launch in flight needs any more. That may run Python code, and other launches in it.
void Gil::let_go() {
    int64_t oldest = count_;
    for (const Gil* gil = first_; gil; gil = gil->next_) oldest = std::min(oldest, gil->number_);
    std::vector<PyObject*> unneeded;
    const auto take = [&](const std::pair<int64_t, PyObject*>& kept) {
        if (kept.first > oldest) return false;
        unneeded.push_back(kept.second);
        return true;
    };
    kept_.erase(std::remove_if(kept_.begin(), kept_.end(), take), kept_.end());
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    for (PyObject* object : unneeded) Py_DECREF(object);
    PyErr_Restore(type, value, traceback);
}

void Gil::enlist() {
    if (listed_) return;
    listed_ = true;
    number_ = count_++;
    thread_ = std::this_thread::get_id();
    next_ = first_;
    if (first_) first_->previous_ = this;
    first_ = this;
}

void Gil::release() {
    if (saved_ || closed_) return;
    enlist();
    saved_ = PyEval_SaveThread();
}

void Gil::acquire() {
    if (!saved_) return;
    // The exit handler did not wait any longer: this thread ends with the process.
    while (!Py_IsInitialized()) std::this_thread::sleep_for(std::chrono::seconds(1));
    PyEval_RestoreThread(std::exchange(saved_, nullptr));
}

bool Gil::check_signals() {
    const bool released = saved_ != nullptr;
    acquire();
    const bool fine = run_signal_handlers();
    if (released) release();
    return fine;
}

bool Gil::clashes_with(const Footprint& footprint) const {
    for (const Footprint* mine = &footprint_; mine && mine->signature; mine = mine->next) {
        for (const Footprint* other = &footprint; other; other = other->next) {
            if (mine->is_written_by(*other) || other->is_written_by(*mine)) return true;
        }
    }
    return false;
}

bool Gil::clashes(const Footprint& footprint, int64_t before) {
    if (!footprint.signature || is_worker) return false;
    for (const Gil* gil = first_; gil; gil = gil->next_) {
        // A launch of this thread's own called back into Python, which launches: it can't wait for itself.
        if (gil->number_ >= before || gil->thread_ == std::this_thread::get_id()) continue;
        if (gil->clashes_with(footprint)) return true;
    }
    return false;
}

bool Gil::wait_for_turn() {
    if (!clashes(footprint_)) return true;
    enlist();
    for (int us = kShortestWaitUs; clashes(footprint_, number_); us = us < kLongestWaitUs ? 2 * us : us) {
        record_->cancel_if_late(now_ns());
        if (closed_ || record_->cancel.load(std::memory_order_relaxed)) break;
        release();
        std::this_thread::sleep_for(std::chrono::microseconds(us));
        acquire();
        if (!run_signal_handlers()) {
            record_->cancel.store(1, std::memory_order_relaxed);
            return false;
        }
    }
    return true;
}

void Gil::close() {
    closed_ = true;
    const auto start = std::chrono::steady_clock::now();
    while (first_ && std::chrono::steady_clock::now() - start < kExitPatience) {
        for (Gil* gil = first_; gil; gil = gil->next_) {
            gil->record_->closing.store(1, std::memory_order_relaxed);
            gil->record_->cancel.store(1, std::memory_order_relaxed);
        }
        Py_BEGIN_ALLOW_THREADS std::this_thread::sleep_for(std::chrono::milliseconds(1));
        Py_END_ALLOW_THREADS
    }
}

void Gil::after_fork() {
    for (Gil* gil = first_; gil; gil = gil->next_) gil->listed_ = false;
    first_ = nullptr;
}

void Gil::enter_worker() { is_worker = true; }

}  // namespace wl
