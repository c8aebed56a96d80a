// OpCall: how an operator's kernel, or its adjoint, is launched on tensors of another library: which tensors are made
// first, and where each argument of the launch comes from. Python finds this out once; a call is then one function.
#pragma once

#include "python.h"

namespace wl {

bool register_op_call(PyObject* module);

}  // namespace wl
