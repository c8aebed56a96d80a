// The binary interface of DLPack 1.3, as its public specification lays it out: structs, names and flags only.
#pragma once

#include <cstdint>

constexpr int32_t kDLCPU = 1;
constexpr int32_t kDLCUDA = 2;

enum : uint8_t {
    kDLInt = 0,
    kDLUInt = 1,
    kDLFloat = 2,
    kDLOpaqueHandle = 3,
    kDLBfloat = 4,
    kDLComplex = 5,
    kDLBool = 6,
};

constexpr uint32_t kDLPackMajor = 1;
constexpr uint32_t kDLPackMinor = 1;  // what exported tensors need; nothing newer is used in them
constexpr uint64_t kDLReadOnly = 1u << 0;
constexpr uint64_t kDLIsCopied = 1u << 1;

struct DLPackVersion {
    uint32_t major;
    uint32_t minor;
};

struct DLDevice {
    int32_t device_type;
    int32_t device_id;
};

struct DLDataType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};

struct DLTensor {
    void* data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t* shape;
    int64_t* strides;  // in elements; may be null (contiguous) before version 1.2
    uint64_t byte_offset;
};

struct DLManagedTensor {
    DLTensor dl_tensor;
    void* manager_ctx;
    void (*deleter)(DLManagedTensor* self);
};

struct DLManagedTensorVersioned {
    DLPackVersion version;
    void* manager_ctx;
    void (*deleter)(DLManagedTensorVersioned* self);
    uint64_t flags;
    DLTensor dl_tensor;
};

// The C exchange API: the capsule `type(tensor).__dlpack_c_exchange_api__`, named "dlpack_exchange_api".
struct DLPackExchangeAPIHeader {
    DLPackVersion version;
    DLPackExchangeAPIHeader* prev_api;
};

struct DLPackExchangeAPI {
    DLPackExchangeAPIHeader header;
    int (*managed_tensor_allocator)(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_ctx,
                                    void (*set_error)(void* error_ctx, const char* kind, const char* message));
    int (*managed_tensor_from_py_object_no_sync)(void* py_object, DLManagedTensorVersioned** out);
    int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned* tensor, void** out_py_object);
    int (*dltensor_from_py_object_no_sync)(void* py_object, DLTensor* out);  // may be null
    int (*current_work_stream)(int32_t device_type, int32_t device_id, void** out_current_stream);
};
