// Running a kernel inside an XLA call: over a batch of argument blocks, on the caller's thread and, where it is
// worth it, on XLA's own thread pool.
#pragma once

#include <vector>

#include "context.h"
#include "scalar.h"
#include "xla_ffi_abi.h"

namespace wl {

// A place in the argument block that differs from call to call, or from one element of the batch to the next.
struct Hole {
    int64_t offset;
    int64_t bytes;      // copied from `data`; 0 when the pointer itself is stored
    char* data;         // for the batch's first element
    int64_t sum_bytes;  // of an array that the code only adds to, and not atomically; else 0
    Scalar scalar;      // what such an array is made of
};

// One kernel launch for each element of a batch; a plain call is a batch of one without dimensions.
struct BatchedCall {
    Entry entry;
    int64_t lanes;         // how many kernel threads the entry runs at once
    int64_t rows;          // and of how many rows
    bool order_dependent;  // what it computes depends on the order in which its threads run
    bool non_associative;  // it depends on the order in which the copies of sums are added up
    bool deterministic;    // it has to give the same bits whatever the number of threads
    const int64_t* dims;
    int64_t count;  // kernel threads of one launch
    const uint8_t* block;
    size_t block_size;
    std::vector<int64_t> batch;  // extents
    int64_t items;               // their product
    std::vector<Hole> holes;
    std::vector<int64_t> steps;  // bytes by which each hole's data moves with each dimension of the batch
};

// Runs `call` to its end or to its first error, which is then in `record`.
void run_batched(const BatchedCall& call, const xla::Api* api, xla::ExecutionContext* context, RunRecord* record);

}  // namespace wl
