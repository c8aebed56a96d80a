#include "objects.h"

#include "contract.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace wl {

namespace {

struct Object {
    int kind;
    int32_t place;
};

std::shared_mutex guard;
std::unordered_map<uint64_t, Object> objects;

PyObject* add_object(PyObject*, PyObject* args) {
    unsigned long long id;
    Object object;
    if (!PyArg_ParseTuple(args, "Kii:add_object", &id, &object.kind, &object.place)) return nullptr;
    const std::unique_lock lock(guard);
    objects[id] = object;
    Py_RETURN_NONE;
}

PyObject* remove_object(PyObject*, PyObject* arg) {
    const unsigned long long id = PyLong_AsUnsignedLongLong(arg);
    if (PyErr_Occurred()) return nullptr;
    const std::unique_lock lock(guard);
    objects.erase(id);
    Py_RETURN_NONE;
}

PyObject* is_object(PyObject*, PyObject* args) {
    unsigned long long id;
    int kind, ordinal;
    if (!PyArg_ParseTuple(args, "Kii:is_object", &id, &kind, &ordinal)) return nullptr;
    return PyBool_FromLong(is_live(id, kind, ordinal));
}

PyMethodDef functions[] = {
    {"add_object", add_object, METH_VARARGS,
     "add_object($module, id, kind, place, /)\n--\n\nLet `id` refer to an object; `place` is that of its device."},
    {"remove_object", remove_object, METH_O,
     "remove_object($module, id, /)\n--\n\nLet `id` refer to nothing, since its object is gone."},
    {"is_object", is_object, METH_VARARGS,
     "is_object($module, id, kind, place, /)\n--\n\nReturn whether `id` is that of a live object of the kind."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool is_live(uint64_t id, int kind, int32_t place) {
    const std::shared_lock lock(guard);
    const auto found = objects.find(id);
    return found != objects.end() && (found->second.kind == kind || kind == ObjectKind::Any) &&
           found->second.place == place;
}

extern "C" int32_t wl_is_live(uint64_t id, int32_t kind) { return is_live(id, kind, -1); }

bool register_objects(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
