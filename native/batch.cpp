#include "batch.h"

#include <cstring>

#include "dispatch.h"
#include "recorder.h"
#include "thread_pool.h"
#include "watchdog.h"

namespace wl {

namespace {

constexpr size_t kMostBytes = 2048;               // of an argument block
constexpr int64_t kSmallGrid = int64_t{1} << 14;  // a grid that one thread may run however few elements there are

// An array that lies elsewhere in each element.
struct Move {
    int64_t offset;  // of its pointer in the argument block
    char* first;     // in the first element
    int64_t step;
};

struct Batch {
    Entry entry;
    const uint8_t* block;
    size_t bytes;
    const int64_t* dims;
    int64_t count;
    const Move* moves;
    size_t move_count;
};

// The entry point of the job whose threads are the elements. A kernel that gives up jumps over this frame, so nothing
// in it has a destructor.
void run_elements(const uint8_t* args, const int64_t*, int64_t begin, int64_t end, Context* context) {
    const Batch& batch = *reinterpret_cast<const Batch*>(args);
    alignas(64) uint8_t block[kMostBytes];
    std::memcpy(block, batch.block, batch.bytes);
    for (int64_t i = begin; i < end; ++i) {
        for (size_t m = 0; m < batch.move_count; ++m) {
            char* const data = batch.moves[m].first + i * batch.moves[m].step;
            std::memcpy(block + batch.moves[m].offset, &data, sizeof data);
        }
        batch.entry(block, batch.dims, 0, batch.count, context);
        context->top = 0;
    }
}

// Reads the steps of the parameters; false where they do not fit these.
bool read_moves(PyObject* steps, const Signature& signature, Arguments* arguments, std::vector<Move>* moves) {
    if (!PyList_CheckExact(steps) || PyList_GET_SIZE(steps) != static_cast<Py_ssize_t>(signature.params.size())) {
        return false;
    }
    for (size_t i = 0; i < signature.params.size(); ++i) {
        int overflow = 0;
        PyObject* item = PyList_GET_ITEM(steps, static_cast<Py_ssize_t>(i));
        if (!PyLong_CheckExact(item)) return false;
        const long long step = PyLong_AsLongLongAndOverflow(item, &overflow);
        if (overflow) return false;
        if (step == 0) continue;
        if (signature.params[i].kind != ParamKind::Array) return false;
        Move move{signature.params[i].offset, nullptr, step};
        std::memcpy(&move.first, arguments->slot(i), sizeof move.first);
        moves->push_back(move);
    }
    return true;
}

}  // namespace

PyObject* try_batch(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 4 || !PyLong_CheckExact(args[2])) {
        PyErr_SetString(PyExc_TypeError, "try_batch(dim, args, size, steps)");
        return nullptr;
    }
    Dispatcher* self = as_dispatcher(object);
    const long long size = PyLong_AsLongLong(args[2]);
    if (size == -1 && PyErr_Occurred()) return nullptr;
    Grid grid;
    Operands operands;
    Refusal refusal;
    Arguments arguments(*self->signature);
    std::vector<Move> moves;
    if (launches_are_held() || runs_elsewhere(self) || self->prints || size < 1 ||
        !read_grid(args[0], &grid, &refusal.reason) || operands.take_flat(args[1]) ||
        !arguments.pack(operands, self->device, &refusal) ||
        static_cast<size_t>(self->signature->args_size) > kMostBytes ||
        !read_moves(args[3], *self->signature, &arguments, &moves)) {
        Py_RETURN_FALSE;
    }
    if (grid.count == 0) Py_RETURN_TRUE;
    if (grid.count > kSmallGrid && size < 2 * thread_count()) Py_RETURN_FALSE;  // a grid of its own keeps all busy
    const Variant variant = *variant_for(self, grid, arguments);
    if (!variant.entry) Py_RETURN_FALSE;
    const Ref code = Ref::borrow(variant.keepalive);
    if (!arguments.run_write_hooks()) return nullptr;
    const Batch batch{variant.entry, arguments.block(), static_cast<size_t>(self->signature->args_size),
                      grid.dims,     grid.count,        moves.data(),
                      moves.size()};
    const auto dims = line_of(size);
    RunRecord record;
    start_clock(&record);
    Outcome outcome;
    {
        Gil gil(&record);
        // Of the lanes the runtime knows that their stacks are one; elements are as few as they are.
        outcome =
            run({run_elements, reinterpret_cast<const uint8_t*>(&batch), dims.data(), size, nullptr, variant.lanes},
                &record, &gil);
    }
    if (outcome.interrupted || !finished(self, record)) return nullptr;
    Py_RETURN_TRUE;
}

}  // namespace wl
