#include "zeroing.h"

#include "chunks.h"

namespace wl {

namespace {

constexpr int64_t kPieceBytes = 16 << 10;  // of gradients, beside which the other arrays fit the nearest cache
constexpr int64_t kLeastPiece = 1024;      // kernel threads, which are worth a call

// Whether the elements of the thread `i` of the grid, in C order, are those from `i` on, in C order.
bool goes_along(const Grid& grid, int tid_ndim, const Array* gradient) {
    if (gradient->ndim < tid_ndim) return false;
    return std::equal(grid.dims + 1, grid.dims + tid_ndim, gradient->shape + 1);
}

// Whether all additions are at constant distances from the thread's own element of an array of one dimension.
bool is_near(const Grid& grid, const Param& param) {
    return param.has_halo && param.span_count == 1 && !param.shares_rows && param.ndim == 1 && grid.inner[1] == 1;
}

}  // namespace

bool Zeroing::take(const Dispatcher* adjoint, const Grid& grid, const Param& param, const Array* gradient) {
    const bool near = is_near(grid, param);
    if (!adjoint->self_contained || adjoint->shares_indices || !grid.count || !(param.own || near)) return false;
    if (!near && !goes_along(grid, adjoint->tid_ndim, gradient)) return false;
    int64_t stride = gradient->itemsize;
    for (int d = near ? 1 : adjoint->tid_ndim; d < gradient->ndim; ++d) stride *= gradient->shape[d];
    arrays_.push_back({gradient->data, gradient->size * gradient->itemsize, stride, near ? param.ahead : 0});
    has_neighbours_ |= near;
    return true;
}

int64_t Zeroing::piece(int64_t lanes) const {
    int64_t bytes = 1;
    for (const Part& part : arrays_) bytes += part.stride;
    return in_vectors(std::max(kPieceBytes / bytes, kLeastPiece) / kBlock * kBlock, lanes, INT64_MAX);
}

}  // namespace wl
