// Dispatcher: launches one kernel. It holds the kernel's compiled variants and the signature by which
// arguments are packed; Python's slow path is entered only when it declines.
#pragma once

#include <vector>

#include "args.h"
#include "context.h"
#include "python.h"
#include "reach.h"

namespace wl {

class Zeroing;

constexpr double kUnknownNs = 1e30;

struct Variant {
    Entry entry;
    PyObject* keepalive;
    double first_ns;              // what the first thread of the last launch took, or kUnknownNs
    bool sums;                    // adds to arrays without atomics
    int lanes;                    // how many threads it runs at once
    int rows;                     // and of how many rows; on CUDA, how many places of the grid a thread takes
    int max_threads;              // on CUDA, the most that a block of it can have
    void* context;                // on CUDA, the address of its CudaContext, or null
    std::vector<Reach>* reaches;  // of every launch into its arrays; null: none
    int64_t resident;             // on CUDA, the most threads that are launched; 0: any number
    bool takes;                   // takes elements of the arrays in `Signature::taken`, and of no others
};

constexpr int kVariants = 8;

// A kernel's compiled adjoint for one choice of the parameters that have gradients.
struct Adjoint {
    uint64_t wrt;          // bit i: parameter i has a gradient
    PyObject* dispatcher;  // None where no gradient passes through the kernel
};

struct Dispatcher {
    PyObject_HEAD Signature* signature;
    PyObject* name;
    PyObject* on_error;
    PyObject* device;
    PyObject* device_name;  // by which a launch may name it
    PyObject* cuda;         // the device's DriverContext; null for the CPU
    PyObject* runner;  // a callable that gets each launch as a LaunchRequest and runs it, or None: for devices of which
                       // native code knows nothing, and on CUDA for launches that the host waits for
    PyObject* types;   // of the parameters, for records
    PyObject* watch;   // the Watch over the Python values that the code was made from, or null: it names none
    std::vector<Adjoint>* adjoints;
    Variant variants[2][2][2];  // [contiguous][wide][sums]
    int block_dim;              // on CUDA, the threads of a block, where the launch does not say and the kernel allows
    long long unrecorded;       // launches that no tape has seen
    int tid_ndim;               // how many indices the kernel asks for; kMaxDims where it does not ask
    int most_narrow;            // the largest extent for which tid() is an int32
    char shares_indices;        // for grids that have more dimensions than that, and for no others
    char short_rows;            // for grids of short rows, and for no others
    char leaves_short_rows;     // code for these is better made, so launches of the user's leave them to Python
    char order_dependent;       // what the kernel computes depends on the order in which its threads run, sums apart
    char non_associative;       // its sums do: they are of floats
    char deterministic;         // launches give the same bits whatever the number of threads
    char stale;                 // options have changed since it was made: recorded launches look for another one
    char prints;                // Python's stdout is flushed before a launch, so that lines keep their order
    char recordable;            // a tape needs no more of a launch than its arguments
    char no_overlap;            // on CUDA, no array that the kernel writes may overlap another one
    char fusible;               // other launches may run between its threads (`Effects.fusible`)
    char self_contained;        // it reaches memory through its array parameters alone (`Effects.self_contained`)
    char bounded;               // what a thread costs does not depend on data: the kernel has no loops
};

struct Grid {
    int64_t dims[kMaxDims];
    int64_t inner[kMaxDims + 1];  // the product of the extents from each to the last; 0 in an empty grid
    int64_t count;
    PyObject* stream = nullptr;  // on CUDA, the CudaStream to use, borrowed; null: by the rules for streams
    int64_t max_blocks = 0;      // on CUDA, 0: as many as there are
    int64_t block_dim = 0;       // on CUDA, 0: the usual
};

// What a launch is called with; borrowed.
struct LaunchCall {
    PyObject* dim;
    PyObject* inputs;
    PyObject* outputs;
    PyObject* device;                // None: the current one
    bool plain = true;               // the call says nothing of the rest, which is for CUDA
    PyObject* stream = nullptr;      // or None
    PyObject* max_blocks = nullptr;  // or None
    PyObject* block_dim = nullptr;   // or None
};

extern PyTypeObject DispatcherType;

// Whether launches are not of this process: its code does not touch the memory of their arrays.
inline bool runs_elsewhere(const Dispatcher* self) { return self->cuda || (self->runner && self->runner != Py_None); }

inline Dispatcher* as_dispatcher(PyObject* object) { return reinterpret_cast<Dispatcher*>(object); }

// Reads a grid: an int, or a tuple or list of them. False with the reason in `why`, and no exception set.
bool read_grid(PyObject* dim, Grid* grid, const char** why);

// Reads how CUDA is to launch: a stream or None, and two numbers. False where that is not plainly right.
bool read_blocks(PyObject* stream, PyObject* max_blocks, PyObject* block_dim, Grid* grid);

// Writes out what Python has yet to write to stdout, before a kernel prints; false with an exception set.
bool flush_python_stdout();

// Whether `device`, as a launch gives it, is the dispatcher's.
bool same_device(const Dispatcher* self, PyObject* device, const char** why);

// Whether launches of the user's over this grid go to Python, which finds code for short rows.
bool leaves(const Dispatcher* self, const Grid& grid);

// The variant that the arguments ask for; its entry is null where it is not installed, or where it would surely access
// an array out of range.
Variant* variant_for(Dispatcher* self, const Grid& grid, const Arguments& arguments);

// Runs the variant; false with an exception set. What is in `zeroing` is set to zero on the way; after a failure it is
// whatever it was, or has become.
bool execute(Dispatcher* self, Variant* variant, const Grid& grid, Arguments* arguments,
             const Zeroing* zeroing = nullptr);

// Whether a launch ended well; false with an exception set.
bool finished(Dispatcher* self, const RunRecord& record);

// Dispatcher.try_launch
PyObject* try_launch(PyObject* dispatcher, const LaunchCall& call);

bool register_dispatch(PyObject* module);

}  // namespace wl
