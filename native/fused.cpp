#include "fused.h"

#include <algorithm>
#include <cstring>

#include "array.h"
#include "bound_launch.h"
#include "chunks.h"
#include "extent.h"
#include "host_write.h"
#include "sums.h"
#include "thread_pool.h"
#include "watchdog.h"

namespace wl {

namespace {

constexpr int64_t kPieceBytes = 24 << 10;  // of all arrays, which the cache of a core holds
constexpr int64_t kLeastPiece = 2048;      // kernel threads, which are worth a call
constexpr size_t kMostLaunches = 64;       // that run together

// The view by which a node reaches an array.
struct View {
    char* data;
    int ndim;
    int64_t itemsize;
    int64_t shape[kMaxDims];
    int64_t strides[kMaxDims];

    bool operator==(const View& other) const {
        return data == other.data && ndim == other.ndim && itemsize == other.itemsize &&
               std::equal(shape, shape + ndim, other.shape) && std::equal(strides, strides + ndim, other.strides);
    }
};

Extent extent(const View& view) {
    int64_t slot[1 + 2 * kMaxDims];
    std::memcpy(slot, &view.data, sizeof view.data);
    std::copy(view.shape, view.shape + view.ndim, slot + 1);
    std::copy(view.strides, view.strides + view.ndim, slot + 1 + view.ndim);
    return extent_of(slot, view.ndim, view.itemsize);
}

// Whether two places of a view may be one element in memory.
bool is_shared(const View& view) { return overlaps_itself(view.ndim, view.shape, view.strides, view.itemsize); }

// What a node does to one array.
struct Touch {
    Touch(const View& its_view, bool its_writes, bool its_own)
        : view(its_view), reach(extent(its_view)), writes(its_writes), own(its_own) {}

    View view;
    Extent reach;
    bool writes;
    bool own;  // each thread touches the element at its index in the grid alone, or the elements there
};

// A node as far as it can run with others.
struct Part {
    PyObject* node;
    Entry entry;
    const uint8_t* block;
    int64_t lanes;
    int64_t rows;
    Dispatcher* dispatcher;  // null: a write
    Footprint footprint;
    Grid grid;
    std::vector<Touch> touches;
};

// ---- describing nodes

View view_of(const Array* array) {
    View view{array->data, array->ndim, array->itemsize, {}, {}};
    std::copy(array->shape, array->shape + array->ndim, view.shape);
    std::copy(array->strides, array->strides + array->ndim, view.strides);
    return view;
}

View view_of(const Param& param, const uint8_t* block, int64_t itemsize) {
    const int64_t* slot = reinterpret_cast<const int64_t*>(block + param.offset);
    View view{nullptr, param.ndim, itemsize, {}, {}};
    std::memcpy(&view.data, slot, sizeof view.data);
    std::copy(slot + 1, slot + 1 + param.ndim, view.shape);
    std::copy(slot + 1 + param.ndim, slot + 1 + 2 * param.ndim, view.strides);
    return view;
}

bool describe_launch(PyObject* node, Part* part) {
    const BoundWork work = work_of_bound_launch(node);
    const Dispatcher* dispatcher = work.dispatcher;
    if (runs_elsewhere(dispatcher) || !dispatcher->fusible || !work.grid->count) return false;
    if (dispatcher->deterministic && shares_private_elements(*dispatcher->signature, work.block)) return false;
    // Where LLVM made the vectors, the threads at the end of a piece may get another sine than those in vectors.
    if (work.variant->lanes < 2) return false;
    part->entry = work.variant->entry;
    part->block = work.block;
    part->lanes = work.variant->lanes;
    part->rows = work.variant->rows;
    part->dispatcher = work.dispatcher;
    part->footprint = work.footprint;
    part->grid = *work.grid;
    const auto& params = dispatcher->signature->params;
    for (size_t i = 0; i < params.size(); ++i) {
        const Param& param = params[i];
        if (param.kind != ParamKind::Array || !(param.reads || param.writes)) continue;
        PyObject* operand = (*work.operands)[i];
        if (!param.known && !is_array(operand)) return false;
        const int64_t itemsize = param.known ? param.element.size : reinterpret_cast<Array*>(operand)->itemsize;
        const View view = view_of(param, work.block, itemsize);
        part->touches.emplace_back(view, param.writes, param.own && !is_shared(view));
    }
    return true;
}

// The grid of a write is that over its elements.
bool describe_write(PyObject* node, Part* part) {
    ElementWrite write{};
    if (!as_element_write(node, &write) || !write.dest->size) return false;
    part->entry = write.entry;
    part->block = write.args;
    part->lanes = part->rows = 1;
    part->grid.inner[0] = part->grid.count = write.dest->size;
    for (int d = 0; d < kMaxDims; ++d) part->grid.dims[d] = d < write.dest->ndim ? write.dest->shape[d] : 1;
    for (const Array* array : {write.dest, write.source}) {
        if (!array) continue;
        const View view = view_of(array);
        part->touches.emplace_back(view, array == write.dest, !is_shared(view));
    }
    return true;
}

// False for nodes that have to run alone.
bool describe(PyObject* node, Part* part) {
    part->node = node;
    if (is_bound_launch(node)) return describe_launch(node, part);
    return is_host_write(node) && describe_write(node, part);
}

// ---- which of them may run together

// Whether the order of two nodes over the same grid may only show within a thread.
bool keeps_apart(const Touch& a, const Touch& b) {
    if (!(a.writes || b.writes) || !a.reach.overlaps(b.reach)) return true;
    return a.own && b.own && a.view == b.view;
}

// Nodes that may run together, and all that they touch: each view once.
struct Together {
    std::vector<Part> parts;
    std::vector<Touch> touches;

    bool takes(const Part& next) const {
        if (parts.empty()) return true;
        if (parts.size() == kMostLaunches || !same_grid(next.grid, parts[0].grid)) return false;
        for (const Touch& a : touches) {
            for (const Touch& b : next.touches) {
                if (!keeps_apart(a, b)) return false;
            }
        }
        return true;
    }

    void add(Part part) {
        for (const Touch& touch : part.touches) add(touch);
        parts.push_back(std::move(part));
    }

    // Of the arrays of which each thread touches its own elements.
    int64_t bytes_per_thread() const {
        int64_t bytes = 0;
        for (const Touch& touch : touches) {
            if (touch.own) bytes += static_cast<int64_t>(touch.reach.end - touch.reach.begin);
        }
        return std::max<int64_t>(bytes / parts[0].grid.count, 1);
    }

  private:
    static bool same_grid(const Grid& a, const Grid& b) { return std::equal(a.dims, a.dims + kMaxDims, b.dims); }

    void add(const Touch& touch) {
        for (Touch& known : touches) {
            if (!(known.view == touch.view)) continue;
            known.writes |= touch.writes;
            known.own &= touch.own;
            return;
        }
        touches.push_back(touch);
    }
};

// How many threads go through all launches before the next ones do. Where it is cheap, whole rows that code takes at
// once; always whole vectors.
int64_t piece_of(const Together& together) {
    const Grid& grid = together.parts[0].grid;
    int64_t piece = std::max(kPieceBytes / together.bytes_per_thread(), kLeastPiece), rows = 0, lanes = 1;
    for (const Part& part : together.parts) {
        lanes = std::max(lanes, part.lanes);
        rows = std::max(rows, chunk_alignment(part.lanes, part.rows, grid.dims).rows);
    }
    const int64_t unit = rows && rows <= 4 * piece ? rows : std::max(lanes, kBlock);
    return (piece + unit - 1) / unit * unit;
}

}  // namespace

class FusedLaunches {
  public:
    FusedLaunches(std::vector<Part> parts, int64_t piece) : parts_(std::move(parts)), piece_(piece) {
        for (size_t i = parts_.size(); i-- > 0;) {
            lanes_ = std::max(lanes_, parts_[i].lanes);
            if (!parts_[i].dispatcher) continue;
            if (launch_) parts_[i].footprint.next = &launch_->footprint;
            launch_ = &parts_[i];
        }
    }

    bool run() {
        for (const Part& part : parts_) {
            if (!(part.dispatcher ? begin_bound_launch(part.node) : require_memory_of_write(part.node))) return false;
        }
        RunRecord record;
        start_clock(&record);
        Gil gil(&record, launch_->footprint);
        if (!gil.wait_for_turn()) return false;
        const Grid& grid = parts_[0].grid;
        const Job job{run_pieces, reinterpret_cast<const uint8_t*>(this), grid.dims, grid.count, nullptr, lanes_};
        const Outcome outcome = wl::run(job, &record, &gil);
        return !outcome.interrupted && finished(launch_->dispatcher, record);
    }

    // Whether Python has to do one of the writes, since a library has come to follow an array's memory.
    bool needs_python() const {
        ElementWrite write{};
        return std::any_of(parts_.begin(), parts_.end(),
                           [&](const Part& part) { return !part.dispatcher && !as_element_write(part.node, &write); });
    }

    const std::vector<Part>& parts() const { return parts_; }

  private:
    // An entry point. A kernel that gives up jumps over this frame, so nothing in it has a destructor.
    static void run_pieces(const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end, Context* context) {
        const FusedLaunches& self = *reinterpret_cast<const FusedLaunches*>(args);
        const Part* const first = self.parts_.data();
        const Part* const last = first + self.parts_.size();
        for (int64_t at = begin; at < end;) {
            const int64_t next = std::min((at / self.piece_ + 1) * self.piece_, end);
            for (const Part* part = first; part != last; ++part) {
                part->entry(part->block, dims, at, next, context);
                context->top = 0;
            }
            at = next;
        }
    }

    std::vector<Part> parts_;
    int64_t piece_;
    int64_t lanes_ = 1;
    const Part* launch_ = nullptr;  // the first launch, which names errors
};

namespace {

// Adds the nodes that end before `last`, and begins anew.
void add_stretch(size_t last, Together* together, std::vector<Stretch>* found) {
    std::vector<Part>& parts = together->parts;
    if (parts.empty()) return;
    Stretch stretch{last - parts.size(), last, nullptr};
    const bool launches = std::any_of(parts.begin(), parts.end(), [](const Part& p) { return p.dispatcher; });
    const int64_t piece = piece_of(*together);
    // What the cache holds as a whole gains nothing.
    if (parts.size() > 1 && launches && parts[0].grid.count > piece) {
        stretch.fused = std::make_shared<FusedLaunches>(std::move(parts), piece);
    }
    found->push_back(std::move(stretch));
    *together = {};
}

}  // namespace

std::vector<Stretch> find_stretches(const std::vector<PyObject*>& nodes) {
    std::vector<Stretch> found;
    Together together;
    for (size_t i = 0; i < nodes.size(); ++i) {
        Part part{};
        const bool described = describe(nodes[i], &part);
        if (!described || !together.takes(part)) add_stretch(i, &together, &found);
        if (described) {
            together.add(std::move(part));
        } else {
            found.push_back({i, i + 1, nullptr});
        }
    }
    add_stretch(nodes.size(), &together, &found);
    return found;
}

bool run_fused(FusedLaunches* fused) {
    if (!fused->needs_python()) return fused->run();
    for (const Part& part : fused->parts()) {
        if (!(part.dispatcher ? run_bound_launch(part.node) : run_host_write(part.node))) return false;
    }
    return true;
}

}  // namespace wl
