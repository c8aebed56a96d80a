"""Snippets of ``wp.func_native``: C++ for the host's compiler, nvcc or NVRTC, and the joining of what they compile to.

A snippet becomes an ``extern "C"`` function that the kernel calls: numbers of 32 and 64 bits by value, everything else
by address, and a pointer to each result. Its machine code is joined with the kernel's, so that an artifact is whole.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from warp_like.backend.llvm.native_calls import BY_VALUE
from warp_like.backend.nvrtc import NvrtcError, compile_with_nvrtc, find_nvrtc
from warp_like.backend.target import Target
from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.native import NativeCode
from warp_like.ir.types import (
    Array,
    Mat,
    Quat,
    Scalar,
    Struct,
    Transform,
    Type,
    Vec,
)

_SCALARS = {"bool": "bool", "float16": "wp::half", "bfloat16": "wp::bfloat16", "float32": "float", "float64": "double"}


# --- C++ ---


def source_text(code: NativeCode) -> str:
    """Return the C++ or CUDA C++ that holds ``code``."""
    return f"{_header()}\n{_function(code)}"


@functools.lru_cache(maxsize=1)
def _header() -> str:
    return Path(__file__).with_name("snippet.h").read_text(encoding="utf-8")


def cpp_type(t: Type) -> str:
    """Return how C++ names a type that is no array."""
    match t:
        case Scalar():
            return _SCALARS.get(str(t), f"{t}_t")
        case Vec(length, dtype):
            return f"wp::vec_t<{length}, {cpp_type(dtype)}>"
        case Mat(rows, cols, dtype):
            return f"wp::mat_t<{rows}, {cols}, {cpp_type(dtype)}>"
        case Quat(dtype):
            return f"wp::quat_t<{cpp_type(dtype)}>"
        case Transform(dtype):
            return f"wp::transform_t<{cpp_type(dtype)}>"
        case Struct(name, _):
            return name
    raise WarpCodegenTypeError(f"native code takes no {t}")


def _function(code: NativeCode) -> str:
    """The function that the kernel calls, around the one whose body is the snippet."""
    structs = dict(code.structs)
    outer = [_outer(code, k, name, t) for k, (name, t) in enumerate(code.params)]
    inner: dict[str, str] = {}
    before: list[str] = []
    after: list[str] = []
    for k, (name, t) in enumerate(code.params):
        root = name.partition(".")[0]
        if root not in structs:
            shown = f"const {_array(code, name, t)}&" if isinstance(t, Array) else cpp_type(t)
            inner[name] = f"{shown}{'&' if name in code.updated else ''} {name}"
            continue
        if root not in inner:
            changed = any(u.startswith(f"{root}.") for u in code.updated)
            inner[root] = f"{cpp_type(structs[root])}{'&' if changed else ''} {root}"
            before.append(f"{cpp_type(structs[root])} {root}{{}};")
        before.append(f"{name} = {outer[k][1]};")
        if name in code.updated:
            after.append(f"{outer[k][1]} = {name};")
    passed = [root if root in structs else value for root, value in _arguments(code, outer)]
    call = f"{code.symbol}_body({', '.join(passed)});"
    result = "void" if code.result is None else cpp_type(code.result)
    if code.result is not None:
        call = f"const {result} wl_returned = {call}"
        places = [(f"wl_result_{k}", path, t) for k, (path, t) in enumerate(code.returned)]
        outer += [(f"{cpp_type(t)}* {place}", "") for place, _, t in places]
        after += [f"*{place} = wl_returned{'.' * bool(path)}{path};" for place, path, _ in places]
    return (
        f"namespace {{\n{_declarations(code)}"
        f"WL_INLINE {result} {code.symbol}_body({', '.join(inner.values())}) {{\n"
        f'#line 1 "{code.name}"\n{code.text}\n}}\n}}\n'
        f'extern "C" WL_ENTRY void {code.symbol}({", ".join(declared for declared, _ in outer)}) '
        f"{{ {' '.join([*before, call, *after])} }}\n"
    )


def _outer(code: NativeCode, k: int, name: str, t: Type) -> tuple[str, str]:
    """Parameter ``k`` of the function that the kernel calls, and its value."""
    if isinstance(t, Array):
        made = "wp::array_from" + _array(code, name, t).removeprefix("wp::array_t")
        return f"const wp::passed_array<{t.ndim}>* wl_{k}", f"{made}(wl_{k})"
    if name in code.updated:
        return f"{cpp_type(t)}* wl_{k}", f"*wl_{k}"
    return (f"{cpp_type(t)} wl_{k}", f"wl_{k}") if t in BY_VALUE else (f"const {cpp_type(t)}* wl_{k}", f"*wl_{k}")


def _arguments(code: NativeCode, outer: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The arguments of the snippet's function, by parameter; fields stand under the name of their struct."""
    found = {name.partition(".")[0]: value for (name, _), (_, value) in zip(code.params, outer, strict=True)}
    return list(found.items())


def _array(code: NativeCode, name: str, t: Array) -> str:
    """The C++ type of an array parameter: constant unless written, or a field of a struct, whose type is its own."""
    constant = "" if name in code.written or "." in name else "const "
    return f"wp::array_t<{constant}{cpp_type(t.dtype)}, {t.ndim}>"


def _declarations(code: NativeCode) -> str:
    """The structs that a snippet mentions, each after those that it holds."""
    found: dict[str, Struct] = {}

    def add(t: Type) -> None:
        if not isinstance(t, Struct):
            return
        for _, field in t.fields:
            add(field)
        if found.setdefault(t.name, t) != t:
            raise WarpCodegenTypeError(f"native code `{code.name}` meets two structs of the name {t.name}")

    for t in (*(t for _, t in code.structs), *([] if code.result is None else [code.result])):
        add(t)
    return "".join(f"struct {name} {{ {_members(t)} }};\n" for name, t in found.items())


def _members(t: Struct) -> str:
    array = "wp::array_t<{}, {}>".format
    types = (array(cpp_type(f.dtype), f.ndim) if isinstance(f, Array) else cpp_type(f) for _, f in t.fields)
    return " ".join(f"{shown} {name};" for (name, _), shown in zip(t.fields, types, strict=True))


# --- the host ---


def join_objects(kernel: bytes, calls: Sequence[ops.Native]) -> bytes:
    """Return the relocatable object of a kernel joined with those of the snippets which it calls.

    Raises:
        WarpCodegenError: There is no C++ compiler, or it refuses a snippet.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{k}.o") for k in range(1 + len(calls))]
        files[0].write_bytes(kernel)
        for file, call in zip(files[1:], calls, strict=True):
            with at(call.loc):
                compiler = _require_compiler(call.code)
                file.write_bytes(_compiled(compiler, call.code))
        out = Path(folder, "joined.o")
        _run([*compiler, "-r", "-nostdlib", *map(str, files), "-o", str(out)], "can't join the machine code", "")
        return out.read_bytes()


_NATIVE = "-march=native" if platform.machine().lower() in ("x86_64", "amd64") else "-mcpu=native"
_FLAGS = ["-x", "c++", "-std=c++17", "-O3", _NATIVE, "-fPIC", "-w", "-c"]
_FLAGS += ["-fno-exceptions", "-fno-rtti", "-fno-stack-protector", "-fno-math-errno"]
_FLAGS += ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]


@functools.lru_cache(maxsize=256)
def _compiled(compiler: tuple[str, ...], code: NativeCode) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "snippet.cpp"), Path(folder, "snippet.o")
        source.write_text(source_text(code), encoding="utf-8")
        _run(
            [*compiler, *_FLAGS, str(source), "-o", str(out)], f"refuses the native code of `{code.name}`", code.symbol
        )
        return out.read_bytes()


def _require_compiler(code: NativeCode) -> tuple[str, ...]:
    if sys.platform == "win32":
        raise WarpCodegenError(
            f"the native code of `{code.name}` can't run on the CPU on Windows: kernels are ELF objects, which "
            "compilers for Windows do not make"
        )
    found = host_compiler()
    if found is None:
        raise WarpCodegenError(
            f"the native code of `{code.name}` needs a C++ compiler, and neither c++, g++ nor clang++ is on PATH",
            help="install one (Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++; macOS: xcode-select "
            "--install; conda: conda install cxx-compiler), or name it in the environment variable CXX",
        )
    return found


def host_compiler() -> tuple[str, ...] | None:
    """Return the command of the host's C++ compiler: that of ``CXX``, else the first that is found."""
    given = shlex.split(os.environ.get("CXX", ""))
    if given and shutil.which(given[0]):
        return tuple(given)
    return next(((name,) for name in ("c++", "g++", "clang++") if shutil.which(name)), None)


# --- CUDA ---

_EXTERN = re.compile(r"\.extern \.func\s+(?:\([^)]*\)\s*)?(wl_native_\w+)\s*(?:\([^)]*\))?\s*;", re.DOTALL)
_VERSION = re.compile(r"^\.version (\d+)\.(\d+)$", re.MULTILINE)
_HEAD = re.compile(r"^\.(?:version|target|address_size)\b.*$", re.MULTILINE)


def join_ptx(kernel: str, calls: Sequence[ops.Native], target: Target) -> str:
    """Return the PTX of a kernel with that of the snippets which it calls in front.

    Raises:
        WarpCodegenError: There is neither nvcc nor NVRTC, or it refuses a snippet.
    """
    made = []
    for call in calls:
        with at(call.loc):
            made.append(_cuda_compiled(call.code, target.name))
    version = max(tuple(map(int, v)) for text in (kernel, *made) for v in _VERSION.findall(text))
    head = f".version {version[0]}.{version[1]}\n.target {target.name}\n.address_size 64\n"
    return head + "\n".join(_HEAD.sub("", text) for text in (*made, _EXTERN.sub("", kernel)))


@functools.lru_cache(maxsize=256)
def _cuda_compiled(code: NativeCode, arch: str) -> str:
    nvcc = cuda_compiler()
    if nvcc is None:
        return _compiled_at_run_time(code, arch)
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "snippet.cu"), Path(folder, "snippet.ptx")
        source.write_text(source_text(code), encoding="utf-8")
        command = [nvcc, "-ptx", "-rdc=true", f"-arch={arch}", "-std=c++17", "-w", str(source), "-o", str(out)]
        _run(command, f"refuses the native code of `{code.name}`", code.symbol)
        return out.read_text()


def _compiled_at_run_time(code: NativeCode, arch: str) -> str:
    if find_nvrtc() is None:
        raise WarpCodegenError(
            f"the native code of `{code.name}` needs nvcc or NVRTC for CUDA: nvcc is neither on PATH nor under "
            "CUDA_HOME, and NVRTC was not found",
            help="install the CUDA Toolkit (conda: conda install cuda-nvcc), or set CUDA_HOME to its folder; for "
            "NVRTC: pip install cuda-python nvidia-cuda-nvrtc",
        )
    try:
        return compile_with_nvrtc(source_text(code), code.name, arch)
    except NvrtcError as e:
        said = str(e).replace(f"{code.symbol}_body", "the snippet")
        raise WarpCodegenError(f"NVRTC refuses the native code of `{code.name}`:\n{said}") from None


def cuda_compiler() -> str | None:
    """Return the path of nvcc: from PATH, else from ``CUDA_HOME`` or ``CUDA_PATH``."""
    homes = [os.environ.get(v) for v in ("CUDA_HOME", "CUDA_PATH")]
    found = shutil.which("nvcc")
    return found or next((p for h in homes if h and (p := shutil.which("nvcc", path=str(Path(h, "bin"))))), None)


def _run(command: list[str], problem: str, symbol: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).replace(f"{Path(command[-1]).parent}/", "")
        said = said.replace(f"{symbol}_body", "the snippet") if symbol else said
        raise WarpCodegenError(f"{Path(command[0]).name} {problem}:\n{said}")
