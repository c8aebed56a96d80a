#include "preload.h"

#include <string>
#include <system_error>
#include <thread>

#include "platform.h"

namespace wl {

namespace {

std::thread* loading = nullptr;  // the first library's; never destroyed

// A child would inherit the dynamic linker's locks as they are.
void wait_for_it() {
    if (loading && loading->joinable()) loading->join();
}

// Whoever needs the library loads it again, which then takes no time, and sees the error if there is one.
PyObject* preload(PyObject*, PyObject* path) {
    const char* name = PyUnicode_AsUTF8(path);
    if (!name) return nullptr;
    if (loading) Py_RETURN_NONE;
    const SignalsBlocked blocked;
    try {
        loading = new std::thread([library = std::string(name)] { load_library(library.c_str()); });
    } catch (const std::system_error&) {
        // Out of threads: it is loaded when it is needed.
    }
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"preload", preload, METH_O,
     "preload($module, path, /)\n--\n\nBegin to load a shared library in a thread of its own. Only the first call "
     "counts."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_preload(PyObject* module) {
    static const bool registered = call_at_forks(wait_for_it, nullptr);
    if (!registered) {
        PyErr_NoMemory();
        return false;
    }
    return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
