#include "adjoint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "array.h"
#include "bulk.h"
#include "cuda_launch.h"
#include "extent.h"
#include "numpy_abi.h"
#include "tensor_memory.h"
#include "value.h"
#include "zeroing.h"

namespace wl {

namespace {

constexpr const char* kRaised = "a signal handler raised";  // with its exception set

constexpr uint64_t bit(size_t i) { return uint64_t{1} << i; }

// What has no gradient to add to: Warp's programs give numbers where the argument is one.
bool is_plain_value(PyObject* object) {
    return object == Py_None || PyFloat_Check(object) || PyLong_Check(object) ||
           PyObject_TypeCheck(object, &ValueType) || is_numpy_scalar(object);
}

// Whether a framework may have dropped or exchanged the gradient's tensor since, so that Python has to look.
bool is_tied(const Array* array) {
    PyObject* links = array->grad_links;
    return links && links != Py_None && !(PyList_CheckExact(links) && PyList_GET_SIZE(links) == 0);
}

// Which parameters have gradients.
struct Gradients {
    uint64_t wrt = 0;
    uint64_t copied = 0;  // the adjoint gets a copy of the array, since it consumes it
    const char* refusal = nullptr;
};

// Looks up the adjoint for `wrt`: the entry's dispatcher, None, or null where none is installed.
PyObject* adjoint_for(const Dispatcher* forward, uint64_t wrt) {
    for (const Adjoint& adjoint : *forward->adjoints) {
        if (adjoint.wrt == wrt) return adjoint.dispatcher;
    }
    return nullptr;
}

// Adds to `operands`, the arguments, the gradient arrays: those of `adjoints`, or where there is none the argument's
// own. With `adjoints` null, all are the arguments' own, and Python has seen to those that are tied to tensors.
Gradients add_gradients(const Signature& signature, const Operands* adjoints, Operands* operands) {
    Gradients found;
    const size_t n = signature.params.size();
    if (n > kMaxGradients) found.refusal = "too many parameters";
    for (size_t i = 0; i < n && !found.refusal; ++i) {
        const Param& param = signature.params[i];
        PyObject* adjoint = adjoints ? (*adjoints)[i] : Py_None;
        bool copied = adjoint != Py_None;
        if (param.kind != ParamKind::Array) {
            if (is_plain_value(adjoint)) continue;
            copied = false;
        } else if (!param.gradient) {
            continue;
        } else if (adjoint == Py_None) {
            if (!is_array((*operands)[i]) || !has_gradient((*operands)[i])) continue;
            const Array* array = reinterpret_cast<const Array*>((*operands)[i]);
            if (adjoints && is_tied(array)) found.refusal = "the gradient is tied to a tensor's";
            copied = adjoints && array->retain_grad;
            adjoint = array->grad_array;
        }
        if (!param.gradient) found.refusal = "the argument has no gradient";
        if (copied && param.stores && !param.reads) found.copied |= bit(i);
        found.wrt |= bit(i);
        if (!found.refusal) found.refusal = operands->add(adjoint);
    }
    return found;
}

// Copies of gradients, which live as long as the launch.
class Copies {
  public:
    Copies() = default;
    ~Copies() {
        for (int i = 0; i < count_; ++i) std::free(memory_[i]);
    }
    Copies(const Copies&) = delete;
    Copies& operator=(const Copies&) = delete;

    // Replaces the contiguous array at `slot` by a copy.
    const char* take(const Param& param, int64_t* slot) {
        if (!param.known) return "a copy of an array of structs is needed";
        int64_t bytes = param.element.size;
        for (int i = 0; i < param.ndim; ++i) bytes *= slot[1 + i];
        void* memory = std::malloc(static_cast<size_t>(bytes) + 1);
        if (!memory) return "out of memory";
        memory_[count_++] = memory;
        if (!copy_bytes(memory, reinterpret_cast<const void*>(slot[0]), bytes)) return kRaised;
        slot[0] = reinterpret_cast<int64_t>(memory);
        return nullptr;
    }

  private:
    void* memory_[kMaxGradients];
    int count_ = 0;
};

// One adjoint launch: its arguments packed and checked, ready to run.
class Launch {
  public:
    // Takes the arguments and gradients in `operands`. Null, or why it can't run.
    const char* prepare(const Dispatcher* forward, const Gradients& gradients) {
        if (gradients.refusal) return gradients.refusal;
        PyObject* found = adjoint_for(forward, gradients.wrt);
        if (!found) return "the adjoint is not installed";
        if (found == Py_None) return nullptr;
        adjoint_ = as_dispatcher(found);
        held_ = Ref::borrow(found);
        arguments_.emplace(*adjoint_->signature);
        Refusal refusal;
        if (!arguments_->pack(operands, adjoint_->device, &refusal)) return refusal.reason;
        if (const char* why = check_shapes(*forward->signature, gradients.wrt)) return why;
        if (gradients.copied && !arguments_->contiguous()) return "a copy of a strided array is needed";
        if (gradients.copied && runs_elsewhere(adjoint_)) return "a copy of an array on a device is needed";
        const size_t n = forward->signature->params.size();
        for (size_t i = 0, k = n; i < n; ++i) {
            if (!(gradients.wrt & bit(i))) continue;
            if (gradients.copied & bit(i)) {
                if (const char* why = copies_.take(adjoint_->signature->params[k], slot(k))) return why;
            }
            ++k;
        }
        variant_ = variant_for(adjoint_, grid, *arguments_);
        if (!variant_->entry) return "the variant is not installed";
        return adjoint_->cuda && !fits(*variant_, adjoint_, grid) ? "its blocks are too large" : nullptr;
    }

    // Whether the adjoint loads from an argument that the kernel wrote through another one.
    bool reads_overwritten(const Signature& forward) {
        if (!adjoint_) return false;
        for (size_t i = 0; i < forward.params.size(); ++i) {
            if (forward.params[i].kind != ParamKind::Array || !adjoint_->signature->params[i].reads) continue;
            for (size_t j = 0; j < forward.params.size(); ++j) {
                if (i == j || forward.params[j].kind != ParamKind::Array || !forward.params[j].writes) continue;
                if (extent(i).overlaps(extent(j))) return true;
            }
        }
        return false;
    }

    bool empty() const { return !adjoint_; }
    const Dispatcher* adjoint() const { return adjoint_; }

    // False with an exception set.
    bool run() {
        if (!adjoint_ || !grid.count) return true;
        if (execute(adjoint_, variant_, grid, &*arguments_, zeroing_.empty() ? nullptr : &zeroing_)) return true;
        zeroing_.clear_all();  // or some elements would keep an older gradient
        return false;
    }

    // Whether it uses memory of a contiguous gradient.
    bool touches(const Array* gradient) { return adjoint_ && grid.count && position_of(gradient) != kNowhere; }

    // Sets a gradient that it touches to zero while it runs; false where that has to be done before.
    bool zeroes(const Array* gradient) {
        const int at = position_of(gradient);
        if (at < 0 || variant_->rows > 1 || runs_elsewhere(adjoint_)) return false;
        const size_t i = static_cast<size_t>(at);
        if (operands[i] != reinterpret_cast<const PyObject*>(gradient)) return false;
        return zeroing_.take(adjoint_, grid, adjoint_->signature->params[i], gradient);
    }

    Operands operands;
    Grid grid;

  private:
    static constexpr int kNowhere = -1, kInSeveralPlaces = -2;

    // The only parameter that lies over the memory of an array.
    int position_of(const Array* array) {
        const auto begin = reinterpret_cast<uintptr_t>(array->data);
        const Extent whole{begin, begin + static_cast<uintptr_t>(array->size * array->itemsize)};
        int found = kNowhere;
        for (size_t i = 0; i < adjoint_->signature->params.size(); ++i) {
            if (adjoint_->signature->params[i].kind != ParamKind::Array || !extent(i).overlaps(whole)) continue;
            if (found != kNowhere) return kInSeveralPlaces;
            found = static_cast<int>(i);
        }
        return found;
    }

    int64_t* slot(size_t param) { return reinterpret_cast<int64_t*>(arguments_->slot(param)); }

    Extent extent(size_t i) {
        const Param& param = adjoint_->signature->params[i];
        const int64_t itemsize =
            is_array(operands[i]) ? reinterpret_cast<const Array*>(operands[i])->itemsize : param.element.size;
        return extent_of(slot(i), param.ndim, itemsize);
    }

    const char* check_shapes(const Signature& forward, uint64_t wrt) {
        const size_t n = forward.params.size();
        for (size_t i = 0, k = n; i < n; ++i) {
            if (!(wrt & bit(i))) continue;
            const bool array = forward.params[i].kind == ParamKind::Array;
            const int64_t* own = slot(i);
            const int64_t* adjoint = slot(k++);
            const int ndim = array ? forward.params[i].ndim : 1;
            for (int d = 1; d <= ndim; ++d) {
                if (adjoint[d] != (array ? own[d] : 1)) return "the gradient has another shape";
            }
        }
        return nullptr;
    }

    Dispatcher* adjoint_ = nullptr;  // null where no gradient passes
    Ref held_;
    std::optional<Arguments> arguments_;
    Copies copies_;
    Variant* variant_ = nullptr;
    Zeroing zeroing_;
};

// Prepares the adjoint of a record with its arguments' own gradients.
const char* prepare_record(const Record* record, Launch* launch) {
    const char* why = nullptr;
    if (record->refusal != Py_None || PyDict_GET_SIZE(record->saved) || PyDict_GET_SIZE(record->prelaunch_copies) ||
        !PyTuple_CheckExact(record->same) || PyTuple_GET_SIZE(record->same)) {
        return "the launch needs copies or has none";
    }
    if (!PyObject_TypeCheck(record->dispatcher, &DispatcherType)) return "the kernel is not known";
    const Dispatcher* forward = as_dispatcher(record->dispatcher);
    if (!read_grid(record->dims, &launch->grid, &why)) return why;
    launch->grid.block_dim = record->block_dim;
    if ((why = launch->operands.take_flat(record->args))) return why;
    if (launch->operands.size() != forward->signature->params.size()) return "another number of arguments";
    return launch->prepare(forward, add_gradients(*forward->signature, nullptr, &launch->operands));
}

}  // namespace

bool find_adjoint(const Record* record, const Dispatcher** found) {
    if (!PyObject_TypeCheck(record->dispatcher, &DispatcherType)) return false;
    const Dispatcher* forward = as_dispatcher(record->dispatcher);
    const auto& params = forward->signature->params;
    if (params.size() > kMaxGradients || PyList_GET_SIZE(record->args) != static_cast<Py_ssize_t>(params.size())) {
        return false;
    }
    uint64_t wrt = 0;
    for (size_t i = 0; i < params.size(); ++i) {
        PyObject* arg = PyList_GET_ITEM(record->args, static_cast<Py_ssize_t>(i));
        if (params[i].kind == ParamKind::Array && params[i].gradient && is_array(arg) && has_gradient(arg))
            wrt |= bit(i);
    }
    PyObject* adjoint = adjoint_for(forward, wrt);
    if (!adjoint) return false;
    *found = adjoint == Py_None ? nullptr : as_dispatcher(adjoint);
    return true;
}

PyObject* try_adjoint(PyObject* object, const LaunchCall& call, PyObject* adj_inputs, PyObject* adj_outputs) {
    const Dispatcher* self = as_dispatcher(object);
    const Signature& signature = *self->signature;
    const char* why = nullptr;
    Launch launch;
    Operands adjoints;
    const size_t count = signature.params.size();
    if (!same_device(self, call.device, &why) || !read_grid(call.dim, &launch.grid, &why) ||
        launch.operands.take(signature.declared, call.inputs, call.outputs) || launch.operands.size() != count ||
        adjoints.take_adjoints(signature.declared, count, call.inputs, call.outputs, adj_inputs, adj_outputs) ||
        launch.prepare(self, add_gradients(signature, &adjoints, &launch.operands)) || launch.empty() ||
        launch.reads_overwritten(signature)) {
        if (PyErr_Occurred()) return nullptr;
        Py_RETURN_FALSE;
    }
    if (!launch.run()) return nullptr;
    Py_RETURN_TRUE;
}

PyObject* try_reverse(PyObject* object, PyObject*) {
    Launch launch;
    if (prepare_record(as_record(object), &launch)) Py_RETURN_FALSE;
    if (!launch.run()) return nullptr;
    Py_RETURN_TRUE;
}

PyObject* can_reverse(PyObject* object, PyObject*) {
    Launch launch;
    return PyBool_FromLong(prepare_record(as_record(object), &launch) == nullptr);
}

namespace {

// ---- tapes

// Whether nothing of the array is Python's to see to before a backward pass: no tensor that may have been resized or
// whose gradient may have been dropped, and no gradient to retain.
bool is_carefree(PyObject* object) {
    if (!is_array(object)) return true;
    const Array* array = reinterpret_cast<const Array*>(object);
    return !is_tied(array) && !array->retain_grad && !(array->owner && find_tensor_type(Py_TYPE(array->owner)));
}

bool is_carefree_record(PyObject* object) {
    if (!is_record(object)) return false;
    PyObject* args = as_record(object)->args;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args); ++i) {
        if (!is_carefree(PyList_GET_ITEM(args, i))) return false;
    }
    return true;
}

// The gradient that a backward pass starts from, where it can be set here: contiguous, and no framework's.
Array* settable(PyObject* object) {
    if (!is_array(object) || !is_carefree(object) || !has_gradient(object)) return nullptr;
    PyObject* gradient = reinterpret_cast<Array*>(object)->grad_array;
    if (!is_array(gradient)) return nullptr;
    return is_zeroable(gradient) ? reinterpret_cast<Array*>(gradient) : nullptr;
}

bool same_shape(const Array* a, const Array* b) {
    return a->type_code == b->type_code && a->ndim == b->ndim &&
           std::memcmp(a->shape, b->shape, sizeof(int64_t) * static_cast<size_t>(a->ndim)) == 0;
}

template <typename T>
void fill(Array* array, T value) {
    T* out = reinterpret_cast<T*>(array->data);
    for (int64_t i = 0; i < array->size * array->itemsize / static_cast<int64_t>(sizeof(T)); ++i) out[i] = value;
}

// Sets `gradient` to a seed: a number for float32 and float64, or an array like it. False where Python has to do it,
// or with an exception set.
bool set_seed(Array* gradient, PyObject* seed, bool only_look) {
    if (is_array(seed)) {
        const Array* source = reinterpret_cast<const Array*>(seed);
        if (!source->contiguous || !has_memory(source) || source->device_type != kDLCPU ||
            !same_shape(source, gradient))
            return false;
        return only_look || copy_bytes(gradient->data, source->data, gradient->size * gradient->itemsize);
    }
    Element element{};
    if (!PyFloat_CheckExact(seed) || !Element::decode(gradient->type_code, &element)) return false;
    if (element.scalar != Scalar::Float32 && element.scalar != Scalar::Float64) return false;
    if (only_look) return true;
    if (element.scalar == Scalar::Float32) {
        fill(gradient, static_cast<float>(PyFloat_AS_DOUBLE(seed)));
    } else {
        fill(gradient, PyFloat_AS_DOUBLE(seed));
    }
    return true;
}

bool set_seeds(PyObject* starts, bool only_look) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(starts); ++i) {
        PyObject* pair = PyList_GET_ITEM(starts, i);
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) return false;
        Array* gradient = settable(PyTuple_GET_ITEM(pair, 0));
        if (!gradient || !set_seed(gradient, PyTuple_GET_ITEM(pair, 1), only_look)) return false;
    }
    return true;
}

// What launches have made of arrays with gradients in arrays that have none.
class Cuts {
  public:
    // Whether the gradient of `record` stops at such an array, which Python then says.
    bool stop(const Record* record) {
        const auto& params = as_dispatcher(record->dispatcher)->signature->params;
        bool gradient_read = false, gradient_written = false, cut = false;
        for (size_t i = 0; i < params.size(); ++i) {
            PyObject* arg = PyList_GET_ITEM(record->args, static_cast<Py_ssize_t>(i));
            if (params[i].kind != ParamKind::Array || !params[i].gradient || !is_array(arg)) continue;
            const bool gradient = has_gradient(arg);
            gradient_read |= gradient && params[i].reads;
            gradient_written |= gradient && params[i].writes;
            cut = cut ||
                  (!gradient && params[i].reads && !made_.overlapping(extent_of(arg), [](auto&&...) { return false; }));
        }
        for (size_t i = 0; gradient_read && i < params.size(); ++i) {
            PyObject* arg = PyList_GET_ITEM(record->args, static_cast<Py_ssize_t>(i));
            if (params[i].kind != ParamKind::Array || !params[i].gradient || !is_array(arg)) continue;
            const Extent extent = extent_of(arg);
            if (params[i].writes && !has_gradient(arg) && !extent.empty()) made_.at(extent).assign(1, true);
        }
        return cut && gradient_written;
    }

  private:
    IntervalMap<char> made_;
};

// Whether all bytes of an array are zero; false where they are not side by side in memory of the host.
bool is_zero(const Array* array) {
    if (!array->size) return true;
    if (!array->contiguous || !has_memory(array) || array->device_type != kDLCPU) return false;
    const size_t bytes = static_cast<size_t>(array->size * array->itemsize);
    return !array->data[0] && !std::memcmp(array->data, array->data + 1, bytes - 1);
}

// Sums of earlier backward passes in gradients, which Python puts aside (`held_gradients.py`).
class Sums {
  public:
    explicit Sums(PyObject* starts) : starts_(starts) {}

    // Whether a launch writes to an array that it or one before reads, and that has such a sum.
    bool any(const Record* record) {
        const auto& params = as_dispatcher(record->dispatcher)->signature->params;
        for (const bool write : {false, true}) {
            for (size_t i = 0; i < params.size(); ++i) {
                if (params[i].kind != ParamKind::Array || !(write ? params[i].writes : params[i].reads)) continue;
                PyObject* arg = PyList_GET_ITEM(record->args, static_cast<Py_ssize_t>(i));
                if (!is_array(arg) || !has_gradient(arg)) continue;
                if (!write) {
                    add(extent_of(arg));
                } else if (is_read(extent_of(arg)) && has_sum(arg)) {
                    return true;
                }
            }
        }
        return false;
    }

  private:
    void add(const Extent& extent) {
        if (extent.empty()) return;
        if (count_ < first_.size()) {
            first_[count_++] = extent;
        } else {
            others_.at(extent).assign(1, true);
        }
    }

    bool is_read(const Extent& extent) {
        const auto overlaps = [&](const Extent& read) { return read.overlaps(extent); };
        return std::any_of(first_.begin(), first_.begin() + count_, overlaps) ||
               !others_.overlapping(extent, [](auto&&...) { return false; });
    }

    // What a backward pass starts from is set.
    bool has_sum(PyObject* arg) const {
        PyObject* gradient = reinterpret_cast<Array*>(arg)->grad_array;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(starts_); ++i) {
            PyObject* start = PyTuple_GET_ITEM(PyList_GET_ITEM(starts_, i), 0);
            if (reinterpret_cast<Array*>(start)->grad_array == gradient) return false;
        }
        return !is_array(gradient) || !is_zero(reinterpret_cast<Array*>(gradient));
    }

    PyObject* starts_;
    std::array<Extent, 16> first_{};  // most tapes are short, and a map has nodes
    size_t count_ = 0;
    IntervalMap<char> others_;
};

// The arrays with gradients that a tape uses, for one question: may two of them lie over the same memory and have
// gradients that do not? All views of an array lie as far from their gradients as it does.
class Aliases {
  public:
    void add(const Record* record) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(record->args); ++i) {
            PyObject* arg = PyList_GET_ITEM(record->args, i);
            if (!is_array(arg) || !has_gradient(arg) || was_recent(arg)) continue;
            const Array* array = reinterpret_cast<const Array*>(arg);
            if (!is_array(array->grad_array)) continue;
            const char* gradient = reinterpret_cast<const Array*>(array->grad_array)->data;
            found_.push_back(
                {extent_of(arg), reinterpret_cast<intptr_t>(gradient) - reinterpret_cast<intptr_t>(array->data)});
        }
    }

    bool any() {
        const auto before = [](const Found& a, const Found& b) { return a.extent.begin < b.extent.begin; };
        if (!std::is_sorted(found_.begin(), found_.end(), before)) {
            std::sort(found_.begin(), found_.end(), before);
        }
        Found farthest{{0, 0}, 0};  // of those so far, the one that ends last
        for (const Found& found : found_) {
            if (found.extent.begin < farthest.extent.end && found.distance != farthest.distance) return true;
            if (found.extent.end > farthest.extent.end) farthest = found;
        }
        return false;
    }

  private:
    struct Found {
        Extent extent;
        intptr_t distance;  // from the array's first element to its gradient's
    };

    // A launch mostly uses what the one before it used; what comes again later does no harm.
    bool was_recent(const PyObject* array) {
        if (std::find(recent_.begin(), recent_.end(), array) != recent_.end()) return true;
        recent_[next_++ % recent_.size()] = array;
        return false;
    }

    std::array<const PyObject*, 8> recent_{};
    size_t next_ = 0;
    std::vector<Found> found_;
};

// Whether all of a tape can run in reverse right here. `sums` is null where no gradient has one.
bool is_ready(PyObject* records, Sums* sums) {
    Cuts cuts;
    Aliases aliases;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(records); ++i) {
        PyObject* record = PyList_GET_ITEM(records, i);
        Launch launch;
        if (!is_carefree_record(record) || prepare_record(as_record(record), &launch)) return false;
        if ((launch.adjoint() && is_outdated(as_record(record), launch.adjoint())) || cuts.stop(as_record(record)))
            return false;
        if (sums && sums->any(as_record(record))) return false;
        aliases.add(as_record(record));
    }
    return !aliases.any();
}

// Collects the distinct gradients of the recorded launches' arguments. False where Python has to look at one.
bool collect_gradients(PyObject* records, std::vector<Array*>* found) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(records); ++i) {
        if (!is_record(PyList_GET_ITEM(records, i))) return false;
        PyObject* args = as_record(PyList_GET_ITEM(records, i))->args;
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(args); ++k) {
            PyObject* arg = PyList_GET_ITEM(args, k);
            if (!is_array(arg) || !has_gradient(arg)) continue;
            PyObject* gradient = reinterpret_cast<Array*>(arg)->grad_array;
            if (is_tied(reinterpret_cast<Array*>(arg)) || !is_array(gradient) || !is_zeroable(gradient)) return false;
            Array* array = reinterpret_cast<Array*>(gradient);
            found->push_back(array);
        }
    }
    std::sort(found->begin(), found->end());
    found->erase(std::unique(found->begin(), found->end()), found->end());
    return true;
}

// Gradients that a backward pass has to set to zero before a launch adds to them. Large ones are kept until the first
// launch that touches them, which may do it on its way.
class Waiting {
  public:
    Waiting() = default;
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

    // What no launch has touched, also where one has failed.
    ~Waiting() {
        for (const Ref& gradient : large_) {
            const Array* array = reinterpret_cast<const Array*>(gradient.get());
            std::memset(array->data, 0, static_cast<size_t>(array->size * array->itemsize));
        }
    }

    // Takes the gradients of `records` and sets small ones to zero. Those of `starts` get a seed as a whole. False,
    // with nothing done, where Python has to look at one, or with an exception set.
    bool take(PyObject* records, PyObject* starts) {
        std::vector<Array*> gradients, seeded;
        if (!collect_gradients(records, &gradients)) return false;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(starts); ++i) {
            PyObject* pair = PyList_GET_ITEM(starts, i);
            seeded.push_back(settable(PyTuple_GET_ITEM(pair, 0)));
            if (is_array(PyTuple_GET_ITEM(pair, 1)) && overlaps_any(PyTuple_GET_ITEM(pair, 1), gradients)) return false;
        }
        std::vector<Ref> small;
        for (Array* gradient : gradients) {
            if (std::find(seeded.begin(), seeded.end(), gradient) != seeded.end()) continue;
            const bool is_large = gradient->size * gradient->itemsize >= kLeastZeroed;
            const bool apart = is_large && !overlaps_any(reinterpret_cast<PyObject*>(gradient), seeded);
            (apart ? large_ : small).push_back(Ref::borrow(reinterpret_cast<PyObject*>(gradient)));
        }
        return std::all_of(small.begin(), small.end(), [](const Ref& g) { return set_array_zero(g.get()); });
    }

    // Lets `launch` set to zero what it touches. What it can't is set to zero now. Other threads may run meanwhile, so
    // the launch has to be prepared `again` then. False with an exception set.
    bool settle(Launch* launch, bool* again) {
        std::vector<Ref> left, on_the_way;
        bool done = true;
        for (Ref& gradient : large_) {
            const Array* array = reinterpret_cast<const Array*>(gradient.get());
            if (!launch->touches(array)) {
                left.push_back(std::move(gradient));
            } else if (launch->zeroes(array)) {
                on_the_way.push_back(std::move(gradient));
            } else {
                *again = true;
                done = done && set_array_zero(gradient.get());
            }
        }
        if (*again) std::move(on_the_way.begin(), on_the_way.end(), std::back_inserter(left));
        large_ = std::move(left);
        return done;
    }

    bool empty() const { return large_.empty(); }

  private:
    static bool overlaps_any(PyObject* object, const std::vector<Array*>& arrays) {
        return std::any_of(arrays.begin(), arrays.end(), [object](Array* array) {
            return extent_of(object).overlaps(extent_of(reinterpret_cast<PyObject*>(array)));
        });
    }

    std::vector<Ref> large_;
};

// Runs the adjoint of a record; null, or why it can't run, or with an exception set.
const char* reverse(const Record* record, Waiting* waiting) {
    for (bool again = true; again;) {
        Launch launch;
        // Launches run without the GIL: another thread may have unloaded the code of this one, or changed an array.
        if (const char* why = prepare_record(record, &launch)) return why;
        again = false;
        if (!waiting->empty() && !waiting->settle(&launch, &again)) return kRaised;
        if (!again && !launch.run()) return kRaised;
    }
    return nullptr;
}

PyObject* try_backward(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 4 || !PyList_Check(args[0]) || !PyList_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "try_backward(launches, starts, fresh, zero) takes two lists and two bools");
        return nullptr;
    }
    if (!set_seeds(args[1], true)) Py_RETURN_NONE;
    const bool zero = args[3] == Py_True;
    Sums sums(args[1]);
    if (!is_ready(args[0], zero || args[2] == Py_True ? nullptr : &sums)) Py_RETURN_NONE;
    const Ref records(PyList_GetSlice(args[0], 0, PyList_GET_SIZE(args[0])));
    if (!records) return nullptr;
    Waiting waiting;
    if ((zero && !waiting.take(records.get(), args[1])) || !set_seeds(args[1], false)) {
        return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
    }
    for (Py_ssize_t i = PyList_GET_SIZE(records.get()); i-- > 0;) {
        if (reverse(as_record(PyList_GET_ITEM(records.get(), i)), &waiting)) {
            return PyErr_Occurred() ? nullptr : PyLong_FromSsize_t(i + 1);
        }
    }
    return PyLong_FromLong(0);
}

PyObject* try_zero(PyObject*, PyObject* records) {
    if (!PyList_Check(records)) return PyErr_Format(PyExc_TypeError, "try_zero() takes a list, got %R", records);
    std::vector<Array*> gradients;
    if (!collect_gradients(records, &gradients)) Py_RETURN_FALSE;
    for (Array* array : gradients) Py_INCREF(reinterpret_cast<PyObject*>(array));
    bool done = true;
    for (Array* array : gradients) {
        done = done && set_array_zero(reinterpret_cast<PyObject*>(array));
        Py_DECREF(reinterpret_cast<PyObject*>(array));
    }
    if (!done) return nullptr;
    Py_RETURN_TRUE;
}

PyMethodDef functions[] = {
    {"try_zero", try_zero, METH_O,
     "try_zero($module, launches, /)\n--\n\nSet the gradients of the recorded launches' arguments to zero, and return "
     "True; or return False, with nothing done, where one is not plain memory of ours."},
    {"try_backward", method(try_backward), METH_FASTCALL,
     "try_backward($module, launches, starts, fresh, zero, /)\n--\n\nSet the gradients of the arrays in `starts`, "
     "pairs of an array and a number or an array, and run the adjoints of the recorded launches, last one first. "
     "Return "
     "how many of the first launches are left, since something changed meanwhile; or None, with nothing done, when "
     "something is not plainly right or not installed. With `fresh`, no gradient holds the sum of earlier passes; with "
     "`zero`, all others are set to zero first."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_adjoint(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
