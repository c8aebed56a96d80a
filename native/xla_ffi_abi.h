// XLA's foreign function interface: the part of its C API (0.3) that the handler uses, declared here so that
// building needs no JAX. tests/interop/jaxffi checks each offset against the header that JAX ships.
//
// XLA keeps this ABI stable within a major version and says so in answer to the metadata query.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wl::xla {

constexpr int kApiMajor = 0;
constexpr int kApiMinor = 3;

constexpr int kMetadataExtension = 1;
constexpr int kStageExecute = 3;
constexpr int kBufferArgument = 1;
constexpr int kArrayAttribute = 1;
constexpr int kScalarAttribute = 3;
constexpr int kTypeS64 = 5;
constexpr int kErrorInvalidArgument = 3;
constexpr int kErrorDeadlineExceeded = 4;
constexpr int kErrorResourceExhausted = 8;
constexpr int kErrorInternal = 13;

struct Extension {
    size_t struct_size;
    int type;
    Extension* next;
};

struct ApiVersion {
    size_t struct_size;
    Extension* extension_start;
    int major_version;
    int minor_version;
};

struct Metadata {
    size_t struct_size;
    ApiVersion api_version;
    uint32_t traits;
    int64_t state_type_id;
};

struct MetadataExtension {
    Extension base;
    Metadata* metadata;
};

struct Error;             // XLA's
struct ExecutionContext;  // XLA's

struct ErrorCreateArgs {
    size_t struct_size;
    Extension* extension_start;
    const char* message;
    int code;
};

struct ErrorDestroyArgs {
    size_t struct_size;
    Extension* extension_start;
    Error* error;
};

struct ScheduleArgs {
    size_t struct_size;
    Extension* extension_start;
    ExecutionContext* context;
    void (*task)(void* data);
    void* data;
};

struct NumThreadsArgs {
    size_t struct_size;
    Extension* extension_start;
    ExecutionContext* context;
    int64_t* num_threads;
};

struct StreamGetArgs {
    size_t struct_size;
    Extension* extension_start;
    ExecutionContext* context;
    void* stream;
};

struct AllocateArgs {
    size_t struct_size;
    Extension* extension_start;
    ExecutionContext* context;
    size_t size;
    size_t alignment;
    void* data;
};

struct Api {
    size_t struct_size;
    Extension* extension_start;
    ApiVersion api_version;
    const void* internal_api;
    Error* (*error_create)(ErrorCreateArgs*);
    void* error_get_message;
    void (*error_destroy)(ErrorDestroyArgs*);
    void* handler_register;
    Error* (*stream_get)(StreamGetArgs*);
    void* type_register;
    void* execution_context_get;
    void* state_set;
    void* state_get;
    Error* (*device_memory_allocate)(AllocateArgs*);
    void* device_memory_free;
    Error* (*schedule)(ScheduleArgs*);
    Error* (*num_threads)(NumThreadsArgs*);
};

struct Buffer {
    size_t struct_size;
    Extension* extension_start;
    int dtype;
    void* data;
    int64_t rank;
    int64_t* dims;
};

struct Span {
    const char* text;
    size_t length;
};

struct ScalarAttribute {
    int dtype;
    void* value;
};

struct ArrayAttribute {
    int dtype;
    size_t size;
    void* data;
};

// Arguments or results.
struct Values {
    size_t struct_size;
    Extension* extension_start;
    int64_t size;
    int* types;
    void** values;
};

struct Attributes {
    size_t struct_size;
    Extension* extension_start;
    int64_t size;
    int* types;
    Span** names;
    void** values;
};

struct CallFrame {
    size_t struct_size;
    Extension* extension_start;
    const Api* api;
    ExecutionContext* context;
    int stage;
    Values args;
    Values rets;
    Attributes attrs;
};

}  // namespace wl::xla
