// Adjoint launches without Python: the arguments of a launch, then an array of adjoints for each argument that has a
// gradient. Which do decides which compiled adjoint runs.
#pragma once

#include "dispatch.h"
#include "record.h"

namespace wl {

constexpr int kMaxGradients = 64;  // kernels with more parameters take the checked path

// Dispatcher.try_adjoint
PyObject* try_adjoint(PyObject* dispatcher, const LaunchCall& call, PyObject* adj_inputs, PyObject* adj_outputs);

// Record.try_reverse and Record.can_reverse
PyObject* try_reverse(PyObject* record, PyObject*);
PyObject* can_reverse(PyObject* record, PyObject*);

// Looks up the adjoint of a recorded launch with the gradients that its arguments have now. False where it is not
// installed; `found` is null where no gradient passes.
bool find_adjoint(const Record* record, const Dispatcher** found);

bool register_adjoint(PyObject* module);

}  // namespace wl
