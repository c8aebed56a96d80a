"""OpenCL's functions as the rest of the folder sees them: one method a call, ints and bytes in and out.

This file alone knows the library, through ctypes. Handles and addresses are ints. Every method raises ``OpenClError``
where OpenCL returns an error. Constants are those of Khronos' ``cl.h``.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from warp_like.runtime.memory.registry import Unavailable

_ERRORS = {
    -1: "device not found", -2: "device not available", -4: "memory object allocation failure",
    -5: "out of resources", -6: "out of host memory", -11: "build program failure", -30: "invalid value",
    -33: "invalid device", -34: "invalid context", -42: "invalid binary", -45: "invalid program executable",
    -46: "invalid kernel name", -51: "invalid argument size", -52: "invalid kernel arguments",
    -54: "invalid work group size", -1001: "no platform is registered",
}  # fmt: skip
NOT_FOUND, NO_PLATFORM = -1, -1001
_ANY_DEVICE, _READ_WRITE = 0xFFFFFFFF, 1
_NAME, _EXTENSIONS, _IL_VERSION, _SVM = 0x102B, 0x1030, 0x105B, 0x1053
_GLOBAL_MEMORY, _PARAMETER_BYTES = 0x101F, 0x1017
_BUILD_LOG, _SVM_POINTERS = 0x1183, 0x11B6

_H = c_void_p
_SIGNATURES: dict[str, tuple[Any, ...]] = {  # the result, then the arguments
    "clGetPlatformIDs": (c_int32, c_uint32, POINTER(_H), POINTER(c_uint32)),
    "clGetDeviceIDs": (c_int32, _H, c_uint64, c_uint32, POINTER(_H), POINTER(c_uint32)),
    "clGetDeviceInfo": (c_int32, _H, c_uint32, c_size_t, _H, POINTER(c_size_t)),
    "clCreateContext": (_H, _H, c_uint32, POINTER(_H), _H, _H, POINTER(c_int32)),
    "clCreateCommandQueueWithProperties": (_H, _H, _H, _H, POINTER(c_int32)),
    "clCreateProgramWithIL": (_H, _H, c_char_p, c_size_t, POINTER(c_int32)),
    "clBuildProgram": (c_int32, _H, c_uint32, POINTER(_H), c_char_p, _H, _H),
    "clGetProgramBuildInfo": (c_int32, _H, _H, c_uint32, c_size_t, _H, POINTER(c_size_t)),
    "clReleaseProgram": (c_int32, _H),
    "clCreateKernel": (_H, _H, c_char_p, POINTER(c_int32)),
    "clReleaseKernel": (c_int32, _H),
    "clSetKernelArg": (c_int32, _H, c_uint32, c_size_t, _H),
    "clSetKernelArgSVMPointer": (c_int32, _H, c_uint32, _H),
    "clSetKernelExecInfo": (c_int32, _H, c_uint32, c_size_t, _H),
    "clEnqueueNDRangeKernel": (
        c_int32, _H, _H, c_uint32, _H, POINTER(c_size_t), POINTER(c_size_t), c_uint32, _H, _H,
    ),
    "clFinish": (c_int32, _H),
    "clSVMAlloc": (_H, _H, c_uint64, c_size_t, c_uint32),
    "clSVMFree": (None, _H, _H),
    "clEnqueueSVMMemcpy": (c_int32, _H, c_uint32, _H, _H, c_size_t, c_uint32, _H, _H),
    "clEnqueueSVMMemFill": (c_int32, _H, _H, _H, c_size_t, c_size_t, c_uint32, _H, _H),
}  # fmt: skip


class OpenClError(RuntimeError):
    """An error that OpenCL has returned.

    Attributes:
        call: The function.
        code: Its number.
    """

    def __init__(self, call: str, code: int, detail: str = "") -> None:
        self.call, self.code = call, code
        said = f"{call}: {_ERRORS.get(code, 'OpenCL error')} ({code})"
        super().__init__(f"{said}\n{detail}" if detail else said)


def libraries() -> list[str]:
    """Return the libraries to try: the loader of all OpenCL drivers, and Intel's as pip installs it."""
    loader = {"linux": "libOpenCL.so.1", "win32": "OpenCL.dll"}.get(sys.platform, "libOpenCL.so")
    return [loader, str(Path(sys.prefix, "lib", "libintelocl.so"))]


class OpenCl:
    """The functions of one library.

    Raises:
        Unavailable: It is not there, or lacks a function of OpenCL 2.1.
    """

    def __init__(self, library: str) -> None:
        try:
            self._library = ctypes.CDLL(library)
            for name, (result, *args) in _SIGNATURES.items():
                function = getattr(self._library, name)
                function.restype, function.argtypes = result, args
        except (OSError, AttributeError) as e:
            raise Unavailable(str(e)) from None

    def _call(self, name: str, *args: Any) -> None:
        code = getattr(self._library, name)(*args)
        if code:
            raise OpenClError(name, code)

    def _made(self, name: str, *args: Any) -> int:
        code = c_int32()
        made = getattr(self._library, name)(*args, ctypes.byref(code))
        if code.value or not made:
            raise OpenClError(name, code.value)
        return int(made)

    # ---- devices

    def devices(self) -> list[int]:
        """The devices of all platforms."""
        found = []
        for platform in self._list("clGetPlatformIDs"):
            found += self._list("clGetDeviceIDs", platform, _ANY_DEVICE)
        return found

    def _list(self, name: str, *args: Any) -> list[int]:
        count = c_uint32()
        code = getattr(self._library, name)(*args, 0, None, ctypes.byref(count))
        if code in (NOT_FOUND, NO_PLATFORM):
            return []
        if code:
            raise OpenClError(name, code)
        handles = (_H * count.value)()
        self._call(name, *args, count.value, handles, None)
        return [int(h) for h in handles if h]

    def _info(self, device: int, what: int) -> bytes:
        size = c_size_t()
        if self._library.clGetDeviceInfo(device, what, 0, None, ctypes.byref(size)):
            return b""  # older versions of OpenCL do not know all questions
        answer = ctypes.create_string_buffer(size.value)
        self._call("clGetDeviceInfo", device, what, size.value, answer, None)
        return answer.raw

    def _text(self, device: int, what: int) -> str:
        return self._info(device, what).rstrip(b"\0").decode(errors="replace").strip()

    def name(self, device: int) -> str:
        """What the device calls itself."""
        return self._text(device, _NAME)

    def extensions(self, device: int) -> frozenset[str]:
        """The extensions that the device has."""
        return frozenset(self._text(device, _EXTENSIONS).split())

    def takes_spirv(self, device: int) -> bool:
        """Whether the device takes SPIR-V, and kernels reach its memory by address."""
        return "SPIR-V" in self._text(device, _IL_VERSION) and any(self._info(device, _SVM))

    def memory(self, device: int) -> int:
        """Bytes of memory."""
        return int.from_bytes(self._info(device, _GLOBAL_MEMORY), sys.byteorder)

    def parameter_bytes(self, device: int) -> int:
        """The most bytes of a kernel's parameters."""
        return int.from_bytes(self._info(device, _PARAMETER_BYTES), sys.byteorder)

    def context(self, device: int) -> int:
        """A context of the device."""
        return self._made("clCreateContext", None, 1, ctypes.byref(_H(device)), None, None)

    def queue(self, context: int, device: int) -> int:
        """A queue whose work is done in order."""
        return self._made("clCreateCommandQueueWithProperties", context, device, None)

    # ---- programs

    def program(self, context: int, device: int, spirv: bytes) -> int:
        """The program of a module in SPIR-V, compiled for the device; divisions and square roots are exact."""
        program = self._made("clCreateProgramWithIL", context, spirv, len(spirv))
        options = b"-cl-fp32-correctly-rounded-divide-sqrt"
        code = self._library.clBuildProgram(program, 1, ctypes.byref(_H(device)), options, None, None)
        if code:
            said = self._build_log(program, device)
            self._library.clReleaseProgram(program)
            raise OpenClError("clBuildProgram", code, said)
        return program

    def _build_log(self, program: int, device: int) -> str:
        size = c_size_t()
        self._library.clGetProgramBuildInfo(program, device, _BUILD_LOG, 0, None, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value + 1)
        self._library.clGetProgramBuildInfo(program, device, _BUILD_LOG, size.value, text, None)
        return text.value.decode(errors="replace").strip()

    def kernel(self, program: int, name: str) -> int:
        """The entry ``name`` of a program."""
        return self._made("clCreateKernel", program, name.encode())

    def release(self, kernel: int, program: int) -> None:
        """Give back a kernel and its program."""
        self._call("clReleaseKernel", kernel)
        self._call("clReleaseProgram", program)

    def launch(
        self, queue: int, kernel: int, values: Iterable[bytes], context: int, reached: Iterable[int], items: int
    ) -> None:
        """Run a kernel on ``items`` work items and wait.

        Args:
            queue: Where it runs.
            kernel: The kernel.
            values: Its parameters by value.
            context: The address that is its last parameter, or 0.
            reached: The addresses of all memory that it may reach.
            items: How many.
        """
        last = -1
        for last, value in enumerate(values):
            self._call("clSetKernelArg", kernel, last, len(value), ctypes.create_string_buffer(value, len(value)))
        self._call("clSetKernelArgSVMPointer", kernel, last + 1, context or None)
        addresses = list(reached)
        if addresses:
            pointers = (_H * len(addresses))(*addresses)
            self._call("clSetKernelExecInfo", kernel, _SVM_POINTERS, ctypes.sizeof(pointers), pointers)
        size = ctypes.byref(c_size_t(items))
        self._call("clEnqueueNDRangeKernel", queue, kernel, 1, None, size, None, 0, None, None)
        self._call("clFinish", queue)

    # ---- memory

    def allocate(self, context: int, nbytes: int, align: int) -> int:
        """The address of fresh memory; 0 where there is no room for it."""
        return int(self._library.clSVMAlloc(context, _READ_WRITE, nbytes, align) or 0)

    def free(self, context: int, address: int) -> None:
        """Give back memory that nothing uses."""
        self._library.clSVMFree(context, address)

    def copy(self, queue: int, pieces: Iterable[tuple[int, int, int]]) -> None:
        """Copy pieces, each given as to where, from where and how many bytes, and wait."""
        for to, source, nbytes in pieces:
            self._call("clEnqueueSVMMemcpy", queue, 0, to, source, nbytes, 0, None, None)
        self._call("clFinish", queue)

    def clear(self, queue: int, address: int, nbytes: int) -> None:
        """Set bytes to zero, and wait."""
        zero = ctypes.create_string_buffer(1)
        self._call("clEnqueueSVMMemFill", queue, address, zero, 1, nbytes, 0, None, None)
        self._call("clFinish", queue)
