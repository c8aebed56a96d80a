// Value: the bytes of one vector, matrix, quaternion, transform or struct on the host, held inline.
#pragma once

#include "python.h"

namespace wl {

struct Value {
    PyObject_VAR_HEAD alignas(8) uint8_t bytes[8];  // Py_SIZE(self) of them
};

extern PyTypeObject ValueType;

bool register_value(PyObject* module);

}  // namespace wl
