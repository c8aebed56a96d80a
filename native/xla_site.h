// What a call in an XLA program says, and the compiled code that it refers to: what the handlers of all platforms
// share.
//
// A call site carries attributes, made when JAX traces it (warp_like/interop/jaxffi/call.py):
//   plan    the key of the compiled entry point, a hash of what it was compiled from
//   dims    the extents of the grid, kMaxDims of them
//   block   the argument block as 64-bit words: all that is known then, with holes for pointers and scalars
//   binds   kBindWords words for each hole: what fills it
// and where the caller says it, `block_dim`, for CUDA the threads of a block.
// Operands and results may have more leading dimensions than their binding says. Those are of a batch: equal
// in all results, and equal to that or 1 in operands. The kernel runs once for each element of the batch.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "context.h"
#include "python.h"
#include "stack_bound.h"
#include "xla_ffi_abi.h"
#include "xla_run.h"

namespace wl {

// A plan's code in the context of a CUDA device.
struct CudaPlan {
    void* context;
    bool apart;  // for calls whose arrays are apart, as those of `Signature.sums`
    CudaPlan* next;
    void* function;
    int64_t block_dim;    // the threads of a block where a call does not say
    int64_t max_threads;  // the most that a block can have
    void* record;         // where it reports faults, or null
    PyObject* keepalive;
    PyObject* check;               // to be called once the stream has been waited for, or null
    std::vector<BoundStep> bound;  // tells the bytes of stack of a thread; empty for code without a stack
    int64_t resident;              // the most threads that are worth launching; 0: as many as the grid has
    int64_t team;                  // how many threads, a whole block, run a place of the grid together
    int64_t places;                // how many neighbouring places of the grid a thread takes
};

// Compiled code by key.
struct Plan {
    int64_t key;
    Plan* next;
    Entry entry;
    int lanes;             // how many threads it runs at once
    int rows;              // and of how many rows
    bool order_dependent;  // what it computes depends on the order in which its threads run
    bool non_associative;  // it depends on the order in which the copies of sums are added up
    bool deterministic;    // it has to give the same bits whatever the number of threads
    PyObject* keepalive;
    PyObject* explain;
    PyObject* load;     // load(context, apart): what a CudaPlan holds, for the context of a CUDA device
    bool can_be_apart;  // there is other code on CUDA for calls whose arrays are apart
    std::atomic<CudaPlan*> on_cuda;
};

// Calls look plans up without a lock: plans are only ever added, by threads that hold the GIL, and stay, since
// XLA does not say when the last executable that refers to one is gone.
Plan* find_plan(int64_t key);
void insert_plan(Plan* plan);

constexpr size_t kBindWords = sizeof(Binding) / sizeof(int64_t);

struct Site {
    int64_t plan = 0;
    const int64_t* dims = nullptr;
    const uint8_t* block = nullptr;
    size_t block_size = 0;
    const Binding* binds = nullptr;
    size_t bind_count = 0;
    int64_t block_dim = 0;  // for CUDA, the threads of a block; 0: what the kernel's options say
};

// Where the buffers of a call lie.
class XlaMemory {
  public:
    virtual ~XlaMemory() = default;
    virtual bool clear(void* at, int64_t nbytes) = 0;
    virtual bool copy(void* to, const void* from, int64_t nbytes) = 0;
};

xla::Error* fail(const xla::CallFrame* frame, int code, const char* message);

// Reads what the call says and finds its plan; an error that XLA is to be given otherwise.
xla::Error* open_call(const xla::CallFrame* frame, Site* site, Plan** plan);

// How many bytes from the start of a batched buffer an element of the batch lies.
int64_t offset_of(int64_t item, const std::vector<int64_t>& batch, const int64_t* steps);

// Describes the launches of a call, and gives its results what they hold before them. False where `memory` fails, or
// the buffers are not those that the call was traced with, which `misfit` says.
bool describe_call(const xla::CallFrame* frame, const Site& site, XlaMemory* memory, BatchedCall* call);
xla::Error* misfit(const xla::CallFrame* frame);

// The words of the exception that is set, which is then cleared. Needs the GIL.
std::string take_exception();

}  // namespace wl
