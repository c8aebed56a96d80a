#include "sums.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "chunks.h"
#include "thread_pool.h"

namespace wl {

namespace {

constexpr int64_t kAlwaysWorth = 1 << 20;      // bytes of copies that never matter
constexpr int64_t kBytesPerKernelThread = 16;  // beyond that: what a kernel thread's atomics would cost
constexpr int64_t kChunksPerThread = 4;    // chunks that have to be left for each OS thread where halos make them long
constexpr int64_t kSmallCopies = 1 << 16;  // bytes of copies that take less time than to wait for the halos of rows
constexpr int64_t kMaxHaloLanes = 64;      // halos are made whole vectors

struct View {
    char* data;
    int64_t bytes;  // of the contiguous array
};

View view_of(const Param& param, const uint8_t* block) {
    const int64_t* words = reinterpret_cast<const int64_t*>(block + param.offset);
    int64_t bytes = param.element.size;
    for (int i = 0; i < param.ndim; ++i) bytes *= words[1 + i];
    return {reinterpret_cast<char*>(words[0]), bytes};
}

void set_data(const Param& param, uint8_t* block, void* data) { std::memcpy(block + param.offset, &data, sizeof data); }

template <typename T>
void add(char* to, const char* from, int64_t bytes) {
    T* __restrict out = reinterpret_cast<T*>(to);
    const T* in = reinterpret_cast<const T*>(from);
    for (int64_t i = 0, n = bytes / static_cast<int64_t>(sizeof(T)); i < n; ++i) out[i] += in[i];
}

}  // namespace

void add_scalars(Scalar scalar, char* to, const char* from, int64_t bytes) {
    switch (scalar) {
        case Scalar::Float32:
            return add<float>(to, from, bytes);
        case Scalar::Float64:
            return add<double>(to, from, bytes);
        case Scalar::Int32:
        case Scalar::Uint32:
            return add<uint32_t>(to, from, bytes);
        default:
            return add<uint64_t>(to, from, bytes);
    }
}

namespace {

// Whether two arrays are one, of which a kernel thread touches the elements at its own index alone by either.
bool keeps_to_own(const Param& a, const Param& b, const uint8_t* block) {
    const bool same = a.ndim == b.ndim && a.known && b.known && a.element.size == b.element.size;
    const size_t words = static_cast<size_t>(1 + 2 * a.ndim);
    return a.own && b.own && same && !std::memcmp(block + a.offset, block + b.offset, words * sizeof(int64_t));
}

// Whether the plain variant would mistake an overlap of the array at position `at`. Additions to elements of the
// thread's own keep their place among its other accesses, so there each array may be given again.
bool overlaps_another(const Signature& signature, int at, const View& sum, const uint8_t* block) {
    const Param& param = signature.params[static_cast<size_t>(at)];
    const bool in_order = signature.place == -1 && param.thread_private && !param.apart;
    for (size_t k = 0; k < signature.params.size(); ++k) {
        const Param& other = signature.params[k];
        if (other.kind != ParamKind::Array || static_cast<int>(k) == at) continue;
        if (!other.known) return true;
        const View view = view_of(other, block);
        const bool overlaps = view.data < sum.data + sum.bytes && sum.data < view.data + view.bytes;
        if (overlaps && !(in_order && keeps_to_own(param, other, block))) return true;
    }
    return false;
}

// The most by which the numbers of two kernel threads differ that add to one element; -1 for more than fits.
int64_t reach(const Param& param, const int64_t* dims) {
    int64_t total = 0, stride = 1;
    for (int i = kMaxDims - 1; i >= 0; --i) {
        int64_t step = 0;
        if (i < param.span_count) {
            const bool is_last = i == param.span_count - 1;
            const int64_t apart = is_last && !param.shares_rows ? 1 : stride;  // it counts through what is left
            if (__builtin_mul_overflow(param.spans[i], apart, &step)) return -1;
            if (is_last && param.shares_rows && __builtin_add_overflow(step, stride - 1, &step)) return -1;
        }
        if (__builtin_add_overflow(total, step, &total) || __builtin_mul_overflow(stride, dims[i], &stride)) return -1;
    }
    return total;
}

}  // namespace

Extent extent_of(const Param& param, const uint8_t* block) {
    const int64_t* slot = reinterpret_cast<const int64_t*>(block + param.offset);
    const int64_t itemsize =
        param.known ? param.element.size : std::llabs(slot[2 * param.ndim]);  // a struct: its stride
    return extent_of(slot, param.ndim, itemsize);
}

bool shares_private_elements(const Signature& signature, const uint8_t* block) {
    for (const int i : signature.non_atomic) {
        const Param& param = signature.params[static_cast<size_t>(i)];
        if (!param.thread_private) continue;
        const Extent own = extent_of(param, block);
        for (size_t k = 0; k < signature.params.size(); ++k) {
            const Param& other = signature.params[k];
            if (other.kind != ParamKind::Array || static_cast<int>(k) == i) continue;
            if (own.overlaps(extent_of(other, block)) && !keeps_to_own(param, other, block)) return true;
        }
        const int64_t* slot = reinterpret_cast<const int64_t*>(block + param.offset);
        const int64_t itemsize = param.known ? param.element.size : 1;  // of a struct at least
        if (overlaps_itself(param.ndim, slot + 1, slot + 1 + param.ndim, itemsize)) return true;
    }
    return false;
}

SumPlan plan_sums(const Signature& signature, const uint8_t* block, const int64_t* dims, int64_t count,
                  bool deterministic) {
    SumPlan plan{true, false, 0};
    int64_t copied = 0, halo_bytes = 0;
    bool shares_rows = false;
    for (const int i : signature.apart) {
        const Param& param = signature.params[static_cast<size_t>(i)];
        const View sum = view_of(param, block);
        if (overlaps_another(signature, i, sum, block)) return {false, false, 0};
        if (!param.sums) continue;
        if (param.has_halo) {
            halo_bytes += sum.bytes;
            shares_rows = shares_rows || param.shares_rows;
            const int64_t apart = reach(param, dims);
            plan.halo = apart < 0 || plan.halo < 0 ? -1 : apart > plan.halo ? apart : plan.halo;
        } else {
            copied += sum.bytes;
            plan.copies = true;
        }
    }
    const int64_t room = deterministic ? 0 : count / (kChunksPerThread * thread_count());
    const bool small = shares_rows && halo_bytes <= kSmallCopies;
    if (plan.halo < 0 || small || plan.halo > room || 2 * (plan.halo + kMaxHaloLanes) > room) {
        plan.halo = 0;
        plan.copies = plan.copies || halo_bytes > 0;
        copied += halo_bytes;
    }
    const int64_t most = count < INT64_MAX / kBytesPerKernelThread ? count * kBytesPerKernelThread : INT64_MAX;
    const int64_t copies = deterministic ? kFixedChunks : thread_count() - 1;
    plan.fits = copied * copies <= (most > kAlwaysWorth ? most : kAlwaysWorth);
    return plan;
}

bool has_halo(const Signature& signature, const uint8_t* block, const char* data) {
    return std::any_of(signature.sums.begin(), signature.sums.end(), [&](int i) {
        const Param& param = signature.params[static_cast<size_t>(i)];
        return param.has_halo && view_of(param, block).data == data;
    });
}

std::unique_ptr<PrivateSums> PrivateSums::make(const Signature& signature, const uint8_t* block, bool with_halo) {
    const size_t size = static_cast<size_t>(signature.args_size);
    std::unique_ptr<uint8_t[]> copy(new (std::nothrow) uint8_t[size]);
    if (!copy) return nullptr;
    std::memcpy(copy.get(), block, size);
    std::unique_ptr<PrivateSums> sums(new (std::nothrow) PrivateSums(signature, std::move(copy)));
    if (!sums) return nullptr;
    for (const int i : signature.sums) {
        const Param& param = signature.params[static_cast<size_t>(i)];
        const View sum = view_of(param, block);
        if ((param.has_halo && !with_halo) || !sum.bytes) continue;
        void* memory = std::calloc(static_cast<size_t>(sum.bytes), 1);
        if (!memory) return nullptr;
        set_data(param, sums->block_.get(), memory);
        sums->copied_.push_back(i);
    }
    return sums;
}

PrivateSums::~PrivateSums() {
    for (const int i : copied_) std::free(view_of(signature_.params[static_cast<size_t>(i)], block_.get()).data);
}

void PrivateSums::clear() {
    for (const int i : copied_) {
        const View view = view_of(signature_.params[static_cast<size_t>(i)], block_.get());
        std::memset(view.data, 0, static_cast<size_t>(view.bytes));
    }
}

void PrivateSums::add_to(const uint8_t* block) const {
    for (const int i : copied_) {
        const Param& param = signature_.params[static_cast<size_t>(i)];
        const View to = view_of(param, block);
        add_scalars(param.element.scalar, to.data, view_of(param, block_.get()).data, to.bytes);
    }
}

}  // namespace wl
