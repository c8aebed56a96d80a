// Arguments: from Python objects to the block of bytes that an entry point reads (warp_like/ir/layout.py).
//
// Reading arguments changes nothing. An argument that is not plainly right is refused, with a word on why,
// and Python's slow path then converts it or says what is wrong with it.
#pragma once

#include <vector>

#include "dlpack.h"
#include "operands.h"
#include "python.h"
#include "scalar.h"

namespace wl {

struct Param {
    ParamKind kind;
    bool writes;
    bool sums;                // only added to, with 32 or 64 bits
    bool thread_private;      // no two kernel threads touch one element
    bool stores;              // overwritten, not only updated
    bool reads;               // loaded from
    bool gradient;            // elements that have gradients
    bool optional;            // an array that may be None
    bool known;               // `element` describes the type code; false for structs
    bool own;                 // each kernel thread touches the elements at its own index alone
    bool takes;               // each element is taken by one kernel thread, plainly where the launch is alone
    bool apart;               // plain code has read other arrays ahead when it writes there
    int object_kind;          // an id: the kind of object that it refers to (`ObjectKind`); else 0
    bool has_halo;            // a sum whose additions are all near the thread's own index; `spans` says how near
    int32_t spans[kMaxDims];  // along each axis, the distance between the least and the greatest offset
    int32_t span_count;       // the axes that have one
    int32_t ahead;            // of an array of one dimension that has a halo, the greatest offset
    bool shares_rows;         // threads of the same indices along these axes may add anywhere; there are further axes
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
    std::vector<int> sums;           // the parameters that are only added to
    std::vector<int> non_atomic;     // those, and the ones of which each kernel thread has its own element
    std::vector<int> apart;          // those that plain code needs to overlap no other argument: these, and more
    std::vector<int> taken;          // those that the kernel takes elements of
    std::vector<Declared> declared;  // as the user wrote them; empty where that is the same
    int64_t args_size = 0;
    int place = -1;  // where arrays have to lie: on the CPU (-1), a CUDA device (its number), or another kind's (less)

    // Whether memory that DLPack places there is where arrays have to lie.
    bool is_place(int32_t device_type, int32_t device_id) const {
        return place == -1 ? device_type == kDLCPU : device_type == kDLCUDA && device_id == place;
    }

    // Reads the Dispatcher's parameter tuples; false with an exception set.
    bool read(PyObject* params);

    // Reads (struct class or None, number of parameters) for each declared parameter; false with an exception set.
    bool read_declared(PyObject* items);
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

    // Packs `operands`, which must outlive this. False with `refusal` filled in and no exception set.
    bool pack(const Operands& operands, PyObject* device, Refusal* refusal);

    // Takes vectors, matrices and the like as they are now; `operands` are what was packed.
    void refresh_values(const Operands& operands);

    // Calls the write hooks for the foreign tensors that the kernel is to write; false with an exception set.
    bool run_write_hooks() const;

    const uint8_t* block() const { return block_; }
    const Signature& signature() const { return signature_; }

    // On CUDA, what owns the arrays' memory: Buffers, tensors, arrays over tensors and others; borrowed.
    PyObject* const* owners() const { return owners_; }
    int owner_count() const { return owner_count_; }

    uint8_t* slot(size_t param) { return block_ + signature_.params[param].offset; }
    bool contiguous() const { return contiguous_; }

  private:
    bool pack_one(const Param& param, PyObject* object, PyObject* device, const char** why);
    bool refers(const Param& param, const uint8_t* packed, const char** why) const;
    bool pack_array(const Param& param, PyObject* object, PyObject* device, const char** why);
    bool pack_shared(const Param& param, PyObject* object, const char** why);
    bool pack_tensor(const Param& param, PyObject* object, const TensorType* type, const char** why);
    bool pack_capsule(const Param& param, PyObject* object, const char** why);
    bool pack_buffer(const Param& param, PyObject* object, const char** why);
    bool pack_numpy(const Param& param, PyObject* object, const char** why);
    bool pack_foreign(const Param& param, char* data, int ndim, const int64_t* shape, const int64_t* strides,
                      int64_t unit, const char** why);

    const Signature& signature_;
    uint8_t* block_;
    PyObject** written_;  // foreign tensors with a write hook, and memory of ours that may be watched; borrowed
    Py_buffer* buffers_;
    std::vector<Ref> capsules_;  // they keep the memory of objects that speak DLPack
    PyObject** owners_;
    int written_count_ = 0;
    int owner_count_ = 0;
    int buffer_count_ = 0;
    bool contiguous_ = true;
    alignas(64) uint8_t inline_[4096];
};

}  // namespace wl
