// History: what a tape's records read, by address, so that a launch that overwrites none of it is recorded, or run
// unrecorded, with no help of Python's (warp_like/runtime/autodiff/history.py).
#pragma once

#include "extent.h"
#include "record.h"

namespace wl {

struct Reader {
    PyObject* record;  // owned by the history
    Py_ssize_t position;
};

struct History {
    PyObject_HEAD IntervalMap<Reader>* readers;
    PyObject* written;  // a list: arrays with gradients that launches recorded natively have written
    // Where no copy was made because arrays had no gradient: these arrays, a dict by id, and a list of (record,
    // position).
    PyObject* without;
    PyObject* uncopied;
};

extern PyTypeObject HistoryType;

inline History* as_history(PyObject* object) { return reinterpret_cast<History*>(object); }

// Whether overwriting `extent` takes nothing that an earlier record needs. Forgets the readers that it overwrites then.
bool may_overwrite(History* self, const Extent& extent);

// Notes what a record reads and writes; false with an exception set.
bool remember(History* self, const Dispatcher* dispatcher, PyObject* record);

bool register_history(PyObject* module);

}  // namespace wl
