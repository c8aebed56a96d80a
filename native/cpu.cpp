#include "cpu.h"

#include <cstdio>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "platform.h"

namespace wl {

namespace {

// All that CPUID says of instruction sets, and what the operating system has switched on; empty where the platform has
// no such instruction.
PyObject* cpu_id(PyObject*, PyObject*) {
    std::string text;
#if defined(__x86_64__)
    const auto add = [&text](unsigned leaf, unsigned subleaf, bool with_ebx) {
        unsigned a = 0, b = 0, c = 0, d = 0;
        __get_cpuid_count(leaf, subleaf, &a, &b, &c, &d);
        char words[40];
        std::snprintf(words, sizeof words, "%x.%x.%x.%x/", a, with_ebx ? b : 0, c, d);
        text += words;
    };
    add(0, 0, true);
    add(1, 0, false);  // ebx holds the number of the core that runs this
    add(7, 0, true);
    add(7, 1, true);
    add(0xd, 1, false);
    add(0x19, 0, true);
    add(0x80000001, 0, false);
    add(0x80000008, 0, true);
    unsigned a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE)) {
        unsigned low, high;
        __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        text += std::to_string(low);
    }
#endif
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

PyObject* host_memory_of(PyObject*, PyObject*) {
    const HostMemory memory = host_memory();
    return Py_BuildValue("KK", memory.total, memory.free);
}

PyMethodDef functions[] = {
    {"host_memory", host_memory_of, METH_NOARGS,
     "host_memory($module, /)\n--\n\nReturn how many bytes of memory the machine has, and how many are free."},
    {"cpu_id", cpu_id, METH_NOARGS,
     "cpu_id($module, /)\n--\n\nReturn a text that is equal on processors for which the same code is made; empty if "
     "unknown."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_cpu(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
