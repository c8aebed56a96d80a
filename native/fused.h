// Launches of a graph that run together: each worker takes a piece of the grid through all of them before it goes on to
// the next piece, so that what one launch has written is in the cache when the next one reads it.
//
// Every launch runs the code that it has alone. All that changes is the order in which threads of different launches
// run. So elements may only pass between launches where the same thread has them in each.
#pragma once

#include <memory>
#include <vector>

#include "python.h"

namespace wl {

class FusedLaunches;

// A part of a list of nodes: the nodes from `first` to `last`, to be run together where `fused` is not null.
struct Stretch {
    size_t first;
    size_t last;
    std::shared_ptr<FusedLaunches> fused;
};

// Divides a list of nodes, of which those that are no launches nor writes stand alone.
std::vector<Stretch> find_stretches(const std::vector<PyObject*>& nodes);

// Runs the nodes of a stretch together; false with an exception set.
bool run_fused(FusedLaunches* fused);

}  // namespace wl
