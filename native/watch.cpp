#include "watch.h"

#include <cstring>
#include <new>
#include <vector>

#include "value.h"

namespace wl {

namespace {

enum class Kind { Cell, Item, Attribute, List, Dict, Bytes };

constexpr const char* kKinds[] = {"cell", "item", "attribute", "list", "dict", "bytes"};

// A number that changes whenever a dict does, where Python has one; else 0.
uint64_t version_of(PyObject* dict) {
#if PY_VERSION_HEX < 0x030C0000
    return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#else
    (void)dict;
    return 0;
#endif
}

// Whether two objects are one number: a property computes its number anew each time. Zeros of two signs differ.
bool is_same_number(PyObject* a, PyObject* b) {
    if (!a || !b) return false;
    if (PyFloat_CheckExact(a) && PyFloat_CheckExact(b)) {
        const double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return std::memcmp(&x, &y, sizeof x) == 0;
    }
    return PyLong_CheckExact(a) && PyLong_CheckExact(b) && PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

// One place to look at. What is found there is compared by identity, numbers of
// attributes also by value; contents of what can be changed in place by
// those of its items or by its bytes.
struct Check {
    Kind kind;
    Ref owner;
    Ref name;
    Ref found;             // null: nothing was there
    uint64_t version = 0;  // of a dict in which it was found last

    bool holds() {
        switch (kind) {
            case Kind::Cell:
                return PyCell_GET(owner.get()) == found.get();
            case Kind::Item:
                return item_holds();
            case Kind::Attribute:
                return attribute_holds();
            case Kind::List:
                return list_holds();
            case Kind::Dict:
                return dict_holds();
            case Kind::Bytes:
                return bytes_hold();
        }
        return false;
    }

  private:
    // Borrowed; null where there is none.
    PyObject* item(PyObject* key) const {
        PyObject* here = PyDict_GetItemWithError(owner.get(), key);
        if (!here) forget_error();  // of a key that can't be compared; then Python finds out
        return here;
    }

    bool item_holds() {
        const uint64_t now = version_of(owner.get());
        if (now && now == version) return true;
        if (item(name.get()) != found.get()) return false;
        version = now;
        return true;
    }

    bool attribute_holds() const {
        const Ref here(PyObject_GetAttr(owner.get(), name.get()));
        if (!here) forget_error();
        return here.get() == found.get() || is_same_number(here.get(), found.get());
    }

    bool list_holds() const {
        const Py_ssize_t n = PyTuple_GET_SIZE(found.get());
        if (PyList_GET_SIZE(owner.get()) != n) return false;
        for (Py_ssize_t i = 0; i < n; ++i) {
            if (PyList_GET_ITEM(owner.get(), i) != PyTuple_GET_ITEM(found.get(), i)) return false;
        }
        return true;
    }

    bool dict_holds() const {
        const Py_ssize_t n = PyTuple_GET_SIZE(found.get());
        if (PyDict_GET_SIZE(owner.get()) != n) return false;
        for (Py_ssize_t i = 0; i < n; ++i) {
            PyObject* pair = PyTuple_GET_ITEM(found.get(), i);
            if (item(PyTuple_GET_ITEM(pair, 0)) != PyTuple_GET_ITEM(pair, 1)) return false;
        }
        return true;
    }

    bool bytes_hold() const {
        const auto* value = reinterpret_cast<const Value*>(owner.get());
        const auto size = static_cast<size_t>(PyBytes_GET_SIZE(found.get()));
        return std::memcmp(value->bytes, PyBytes_AS_STRING(found.get()), size) == 0;
    }
};

struct Watch {
    PyObject_HEAD std::vector<Check>* checks;
};

Watch* as_watch(PyObject* object) { return reinterpret_cast<Watch*>(object); }

PyTypeObject WatchType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// ---- making one

bool is_pairs(PyObject* object) {
    if (!PyTuple_Check(object)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
        PyObject* pair = PyTuple_GET_ITEM(object, i);
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) return false;
    }
    return true;
}

bool fits(Kind kind, PyObject* owner, PyObject* name, PyObject* found) {
    switch (kind) {
        case Kind::Cell:
            return PyCell_Check(owner);
        case Kind::Item:
            return PyDict_Check(owner) && name && PyUnicode_CheckExact(name);
        case Kind::Attribute:
            return name && PyUnicode_CheckExact(name);
        case Kind::List:
            return PyList_Check(owner) && found && PyTuple_Check(found);
        case Kind::Dict:
            return PyDict_Check(owner) && found && is_pairs(found);
        case Kind::Bytes:
            return PyObject_TypeCheck(owner, &ValueType) && found && PyBytes_Check(found) &&
                   PyBytes_GET_SIZE(found) <= Py_SIZE(owner);
    }
    return false;
}

// Reads (kind, owner, found) or, where things have names, (kind, owner, name, found); `found` may be left out.
bool read_check(PyObject* tuple, Check* check) {
    const char* word =
        PyTuple_Check(tuple) && PyTuple_GET_SIZE(tuple) >= 2 && PyUnicode_Check(PyTuple_GET_ITEM(tuple, 0))
            ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, 0))
            : nullptr;
    for (int k = 0; word && k < 6; ++k) {
        if (std::strcmp(word, kKinds[k]) != 0) continue;
        const Kind kind = static_cast<Kind>(k);
        const Py_ssize_t at = kind == Kind::Item || kind == Kind::Attribute ? 3 : 2;
        const Py_ssize_t size = PyTuple_GET_SIZE(tuple);
        PyObject* owner = PyTuple_GET_ITEM(tuple, 1);
        PyObject* name = at == 3 && size > 2 ? PyTuple_GET_ITEM(tuple, 2) : nullptr;
        PyObject* found = size > at ? PyTuple_GET_ITEM(tuple, at) : nullptr;
        if (!fits(kind, owner, name, found)) break;
        Py_XINCREF(name);
        if (name) PyUnicode_InternInPlace(&name);
        *check = Check{kind, Ref::borrow(owner), Ref(name), Ref::borrow(found), 0};
        return true;
    }
    if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "Watch() can't look at %R", tuple);
    return false;
}

PyObject* watch_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject* list;
    if (!PyArg_ParseTuple(args, "O!:Watch", &PyList_Type, &list)) return nullptr;
    const Ref object(type->tp_alloc(type, 0));
    if (!object) return nullptr;
    as_watch(object.get())->checks = new (std::nothrow) std::vector<Check>(static_cast<size_t>(PyList_GET_SIZE(list)));
    if (!as_watch(object.get())->checks) return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
        Check& check = (*as_watch(object.get())->checks)[static_cast<size_t>(i)];
        if (!read_check(PyList_GET_ITEM(list, i), &check)) return nullptr;
    }
    return Ref::borrow(object.get()).release();
}

int watch_traverse(PyObject* object, visitproc visit, void* arg) {
    if (!as_watch(object)->checks) return 0;
    for (const Check& check : *as_watch(object)->checks) {
        Py_VISIT(check.owner.get());
        Py_VISIT(check.found.get());
    }
    return 0;
}

int watch_clear(PyObject* object) {
    if (!as_watch(object)->checks) return 0;
    std::vector<Check> old;
    old.swap(*as_watch(object)->checks);
    return 0;
}

void watch_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    watch_clear(object);
    delete as_watch(object)->checks;
    Py_TYPE(object)->tp_free(object);
}

PyObject* watch_is_current(PyObject* object, PyObject*) { return PyBool_FromLong(is_current(object)); }

PyMethodDef methods[] = {
    {"is_current", watch_is_current, METH_NOARGS,
     "is_current($self, /)\n--\n\nReturn whether everything is as it was. An attribute may run Python code; if it "
     "raises, it counts as missing."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool is_current(PyObject* watch) {
    if (!watch || watch == Py_None) return true;
    const Ref held = Ref::borrow(watch);
    for (Check& check : *as_watch(watch)->checks) {
        if (!check.holds()) return false;
    }
    return true;
}

bool is_watch(PyObject* object) { return PyObject_TypeCheck(object, &WatchType); }

bool register_watch(PyObject* module) {
    WatchType.tp_name = "warp_like._native.Watch";
    WatchType.tp_basicsize = sizeof(Watch);
    WatchType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    WatchType.tp_doc =
        "Watch(checks)\n--\n\nSays whether objects are still where they were found. A check is a tuple: (\"cell\", "
        "cell, "
        "content), (\"item\", dict, name, value), (\"attribute\", object, name, value), each without the last where "
        "there "
        "is nothing; (\"list\", list, items), (\"dict\", dict, pairs), (\"bytes\", value, bytes) for contents.";
    WatchType.tp_new = watch_new;
    WatchType.tp_dealloc = watch_dealloc;
    WatchType.tp_traverse = watch_traverse;
    WatchType.tp_clear = watch_clear;
    WatchType.tp_methods = methods;
    return add_type(module, "Watch", &WatchType);
}

}  // namespace wl
