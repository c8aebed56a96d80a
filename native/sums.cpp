#include "sums.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "thread_pool.h"

namespace wl {

namespace {

constexpr int64_t kAlwaysWorth = 1 << 20;     // bytes of copies that never matter
constexpr int64_t kBytesPerKernelThread = 16;  // beyond that: what a kernel thread's atomics would cost

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

void set_data(const Param& param, uint8_t* block, void* data) {
    std::memcpy(block + param.offset, &data, sizeof data);
}

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
        case Scalar::UInt32:
            return add<uint32_t>(to, from, bytes);
        default:
            return add<uint64_t>(to, from, bytes);
    }
}

bool sums_fit(const Signature& signature, const uint8_t* block, int64_t count) {
    int64_t copied = 0;
    for (const int i : signature.exclusive) {
        const View sum = view_of(signature.params[static_cast<size_t>(i)], block);
        if (signature.params[static_cast<size_t>(i)].sums) copied += sum.bytes;
        for (size_t k = 0; k < signature.params.size(); ++k) {
            const Param& other = signature.params[k];
            if (other.kind != ParamKind::Array || static_cast<int>(k) == i) continue;
            if (!other.known) return false;
            const View view = view_of(other, block);
            if (view.data < sum.data + sum.bytes && sum.data < view.data + view.bytes) return false;
        }
    }
    const int64_t most = count < INT64_MAX / kBytesPerKernelThread ? count * kBytesPerKernelThread : INT64_MAX;
    return copied * (thread_count() - 1) <= (most > kAlwaysWorth ? most : kAlwaysWorth);
}

std::unique_ptr<PrivateSums> PrivateSums::make(const Signature& signature, const uint8_t* block) {
    const size_t size = static_cast<size_t>(signature.args_size);
    std::unique_ptr<uint8_t[]> copy(new (std::nothrow) uint8_t[size]);
    if (!copy) return nullptr;
    std::memcpy(copy.get(), block, size);
    std::unique_ptr<PrivateSums> sums(new (std::nothrow) PrivateSums(signature, std::move(copy)));
    if (!sums) return nullptr;
    for (const int i : signature.sums) {
        const Param& param = signature.params[static_cast<size_t>(i)];
        void* memory = std::calloc(static_cast<size_t>(view_of(param, block).bytes) + 1, 1);
        if (!memory) return nullptr;
        set_data(param, sums->block_.get(), memory);
        ++sums->allocated_;
    }
    return sums;
}

PrivateSums::~PrivateSums() {
    for (size_t k = 0; k < allocated_; ++k) {
        std::free(view_of(signature_.params[static_cast<size_t>(signature_.sums[k])], block_.get()).data);
    }
}

void PrivateSums::add_to(const uint8_t* block) const {
    for (const int i : signature_.sums) {
        const Param& param = signature_.params[static_cast<size_t>(i)];
        const View to = view_of(param, block);
        add_scalars(param.element.scalar, to.data, view_of(param, block_.get()).data, to.bytes);
    }
}

}  // namespace wl
