#include "preload.h"

#include <atomic>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>

#include "llvm.h"
#include "platform.h"

namespace wl {

namespace {

std::atomic<bool> begun{false}, loading{false};

void load(const std::string& path, bool open) {
    void* library = load_library(path.c_str());
    if (open) open_llvm(library);
    loading = false;
}

// Whoever needs the library by Python loads it again, which then takes no time, and sees the error if there is one.
PyObject* preload(PyObject*, PyObject* args) {
    const char* name = nullptr;
    int open = 0;
    if (!PyArg_ParseTuple(args, "sp:preload", &name, &open)) return nullptr;
    if (begun.exchange(true)) Py_RETURN_NONE;
    const SignalsBlocked blocked;
    const std::string path = name;
    loading = true;
    try {
        std::thread([path, open] {
            give_way();  // to the thread that imports the compiler meanwhile: NumPy's keep cores busy after its import
            load(path, open != 0);
        }).detach();
    } catch (const std::system_error&) {  // out of threads
        load(path, open != 0);
    }
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"preload", preload, METH_VARARGS,
     "preload($module, path, open, /)\n--\n\nBegin to load LLVM's library in a thread of its own, and to open it for "
     "`llvm_object` if asked for. Only the first call counts."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

// There is no lock, which a fork could leave held in the child.
void wait_for_preload() {
    while (loading) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

bool register_preload(PyObject* module) {
    // A child would inherit the locks of the dynamic linker and of LLVM as they are; and while the process ends, LLVM
    // frees what the thread still uses.
    static const bool registered = call_at_forks(wait_for_preload, nullptr) && Py_AtExit(wait_for_preload) == 0;
    if (!registered) {
        PyErr_NoMemory();
        return false;
    }
    return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
