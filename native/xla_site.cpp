#include "xla_site.h"

#include <cstring>

#include "scalar.h"

namespace wl {

namespace {

constexpr size_t kBuckets = 1024;
std::atomic<Plan*> buckets[kBuckets];

std::atomic<Plan*>& bucket_of(int64_t key) { return buckets[static_cast<uint64_t>(key) % kBuckets]; }

}  // namespace

Plan* find_plan(int64_t key) {
    Plan* plan = bucket_of(key).load(std::memory_order_acquire);
    while (plan && plan->key != key) plan = plan->next;
    return plan;
}

void insert_plan(Plan* plan) {
    std::atomic<Plan*>& head = bucket_of(plan->key);
    plan->next = head.load(std::memory_order_relaxed);
    head.store(plan, std::memory_order_release);
}

xla::Error* fail(const xla::CallFrame* frame, int code, const char* message) {
    xla::ErrorCreateArgs args{sizeof args, nullptr, message, code};
    return frame->api->error_create(&args);
}

xla::Error* misfit(const xla::CallFrame* frame) {
    return fail(frame, xla::kErrorInternal,
                "warp_like: the buffers of a kernel's call are not those it was traced with");
}

std::string take_exception() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    const Ref kept_type(type), kept_value(value), kept_traceback(traceback);
    if (!value) return "an error without an exception";
    const Ref words(PyObject_Str(value));
    const char* utf8 = words ? PyUnicode_AsUTF8(words.get()) : nullptr;
    const std::string text = std::string(Py_TYPE(value)->tp_name) + ": " + (utf8 ? utf8 : "");
    forget_error();
    return text;
}

int64_t offset_of(int64_t item, const std::vector<int64_t>& batch, const int64_t* steps) {
    int64_t offset = 0;
    for (size_t d = batch.size(); d-- > 0; item /= batch[d]) offset += item % batch[d] * steps[d];
    return offset;
}

namespace {

bool named(const xla::Span* name, const char* text) {
    return name->length == std::strlen(text) && std::memcmp(name->text, text, name->length) == 0;
}

bool read_words(const xla::Attributes& attrs, int64_t i, const int64_t** words, size_t* count) {
    const auto* array = static_cast<const xla::ArrayAttribute*>(attrs.values[i]);
    if (attrs.types[i] != xla::kArrayAttribute || array->dtype != xla::kTypeS64) return false;
    *words = static_cast<const int64_t*>(array->data);
    *count = array->size;
    return true;
}

bool read_number(const xla::Attributes& attrs, int64_t i, int64_t* number) {
    const auto* scalar = static_cast<const xla::ScalarAttribute*>(attrs.values[i]);
    if (attrs.types[i] != xla::kScalarAttribute || scalar->dtype != xla::kTypeS64) return false;
    std::memcpy(number, scalar->value, sizeof *number);
    return true;
}

bool read_site(const xla::Attributes& attrs, Site* site) {
    const int64_t* words = nullptr;
    size_t count = 0;
    int found = 0;
    for (int64_t i = 0; i < attrs.size; ++i) {
        if (named(attrs.names[i], "plan")) {
            if (!read_number(attrs, i, &site->plan)) return false;
        } else if (named(attrs.names[i], "block_dim")) {
            if (!read_number(attrs, i, &site->block_dim) || site->block_dim < 0) return false;
            continue;
        } else if (named(attrs.names[i], "dims")) {
            if (!read_words(attrs, i, &site->dims, &count) || count != kMaxDims) return false;
        } else if (named(attrs.names[i], "block")) {
            if (!read_words(attrs, i, &words, &count)) return false;
            site->block = reinterpret_cast<const uint8_t*>(words);
            site->block_size = count * sizeof(int64_t);
        } else if (named(attrs.names[i], "binds")) {
            if (!read_words(attrs, i, &words, &count) || count % kBindWords) return false;
            site->binds = reinterpret_cast<const Binding*>(words);
            site->bind_count = count / kBindWords;
        } else {
            continue;
        }
        ++found;
    }
    return found == 4;
}

const xla::Buffer* buffer_of(const xla::Values& values, int64_t index) {
    if (index < 0 || index >= values.size || values.types[index] != xla::kBufferArgument) return nullptr;
    return static_cast<const xla::Buffer*>(values.values[index]);
}

// How far `buffer` moves with each dimension of the batch; false when it does not fit the batch. Operands
// without some of the batch's dimensions stay where they are along them.
bool batch_steps(const xla::Buffer* buffer, int64_t rank, int64_t bytes, const std::vector<int64_t>& batch,
                 int64_t* steps) {
    const auto n = static_cast<int64_t>(batch.size());
    if (buffer->rank != rank + n) return false;
    int64_t step = bytes;
    for (int64_t d = n - 1; d >= 0; --d) {
        const int64_t extent = buffer->dims[d];
        if (extent != 1 && extent != batch[static_cast<size_t>(d)]) return false;
        steps[d] = extent == 1 ? 0 : step;
        step *= extent;
    }
    return true;
}

// Gives a result the contents of an operand, which XLA has let it share memory with where it could.
bool copy_operand(const xla::CallFrame* frame, const Binding& bind, const xla::Buffer* result, XlaMemory* memory,
                  const BatchedCall& call) {
    const xla::Buffer* operand = buffer_of(frame->args, bind.init);
    std::vector<int64_t> steps(call.batch.size());
    if (!operand || !batch_steps(operand, bind.rank, bind.bytes, call.batch, steps.data())) return false;
    if (operand->data == result->data) return true;
    for (int64_t item = 0; item < call.items; ++item) {
        char* to = static_cast<char*>(result->data) + item * bind.bytes;
        const char* from = static_cast<const char*>(operand->data) + offset_of(item, call.batch, steps.data());
        if (!memory->copy(to, from, bind.bytes)) return false;
    }
    return true;
}

// Reads the batch's extents off the first result that is bound.
bool read_batch(const xla::CallFrame* frame, const Site& site, std::vector<int64_t>* batch, int64_t* items) {
    *items = 1;
    for (size_t i = 0; i < site.bind_count; ++i) {
        const Binding& bind = site.binds[i];
        if (bind.source != HoleSource::Result) continue;
        const xla::Buffer* buffer = buffer_of(frame->rets, bind.index);
        if (!buffer || buffer->rank < bind.rank) return false;
        batch->assign(buffer->dims, buffer->dims + (buffer->rank - bind.rank));
        for (const int64_t extent : *batch) {
            if (__builtin_mul_overflow(*items, extent, items)) return false;
        }
        return true;
    }
    return false;
}

// Fills the holes for one call: initialises results, and notes where each buffer starts and how it moves.
bool bind_buffers(const xla::CallFrame* frame, const Site& site, XlaMemory* memory, BatchedCall* call) {
    call->holes.resize(site.bind_count);
    call->steps.resize(site.bind_count * call->batch.size());
    for (size_t i = 0; i < site.bind_count; ++i) {
        const Binding& bind = site.binds[i];
        const xla::Buffer* buffer =
            buffer_of(bind.source == HoleSource::Result ? frame->rets : frame->args, bind.index);
        const int64_t needed = bind.kind == HoleKind::Value ? bind.bytes : int64_t{sizeof(void*)};
        if (!buffer || bind.bytes < 0 || bind.offset < 0 || bind.shift < 0 || bind.shift > bind.bytes ||
            static_cast<size_t>(bind.offset + needed) > site.block_size || bind.sum < 0 || bind.sum > kScalarCount) {
            return false;
        }
        int64_t* steps = call->steps.data() + i * call->batch.size();
        if (!batch_steps(buffer, bind.rank, bind.bytes, call->batch, steps)) return false;
        const Scalar scalar = bind.sum ? static_cast<Scalar>(bind.sum - 1) : Scalar::Bool;
        char* data = static_cast<char*>(buffer->data) + bind.shift;
        call->holes[i] = {bind.offset, bind.kind == HoleKind::Value ? bind.bytes : 0, data, bind.sum ? bind.bytes : 0,
                          scalar};
        if (bind.source != HoleSource::Result) continue;
        if (bind.init == HoleStart::Zeroed) {
            if (!memory->clear(buffer->data, bind.bytes * call->items)) return false;
        } else if (bind.init >= 0 && !copy_operand(frame, bind, buffer, memory, *call)) {
            return false;
        }
    }
    return true;
}

}  // namespace

xla::Error* open_call(const xla::CallFrame* frame, Site* site, Plan** plan) {
    if (!read_site(frame->attrs, site)) {
        return fail(frame, xla::kErrorInvalidArgument, "warp_like: the attributes of a kernel's call are damaged");
    }
    *plan = find_plan(site->plan);
    if (*plan) return nullptr;
    return fail(frame, xla::kErrorInvalidArgument,
                "warp_like: this program calls a kernel that this process has not compiled; trace the "
                "function once in this process, so that its kernels are known, before running an exported one");
}

bool describe_call(const xla::CallFrame* frame, const Site& site, XlaMemory* memory, BatchedCall* call) {
    if (!read_batch(frame, site, &call->batch, &call->items)) return false;
    call->dims = site.dims;
    call->count = 1;
    for (int i = 0; i < kMaxDims; ++i) call->count *= site.dims[i];
    call->block = site.block;
    call->block_size = site.block_size;
    return bind_buffers(frame, site, memory, call);
}

}  // namespace wl
