// Arguments: from Python objects to the block of bytes that an entry point reads (warp_like/ir/layout.py).
//
// Reading arguments changes nothing. An argument that is not plainly right is refused, with a word on why,
// and Python's slow path then converts it or says what is wrong with it.
#pragma once

#include <vector>

#include "dlpack.h"
#include "python.h"
#include "scalar.h"

namespace wl {

enum class ParamKind : uint8_t { Array, Scalar, Value };

struct Param {
    ParamKind kind;
    bool writes;
    bool sums;   // only added to, with 32 or 64 bits
    bool own;    // each kernel thread touches the element at its own index alone
    bool known;  // `element` describes the type code; false for structs
    int32_t ndim;
    uint32_t type_code;
    Element element;
    DLDataType dtype;
    Ref value_class;
    Ref name;
    int64_t value_size;
    int64_t offset;  // in the argument block
};

struct Signature {
    std::vector<Param> params;
    std::vector<int> sums;       // the parameters that are only added to
    std::vector<int> exclusive;  // those, and the ones of which each kernel thread has its own element
    int64_t args_size = 0;

    // Reads the Dispatcher's parameter tuples; false with an exception set.
    bool read(PyObject* params);
};

// Why a launch was refused: always text of static storage.
struct Refusal {
    const char* reason = nullptr;
    int argument = -1;
};

// The arguments of one launch, and what must stay alive until it ends.
class Arguments {
  public:
    explicit Arguments(const Signature& signature);
    ~Arguments();
    Arguments(const Arguments&) = delete;
    Arguments& operator=(const Arguments&) = delete;

    // Packs inputs followed by outputs (lists or tuples). False with `refusal` filled in and no exception
    // set.
    bool pack(PyObject* inputs, PyObject* outputs, PyObject* device, Refusal* refusal);

    // Calls the write hooks for the foreign tensors that the kernel is to write; false with an exception set.
    bool run_write_hooks() { return written_count_ == 0 || call_hooks(); }

    const uint8_t* block() const { return block_; }
    bool contiguous() const { return contiguous_; }

  private:
    bool pack_one(const Param& param, PyObject* object, PyObject* device, const char** why);
    bool pack_array(const Param& param, PyObject* object, PyObject* device, const char** why);
    bool pack_tensor(const Param& param, PyObject* object, const TensorType* type, const char** why);
    bool pack_buffer(const Param& param, PyObject* object, const char** why);
    bool pack_numpy(const Param& param, PyObject* object, const char** why);
    bool pack_foreign(const Param& param, char* data, int ndim, const int64_t* shape, const int64_t* strides,
                      int64_t unit, const char** why);
    bool call_hooks();
    void keep(PyObject* object) {
        Py_INCREF(object);
        held_[held_count_++] = object;
    }

    const Signature& signature_;
    uint8_t* block_;
    PyObject** held_;
    PyObject** written_;  // foreign tensors with a write hook; borrowed from what `held_` keeps
    Py_buffer* buffers_;
    int held_count_ = 0;
    int written_count_ = 0;
    int buffer_count_ = 0;
    bool contiguous_ = true;
    alignas(64) uint8_t inline_[4096];
};

}  // namespace wl
