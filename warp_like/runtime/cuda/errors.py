"""What the driver's error codes mean for the user: exceptions that say what to do."""

from __future__ import annotations

OUT_OF_MEMORY = 2
DEINITIALIZED = 4
NOT_READY = 600
UPDATE_FAILURE = 910
CONTEXT_IS_DESTROYED = 709
INVALID_IMAGE = 200
NO_BINARY_FOR_GPU = 209

NAMES = {
    1: "CUDA_ERROR_INVALID_VALUE",
    2: "CUDA_ERROR_OUT_OF_MEMORY",
    3: "CUDA_ERROR_NOT_INITIALIZED",
    4: "CUDA_ERROR_DEINITIALIZED",
    34: "CUDA_ERROR_STUB_LIBRARY",
    46: "CUDA_ERROR_DEVICE_UNAVAILABLE",
    100: "CUDA_ERROR_NO_DEVICE",
    101: "CUDA_ERROR_INVALID_DEVICE",
    200: "CUDA_ERROR_INVALID_IMAGE",
    201: "CUDA_ERROR_INVALID_CONTEXT",
    208: "CUDA_ERROR_ALREADY_MAPPED",
    209: "CUDA_ERROR_NO_BINARY_FOR_GPU",
    214: "CUDA_ERROR_ECC_UNCORRECTABLE",
    217: "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
    218: "CUDA_ERROR_INVALID_PTX",
    220: "CUDA_ERROR_NVLINK_UNCORRECTABLE",
    221: "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
    222: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    223: "CUDA_ERROR_JIT_COMPILATION_DISABLED",
    304: "CUDA_ERROR_OPERATING_SYSTEM",
    400: "CUDA_ERROR_INVALID_HANDLE",
    500: "CUDA_ERROR_NOT_FOUND",
    600: "CUDA_ERROR_NOT_READY",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS",
    701: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    702: "CUDA_ERROR_LAUNCH_TIMEOUT",
    704: "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
    705: "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
    709: "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    710: "CUDA_ERROR_ASSERT",
    711: "CUDA_ERROR_TOO_MANY_PEERS",
    714: "CUDA_ERROR_HARDWARE_STACK_ERROR",
    715: "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    716: "CUDA_ERROR_MISALIGNED_ADDRESS",
    717: "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    718: "CUDA_ERROR_INVALID_PC",
    719: "CUDA_ERROR_LAUNCH_FAILED",
    800: "CUDA_ERROR_NOT_PERMITTED",
    801: "CUDA_ERROR_NOT_SUPPORTED",
    802: "CUDA_ERROR_SYSTEM_NOT_READY",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
    805: "CUDA_ERROR_MPS_CONNECTION_FAILED",
    900: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
    901: "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
    902: "CUDA_ERROR_STREAM_CAPTURE_MERGE",
    903: "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
    904: "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
    905: "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
    906: "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
    907: "CUDA_ERROR_CAPTURED_EVENT",
    908: "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
    910: "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
    999: "CUDA_ERROR_UNKNOWN",
}
"""The errors that a program of ours can meet, by code (cuda.h)."""

STICKY = frozenset({214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719})
"""Errors of a kernel that ran: after one, every further call on the device fails until the process ends."""

GONE = frozenset({DEINITIALIZED, 201, CONTEXT_IS_DESTROYED}) | STICKY
"""Errors that do not matter where something is given back: it is gone already."""

_ADVICE = {
    1: "the driver takes no such argument; if a pointer or a stream of another library is among them, see that it is "
    "still alive, else please report this as a bug",
    2: "drop arrays that are not needed, or make the work smaller; memory that PyTorch or JAX keep for themselves "
    "counts as used",
    4: "the driver has shut down, as it does when the process ends: drop arrays and streams before that",
    3: "CUDA can't be used in a process that was forked after CUDA had started: start workers by "
    "multiprocessing.set_start_method('spawn')",
    34: "the libcuda.so that was found is the toolkit's stub, not the driver: take it off LD_LIBRARY_PATH",
    46: "another process has the device to itself: end it, or let processes share the device by nvidia-smi -c 0",
    100: "the driver sees no device: look at CUDA_VISIBLE_DEVICES and at what nvidia-smi lists",
    101: "there is no device with this number: wp.get_cuda_devices() lists them",
    200: "the kernel's image was made by a newer CUDA than the driver supports, or is damaged: install a newer driver, "
    "or have it compiled again by wp.clear_kernel_cache()",
    201: "the device's context is gone: another library has destroyed or reset it (cudaDeviceReset), and with it all "
    "memory there; start the process again",
    208: "this process has opened that memory already: keep the array that wp.from_ipc_handle() gave",
    209: "the kernel was compiled for another architecture than the device's: compile for the `arch` that "
    "wp.get_device() shows, or to PTX, which the driver translates",
    217: "the two devices can't reach each other's memory: copy through wp.copy() instead",
    218: "the driver rejects the PTX: its log is above; please report this as a bug",
    221: "the driver's PTX compiler (libnvidia-ptxjitcompiler) is missing: install it, or the `cuda` extra, whose "
    "ptxas compiles to machine code",
    222: "the driver is older than the PTX version: install a newer NVIDIA driver, or the `cuda` extra, whose ptxas "
    "compiles to machine code",
    223: "the driver may translate no PTX here (CUDA_DISABLE_PTX_JIT): install the `cuda` extra, whose ptxas compiles "
    "to machine code",
    304: "the operating system refused the call; in a container, see that all of the device's files are in it, and "
    "that as much memory may be locked as is asked for (ulimit -l)",
    400: "a stream, an event or a graph that was given back already, or is of another device: keep what it came from",
    500: "the driver, or the code that was loaded, has nothing of that name; please report this as a bug",
    600: "the work is not done yet: wait for it first",
    701: "a block needs more registers or shared memory than a multiprocessor has: launch with a smaller block_dim, or "
    "declare the kernel with @wp.kernel(launch_bounds=...)",
    704: "the other device's memory can be used already",
    705: "the other device's memory can't be used anyway",
    709: "the device's context was destroyed by whoever made it, and all memory there with it",
    711: "the device can use the memory of no further one: disable access that is not needed, or copy by wp.copy()",
    800: "the system does not allow this to the process: see the limits of its container, of MIG or of MPS",
    801: "the device or the driver does not support this",
    802: "the system is not ready for CUDA: where GPUs are joined by NVSwitch, nvidia-fabricmanager has to run",
    803: "the driver's library and its kernel module differ in version: reboot after the update",
    804: "the forward compatibility package (cuda-compat) does not support this device: take it off LD_LIBRARY_PATH",
    805: "the MPS server does not answer: start nvidia-cuda-mps-control again, or unset CUDA_MPS_PIPE_DIRECTORY",
    900: "the operation can't be captured: do it before the capture begins",
    901: "an operation that can't be captured has ended the capture",
    902: "two captures would become one: let no stream of one wait for a stream of the other",
    903: "the capture was begun on another stream: end it there",
    904: "a stream that the capture forked to was not joined: let the captured stream wait for it",
    905: "the capture depends on work outside of it: let the stream wait before the capture begins; inside of another "
    "library's capture, such as torch.cuda.graph, launch between wp.capture_begin(external=True) and wp.capture_end()",
    906: "the capture would depend on the legacy default stream, which another library uses: run that library on a "
    "stream of its own",
    907: "the event was recorded in a capture, so there is nothing to wait for or to time: record it again outside",
    908: "another thread began the capture: end it there, or begin it with mode=wp.CaptureMode.RELAXED",
    910: "the graphs are not built alike: capture anew",
    999: "the driver does not say what; the system's log (dmesg) may, in lines with `Xid`",
}

_STICKY_ADVICE = (
    "; an earlier kernel or this one failed on the device, all memory there is lost, and every further CUDA call of "
    "this process fails: start the process again, with wp.config.mode = 'debug' to be told kernel, line and thread"
)

_STICKY_REASON = {
    700: "a kernel accessed memory that is not its own (an index out of bounds, or an array that was freed)",
    702: "a kernel ran longer than the display driver allows",
    710: "an assert in a kernel failed",
    714: "a kernel's calls went deeper than its stack, or over it",
    715: "a kernel came to an instruction that the device does not have",
    716: "a kernel accessed memory at an address that is no multiple of the element's size",
    717: "a kernel took an address of one kind of memory for one of another",
    718: "a kernel jumped to where no code is",
    719: "a kernel failed",
}

_HARDWARE = {
    214: "memory of the device has failed and could not be corrected (ECC); all that was there is lost. Start the "
    "process again; where this comes again, nvidia-smi -q -d ECC tells more, and the device needs a reset or is "
    "to be replaced",
    220: "the connection between devices has failed (NVLink), and every further CUDA call of this process fails. Start "
    "the process again; nvidia-smi nvlink --status tells more",
}


class CudaError(RuntimeError):
    """A call of the CUDA driver failed.

    Attributes:
        code: The driver's number for what happened.
        call: The driver's function.
        is_sticky: Whether the device can't be used any more by this process.
    """

    def __init__(self, call: str, code: int, detail: str = "") -> None:
        self.call = call
        self.code = code
        self.detail = detail
        self.is_sticky = code in STICKY
        super().__init__(message(call, code, detail))

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.call, self.code, self.detail)


class CudaOutOfMemoryError(CudaError, MemoryError):
    """The device's memory does not hold what was asked for."""


def message(call: str, code: int, detail: str = "") -> str:
    """Return what is said of error ``code`` of the driver's function ``call``."""
    name = NAMES.get(code, f"error {code}")
    if code in _HARDWARE:
        return f"{call}: {name}: {_HARDWARE[code]}" + (f"\n{detail}" if detail else "")
    if code in STICKY:
        reason = _STICKY_REASON[code]
        return f"{call}: {name}: {reason}{_STICKY_ADVICE}" + (f"\n{detail}" if detail else "")
    advice = _ADVICE.get(code, "")
    said = "; ".join(part for part in (detail, advice) if part)
    return f"{call}: {name}" + (f": {said}" if said else "")


def error(call: str, code: int, detail: str = "") -> CudaError:
    """Return the exception for error ``code`` of the driver's function ``call``."""
    cls = CudaOutOfMemoryError if code == OUT_OF_MEMORY else CudaError
    return cls(call, code, detail)


def out_of_memory(call: str, place: str, asked: int, free: int, total: int) -> CudaError:
    """Return the exception for an allocation of ``asked`` bytes that ``place`` has no room for."""
    return error(
        call,
        OUT_OF_MEMORY,
        f"{place} has no room for {size(asked)}; {size(free)} of {size(total)} are free",
    )


def size(nbytes: int) -> str:
    """Return a number of bytes as people read it."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= factor:
            return f"{nbytes / factor:.2f} {unit}"
    return f"{nbytes} bytes"
