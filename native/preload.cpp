#include "preload.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>
#include <thread>

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
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);  // signals are the main thread's business
    try {
        loading = new std::thread([library = std::string(name)] { dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL); });
    } catch (const std::system_error&) {
        // Out of threads: it is loaded when it is needed.
    }
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
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
    static const int registered = pthread_atfork(wait_for_it, nullptr, nullptr);
    if (registered != 0) {
        PyErr_NoMemory();
        return false;
    }
    return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
