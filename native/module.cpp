// warp_like._native: registers what the other files define.
#include "adjoint.h"
#include "algorithms.h"
#include "alloc.h"
#include "array.h"
#include "bound_launch.h"
#include "context.h"
#include "cpu.h"
#include "cuda.h"
#include "cuda_launch.h"
#include "current_device.h"
#include "dispatch.h"
#include "dlpack.h"
#include "elf.h"
#include "export.h"
#include "extent.h"
#include "fast_path.h"
#include "fingerprint.h"
#include "history.h"
#include "host_write.h"
#include "launch.h"
#include "link.h"
#include "llvm.h"
#include "make.h"
#include "objects.h"
#include "op_call.h"
#include "operands.h"
#include "preload.h"
#include "python.h"
#include "record.h"
#include "recorder.h"
#include "replay.h"
#include "signals.h"
#include "tensor_memory.h"
#include "thread_pool.h"
#include "value.h"
#include "watch.h"
#include "watchdog.h"
#include "xla_ffi.h"

namespace {

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "_native",
    "The native part of warp_like: arrays, argument packing, launching and the thread pool.",
    -1,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__native() {
    wl::Ref module(PyModule_Create(&definition));
    if (!module) return nullptr;
    PyObject* m = module.get();
    const bool done =
        wl::register_alloc(m) && wl::register_value(m) && wl::register_watch(m) && wl::register_array(m) &&
        wl::register_tensor_memory() && wl::register_operands() && wl::register_dlpack(m) && wl::register_export(m) &&
        wl::register_make(m) && wl::register_context(m) && wl::register_thread_pool(m) &&
        wl::register_current_device(m) && wl::register_dispatch(m) && wl::register_record(m) &&
        wl::register_extent(m) && wl::register_history(m) && wl::register_fingerprint(m) && wl::register_recorder(m) &&
        wl::register_bound_launch(m) && wl::register_fast_path(m) && wl::register_launch(m) && wl::register_link(m) &&
        wl::register_adjoint(m) && wl::register_elf(m) && wl::register_cpu(m) && wl::register_preload(m) &&
        wl::register_llvm(m) && wl::register_cuda(m) && wl::register_cuda_launch(m) && wl::register_xla_ffi(m) &&
        wl::register_reduce(m) && wl::register_host_write(m) && wl::register_replay(m) && wl::register_scan(m) &&
        wl::register_sort(m) && wl::register_watchdog(m) && wl::register_signals(m) && wl::register_coloring(m) &&
        wl::register_bvh(m) && wl::register_wide_bvh(m) && wl::register_refit(m) && wl::register_objects(m) &&
        wl::register_op_call(m);
    return done ? module.release() : nullptr;
}
