#include "fingerprint.h"

#include <algorithm>
#include <cstring>

#include "dlpack_abi.h"
#include "tensor_memory.h"

namespace wl {

namespace {

constexpr int64_t kQuickBytes = 4096;  // as many are hashed of a large array
constexpr int64_t kPiece = 64;         // in pieces of so many, or of an element

// Hashes bytes with products of 64 by 64 bits, whose halves are joined (as wyhash does): four chains, which the
// processor follows side by side.
class Hash {
  public:
    void add(const char* bytes, int64_t count) {
        for (; count >= kPiece; bytes += kPiece, count -= kPiece) {
            for (int k = 0; k < 4; ++k) chains_[k] = mix(word(bytes + 16 * k) ^ chains_[k], word(bytes + 16 * k + 8));
        }
        char rest[kPiece] = {};
        if (count == 0) return;
        std::memcpy(rest, bytes, static_cast<size_t>(count));
        rest[kPiece - 1] = static_cast<char>(count);
        add(rest, kPiece);
    }

    uint64_t value() const { return mix(mix(chains_[0], chains_[1]) ^ chains_[2], chains_[3]); }

  private:
    static uint64_t word(const char* bytes) {
        uint64_t value;
        std::memcpy(&value, bytes, sizeof value);
        return value;
    }

    static uint64_t mix(uint64_t a, uint64_t b) {
        __extension__ using Product = unsigned __int128;
        const Product product = static_cast<Product>(a ^ 0xa0761d6478bd642fu) * (b ^ 0xe7037ed1a0b428dbu);
        return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    }

    uint64_t chains_[4] = {0x8ebc6af09c88c6e3u, 0x589965cc75374cc3u, 0x1d8e4e27c47d124fu, 0xeb44accab455d165u};
};

const char* element_at(const Array* array, int64_t index) {
    const char* at = array->data;
    for (int d = array->ndim; d-- > 0;) {
        at += index % array->shape[d] * array->strides[d];
        index /= array->shape[d];
    }
    return at;
}

// Of at most `most` bytes, or a little more, that lie evenly over the array, its first and last ones included.
uint64_t hash_of(const Array* array, int64_t most) {
    Hash hash;
    if (!has_memory(array)) return 0;  // changed, whatever it was
    const int64_t bytes = array->size * array->itemsize;
    if (array->contiguous && bytes <= most) {
        hash.add(array->data, bytes);
    } else if (array->contiguous) {
        const int64_t pieces = most / kPiece;
        for (int64_t k = 0; k < pieces; ++k) hash.add(array->data + (bytes - kPiece) / (pieces - 1) * k, kPiece);
        hash.add(array->data + bytes - kPiece, kPiece);
    } else {
        const int64_t count = bytes <= most ? array->size : std::max<int64_t>(most / array->itemsize, 2);
        for (int64_t k = 0; k < count; ++k) {
            const double share = count > 1 ? static_cast<double>(k) / static_cast<double>(count - 1) : 0.0;
            const int64_t index =
                bytes <= most ? k : static_cast<int64_t>(share * static_cast<double>(array->size - 1));
            hash.add(element_at(array, std::min(index, array->size - 1)), array->itemsize);
        }
    }
    return hash.value();
}

PyObject* python_fingerprint(PyObject*, PyObject* object) {
    if (!is_array(object) || reinterpret_cast<Array*>(object)->device_type != kDLCPU) {
        return PyErr_Format(PyExc_TypeError, "fingerprint() takes an array on the CPU, got %R", object);
    }
    const Array* array = reinterpret_cast<Array*>(object);
    return require_memory(array) ? PyLong_FromUnsignedLongLong(fingerprint(array)) : nullptr;
}

PyMethodDef functions[] = {
    {"fingerprint", python_fingerprint, METH_O,
     "fingerprint($module, array, /)\n--\n\nReturn a hash of what an array on the CPU holds."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

uint64_t fingerprint(const Array* array) { return hash_of(array, INT64_MAX); }

uint64_t quick_fingerprint(const Array* array) { return hash_of(array, kQuickBytes); }

bool register_fingerprint(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
