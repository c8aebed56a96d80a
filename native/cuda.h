// CUDA: the driver's functions that native code calls, the context of a device, streams, and memory that knows which
// stream used it last. The functions come from Python by address (runtime/cuda/driver.py), so that tests can give
// others.
#pragma once

#include "python.h"

namespace wl {

using CudaCode = int;  // a CUresult: 0 is success

struct CudaApi {
    CudaCode (*ctx_get_current)(void** context);
    CudaCode (*ctx_push)(void* context);
    CudaCode (*ctx_pop)(void** context);
    CudaCode (*launch_kernel)(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                              unsigned bz, unsigned shared, void* stream, void** params, void** extra);
    CudaCode (*mem_free_async)(uint64_t ptr, void* stream);
    CudaCode (*mem_free)(uint64_t ptr);
    CudaCode (*mem_free_host)(void* ptr);
    CudaCode (*stream_synchronize)(void* stream);
    CudaCode (*event_create)(void** event, unsigned flags);
    CudaCode (*event_record)(void* event, void* stream);
    CudaCode (*stream_wait_event)(void* stream, void* event, unsigned flags);
    CudaCode (*stream_get_ctx)(void* stream, void** context);
    CudaCode (*memset_d8)(uint64_t to, unsigned char value, size_t count, void* stream);
    CudaCode (*copy_on_device)(uint64_t to, uint64_t from, size_t nbytes, void* stream);
    CudaCode (*copy_to_host)(void* to, uint64_t from, size_t nbytes, void* stream);
    CudaCode (*stream_is_capturing)(void* stream, int* status);
    CudaCode (*graph_launch)(void* graph, void* stream);
};

extern CudaApi cuda_api;

// The base of `wp.Stream`.
struct CudaStream {
    PyObject_HEAD void* handle;
    PyObject* context;  // the DriverContext that it belongs to
    char foreign;       // another library's, which orders its work by rules of its own
    char blocking;      // the driver orders it with the legacy default stream
    char branch;        // captures what a node of a graph runs, which comes after what the graph has so far
};

// A device's context. One exists for each `CudaDevice`.
struct DriverContext {
    PyObject_HEAD void* handle;
    int32_t ordinal;
    PyObject* stream;    // the device's current CudaStream, or null
    char stream_chosen;  // the user chose it, so it goes before those of other libraries
    char only;           // there is no other CUDA device, so "cuda" means this one
    void* event;         // for letting streams wait, made when first needed
    PyObject* captured;  // a list of what launches use while a capture runs on the device, else null
    void* released;      // what nobody uses any more and is given back when the capture has ended
};

// A stream and who keeps it: what memory was used on.
struct CudaUse {
    void* stream = nullptr;
    PyObject* holder = nullptr;  // a CudaStream, or null for a stream of another library
    bool foreign = true;
    bool blocking = true;

    static CudaUse of(CudaStream* stream) {
        return {stream->handle, reinterpret_cast<PyObject*>(stream), stream->foreign != 0, stream->blocking != 0};
    }
    // A stream that another library names by its handle alone; 0 and 1 are the legacy default stream.
    static CudaUse of_handle(void* stream) { return {stream, nullptr, true, reinterpret_cast<uintptr_t>(stream) <= 1}; }
};

extern PyTypeObject CudaStreamType;
extern PyTypeObject DriverContextType;

// Makes a context current for as long as it lives; what was current before is so again afterwards.
class CudaGuard {
  public:
    explicit CudaGuard(const DriverContext* context);
    ~CudaGuard();
    CudaGuard(const CudaGuard&) = delete;
    CudaGuard& operator=(const CudaGuard&) = delete;
    CudaCode code() const { return code_; }

  private:
    bool pushed_ = false;
    CudaCode code_ = 0;
};

// Sets the exception for error `code` of the driver's function `call`, and returns false.
bool raise_cuda_error(const char* call, CudaCode code);

// Whether `owner`, as an array has it, is memory that knows which stream used it last.
bool is_cuda_memory(PyObject* owner);

// Notes that `owner` is about to be used by `use`, in whose context the caller is. Where the last use was on another
// stream and one of the two is another library's, lets the stream wait for it. Memory that several streams have used is
// given back when all of them are done with it. False with an exception set.
bool use_cuda_memory(DriverContext* context, PyObject* owner, const CudaUse& use);

// Before and after a launch on `use` that uses memory of another device's context: the launch waits for what used the
// memory last, and whoever uses it next on its own device waits for the launch. In a capture, only what was before it
// is waited for. False with an exception set.
bool wait_for_peer_memory(DriverContext* context, PyObject* owner, const CudaUse& use);
bool wait_for_use_of_peer(DriverContext* context, PyObject* owner, const CudaUse& use);

// Whether `owner` is memory of another context.
bool is_peer_memory(const DriverContext* context, PyObject* owner);

// Notes that a capture, if one runs on the device, needs `object` for as long as its graph lives; of a tensor, the
// memory that it has now, which each launch of the graph looks for.
bool keep_for_capture(const DriverContext* context, PyObject* object);

// The stream on which the library whose tensors are of `type` works now; false where there is none.
bool framework_stream(PyTypeObject* type, int32_t ordinal, void** stream);

bool register_cuda(PyObject* module);

}  // namespace wl
