#include "xla_cuda.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "context.h"
#include "cuda.h"
#include "cuda_launch.h"
#include "thread_pool.h"
#include "xla_site.h"

namespace wl {

namespace {

uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// The first of the driver's calls that failed, as the calls of one XLA call note it.
struct Trouble {
    const char* call = nullptr;
    CudaCode code = 0;

    bool note(const char* name, CudaCode result) {
        if (result && !call) {
            call = name;
            code = result;
        }
        return result == 0;
    }
};

class HeldGil {
  public:
    HeldGil() : state_(PyGILState_Ensure()) {}
    ~HeldGil() { PyGILState_Release(state_); }
    HeldGil(const HeldGil&) = delete;
    HeldGil& operator=(const HeldGil&) = delete;

  private:
    PyGILState_STATE state_;
};

xla::Error* told(const xla::CallFrame* frame, const Trouble& trouble) {
    std::string text = std::string("warp_like: ") + trouble.call + ": CUDA error " + std::to_string(trouble.code);
    if (Py_IsInitialized()) {
        const HeldGil gil;
        raise_cuda_error(trouble.call, trouble.code);
        text = "warp_like: " + take_exception();
    }
    return fail(frame, xla::kErrorInternal, text.c_str());
}

// What the plan's kernel says of an error of the runtime's.
xla::Error* explained(const xla::CallFrame* frame, const Plan* plan, int32_t code) {
    const HeldGil gil;
    const Ref error(PyObject_CallFunction(plan->explain, "iii", code, 0, 0));
    if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
    const int kind = code == RunError::StackLimit ? xla::kErrorResourceExhausted : xla::kErrorInvalidArgument;
    return fail(frame, kind, ("warp_like: " + take_exception()).c_str());
}

// Memory of the device, in the order of a stream.
class StreamMemory final : public XlaMemory {
  public:
    StreamMemory(void* stream, Trouble* trouble) : stream_(stream), trouble_(trouble) {}

    bool clear(void* at, int64_t nbytes) override {
        if (nbytes == 0) return true;
        return trouble_->note("cuMemsetD8Async",
                              cuda_api.memset_d8(address_of(at), 0, static_cast<size_t>(nbytes), stream_));
    }
    bool copy(void* to, const void* from, int64_t nbytes) override {
        if (nbytes == 0) return true;
        const auto count = static_cast<size_t>(nbytes);
        return trouble_->note("cuMemcpyDtoDAsync",
                              cuda_api.copy_on_device(address_of(to), address_of(from), count, stream_));
    }

  private:
    void* stream_;
    Trouble* trouble_;
};

// Makes a context current for as long as it lives. Unlike CudaGuard it needs no GIL.
class ContextScope {
  public:
    ContextScope(void* context, Trouble* trouble) {
        void* current = nullptr;
        if (!trouble->note("cuCtxGetCurrent", cuda_api.ctx_get_current(&current)) || current == context) return;
        pushed_ = trouble->note("cuCtxPushCurrent", cuda_api.ctx_push(context));
    }
    ~ContextScope() {
        void* popped = nullptr;
        if (pushed_) cuda_api.ctx_pop(&popped);
    }
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;

  private:
    bool pushed_ = false;
};

const CudaPlan* loaded(const Plan* plan, const void* context, bool apart) {
    const CudaPlan* found = plan->on_cuda.load(std::memory_order_acquire);
    while (found && (found->context != context || found->apart != apart)) found = found->next;
    return found;
}

// Compiles and loads the plan's code for the device of `context`, by Python; null with `text` filled in.
const CudaPlan* load(Plan* plan, void* context, bool apart, std::string* text) {
    const HeldGil gil;
    if (const CudaPlan* found = loaded(plan, context, apart)) return found;  // another thread was faster
    const Ref parts(PyObject_CallFunction(plan->load, "KO", static_cast<unsigned long long>(address_of(context)),
                                          apart ? Py_True : Py_False));
    unsigned long long function = 0, record = 0;
    long long block_dim = 0, max_threads = 0, team = 1;
    PyObject *keepalive = nullptr, *check = nullptr;
    const char* bound = nullptr;
    Py_ssize_t bound_size = 0;
    long long resident = 0, places = 1;
    if (!parts || !PyArg_ParseTuple(parts.get(), "KLLKOOy#LLL", &function, &block_dim, &max_threads, &record,
                                    &keepalive, &check, &bound, &bound_size, &resident, &team, &places)) {
        *text = "warp_like: " + take_exception();
        return nullptr;
    }
    Py_INCREF(keepalive);
    Py_INCREF(check);
    auto* made = new CudaPlan{context,
                              apart,
                              plan->on_cuda.load(std::memory_order_relaxed),
                              reinterpret_cast<void*>(function),
                              block_dim,
                              max_threads,
                              reinterpret_cast<void*>(record),
                              keepalive,
                              check == Py_None ? nullptr : check,
                              std::vector<BoundStep>(static_cast<size_t>(bound_size) / sizeof(BoundStep)),
                              resident,
                              team,
                              places};
    if (!made->bound.empty()) std::memcpy(made->bound.data(), bound, made->bound.size() * sizeof(BoundStep));
    plan->on_cuda.store(made, std::memory_order_release);
    return made;
}

// Copies the numbers that come in buffers to the host, where argument blocks are made. Waits for them.
bool fetch_values(BatchedCall* call, void* stream, std::vector<std::vector<char>>* held, Trouble* trouble) {
    const size_t n = call->batch.size();
    for (size_t i = 0; i < call->holes.size(); ++i) {
        Hole& hole = call->holes[i];
        if (!hole.bytes) continue;
        int64_t extent = hole.bytes;
        for (size_t d = 0; d < n; ++d) extent += (call->batch[d] - 1) * call->steps[i * n + d];
        held->emplace_back(static_cast<size_t>(extent));
        char* to = held->back().data();
        if (!trouble->note("cuMemcpyDtoHAsync",
                           cuda_api.copy_to_host(to, address_of(hole.data), static_cast<size_t>(extent), stream))) {
            return false;
        }
        hole.data = to;
    }
    return held->empty() || trouble->note("cuStreamSynchronize", cuda_api.stream_synchronize(stream));
}

void fill(const BatchedCall& call, int64_t item, uint8_t* block) {
    const size_t n = call.batch.size();
    const int64_t* steps = call.steps.data();
    for (const Hole& hole : call.holes) {
        const char* data = hole.data + offset_of(item, call.batch, steps);
        steps += n;
        if (hole.bytes) {
            std::memcpy(block + hole.offset, data, static_cast<size_t>(hole.bytes));
        } else {
            std::memcpy(block + hole.offset, &data, sizeof data);
        }
    }
}

// The argument block of a call, with room for what an entry without parameters reads.
std::vector<uint8_t> argument_block(const BatchedCall& call) {
    std::vector<uint8_t> block(call.block, call.block + call.block_size);
    block.resize(std::max(block.size(), sizeof(int64_t)));
    return block;
}

// How a call is launched, and the memory for its threads' stacks, which its launches use one after the other.
struct Shape {
    int64_t threads;
    int64_t blocks;
    void* arena = nullptr;
    int64_t capacity = 0;
};

// Whether the call keeps what `Signature.sums` says of arrays: none that is written overlaps another one, their data is
// aligned, and neither they nor the grid are too large. Arrays lie somewhere in their buffers, of which this tells.
bool are_apart(const Site& site, const BatchedCall& call) {
    struct Range {
        const char* begin;
        const char* end;
        bool written;
    };
    if (call.count > kMaxNarrow) return false;
    std::vector<Range> ranges;
    const size_t n = call.batch.size();
    for (size_t i = 0; i < site.bind_count; ++i) {
        const Binding& bind = site.binds[i];
        if (bind.kind == HoleKind::Value) continue;
        const char* const data = call.holes[i].data;
        const char* const begin = data - bind.shift;
        int64_t bytes = bind.bytes, unaligned = static_cast<int64_t>(address_of(data) % kVectorAlignment);
        for (size_t d = 0; d < n; ++d) {
            const int64_t step = call.steps[i * n + d];
            bytes += (call.batch[d] - 1) * step;
            unaligned |= step % kVectorAlignment;
        }
        if (unaligned || bind.bytes > kMaxNarrow) return false;
        const Range range{begin, begin + bytes, bind.source == HoleSource::Result};
        for (const Range& other : ranges) {
            if ((range.written || other.written) && range.begin < other.end && other.begin < range.end) return false;
        }
        ranges.push_back(range);
    }
    return true;
}

Shape shape_of(const BatchedCall& call, const CudaPlan& code, int64_t block_dim) {
    const bool together = code.team > 1;
    const int64_t threads = together ? code.team : std::min(block_dim ? block_dim : code.block_dim, code.max_threads);
    int64_t blocks = std::min((call.count - 1) / (together ? 1 : threads * code.places) + 1, kMostBlocks);
    if (code.resident) blocks = std::min(blocks, std::max(code.resident / threads, int64_t{1}));
    return {threads, blocks};
}

// Takes the memory for the stacks from XLA, which has it back when the call returns, in the order of its stream. An
// error for XLA where there is none, or where a thread may need more than the limit.
xla::Error* take_arena(const xla::CallFrame* frame, const Plan* plan, const CudaPlan& code, const BatchedCall& call,
                       Shape* shape) {
    std::vector<uint8_t> block = argument_block(call);
    const std::vector<BoundStep>& bound = code.bound;
    if (!is_bound_program(bound.data(), bound.size(), block.size())) {
        return fail(frame, xla::kErrorInternal, "warp_like: not a program for the bound of a stack");
    }
    for (int64_t item = 0; item < call.items; ++item) {
        fill(call, item, block.data());
        const int64_t needed = stack_bound(bound.data(), bound.size(), block.data(), call.dims);
        if (needed < 0 || needed > stack_limit()) {
            return explained(frame, plan, RunError::StackLimit);
        }
        shape->capacity = std::max(shape->capacity, needed);
    }
    const auto size = static_cast<size_t>(std::max(shape->blocks * shape->threads * shape->capacity, int64_t{4}));
    xla::AllocateArgs asked{sizeof asked, nullptr, frame->context, size, 256, nullptr};
    if (xla::Error* error = frame->api->device_memory_allocate(&asked)) return error;
    shape->arena = asked.data;
    return nullptr;
}

bool launch_all(const BatchedCall& call, const CudaPlan& code, Shape shape, void* stream, Trouble* trouble) {
    const auto threads = static_cast<unsigned>(shape.threads);
    const auto blocks = static_cast<unsigned>(shape.blocks);
    std::vector<uint8_t> block = argument_block(call);
    CudaGrid dims = cuda_grid(call.dims);
    int64_t end = call.count;
    void* record = code.record;
    void* params[] = {block.data(), &dims, &end, &record, &shape.arena, &shape.capacity};
    for (int64_t item = 0; item < call.items; ++item) {
        fill(call, item, block.data());  // the driver copies the parameters before it returns
        const CudaCode result =
            cuda_api.launch_kernel(code.function, blocks, 1, 1, threads, 1, 1, 0, stream, params, nullptr);
        if (!trouble->note("cuLaunchKernel", result)) return false;
    }
    return true;
}

// In debug mode: waits, and says what the kernel has reported.
xla::Error* check_faults(const xla::CallFrame* frame, const CudaPlan& code, void* stream, Trouble* trouble) {
    if (!trouble->note("cuStreamSynchronize", cuda_api.stream_synchronize(stream))) return told(frame, *trouble);
    const HeldGil gil;
    const Ref done(PyObject_CallNoArgs(code.check));
    return done ? nullptr : fail(frame, xla::kErrorInvalidArgument, take_exception().c_str());
}

}  // namespace

xla::Error* execute_on_cuda_stream(const xla::CallFrame* frame) {
    Site site;
    Plan* plan = nullptr;
    if (xla::Error* error = open_call(frame, &site, &plan)) return error;
    xla::StreamGetArgs asked{sizeof asked, nullptr, frame->context, nullptr};
    if (xla::Error* error = frame->api->stream_get(&asked)) return error;
    Trouble trouble;
    void* context = nullptr;
    if (!trouble.note("cuStreamGetCtx", cuda_api.stream_get_ctx(asked.stream, &context))) return told(frame, trouble);
    const ContextScope current(context, &trouble);
    if (trouble.call) return told(frame, trouble);
    if ((plan->order_dependent || plan->non_associative) && (plan->deterministic || is_deterministic()))
        return explained(frame, plan, RunError::Unordered);
    std::string text;
    BatchedCall call{};
    StreamMemory memory(asked.stream, &trouble);
    if (!describe_call(frame, site, &memory, &call)) return trouble.call ? told(frame, trouble) : misfit(frame);
    if (call.count <= 0 || call.items <= 0) return nullptr;
    const bool apart = plan->can_be_apart && are_apart(site, call);
    const CudaPlan* code = loaded(plan, context, apart);
    if (!code) code = load(plan, context, apart, &text);
    if (!code) return fail(frame, xla::kErrorInternal, text.c_str());
    std::vector<std::vector<char>> values;
    if (!fetch_values(&call, asked.stream, &values, &trouble)) return told(frame, trouble);
    Shape shape = shape_of(call, *code, site.block_dim);
    if (!code->bound.empty()) {
        if (xla::Error* error = take_arena(frame, plan, *code, call, &shape)) return error;
    }
    if (!launch_all(call, *code, shape, asked.stream, &trouble)) return told(frame, trouble);
    return code->check ? check_faults(frame, *code, asked.stream, &trouble) : nullptr;
}

}  // namespace wl
