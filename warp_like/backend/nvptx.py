"""LLVM IR to PTX, and PTX to machine code for a CUDA architecture. Neither needs a GPU."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from warp_like.backend.libdevice import describe_tool, require_disassembler, require_libdevice, require_ptxas
from warp_like.backend.llvm_tools import LOCK, binding_with_all_targets, link_internally, optimize, parsed, run_passes
from warp_like.backend.target import FIRST_TOOLKIT, Target, cuda_target
from warp_like.base.errors import WarpCodegenError

_LIBDEVICE_CALL = re.compile(r"^declare .*@(__nv_\w+)\(", re.MULTILINE)
_ENTRY = re.compile(r"^(?:\.visible )?\.entry (\w+)\(([^)]*)\)", re.MULTILINE)
_PARAMETER = re.compile(r"\.param [^\[,\n]*(?:\[(\d+)\])?")
_VERSION = re.compile(r"^\.version (\d+)\.(\d+)$", re.MULTILINE)

PARAMETER_SPACE = 4352
"""The bytes of parameters that an entry can have in each version of PTX."""

LARGE_PARAMETERS = (8, 1)
"""The first version of PTX in which an entry can have ``LARGEST_SPACE`` bytes; drivers for CUDA 12.1 know it."""

LARGEST_SPACE = 32764


def compile_ptx(text: str, target: Target) -> str:
    """Return the PTX of the module ``text``.

    Raises:
        RuntimeError: The module calls libdevice, which is not on this machine.
        WarpCodegenError: An entry has more parameters than CUDA takes.
    """
    with LOCK:
        llvm, machine = _machine(target)
        called = frozenset(_LIBDEVICE_CALL.findall(text))
        with parsed(llvm, text, machine) as module:
            if called:
                link_internally(llvm, module, machine, _bitcode_of(called, target))
            optimize(llvm, module, machine, vectorize=False)
            return _with_room_for_parameters(str(machine.emit_assembly(module)))


def _with_room_for_parameters(ptx: str) -> str:
    """Raise the version of PTX where parameters need it: older drivers take all other kernels as they are."""
    needed, name = max(((_parameter_bytes(params), name) for name, params in _ENTRY.findall(ptx)), default=(0, ""))
    if needed <= PARAMETER_SPACE:
        return ptx
    if needed > LARGEST_SPACE:
        raise WarpCodegenError(
            f"kernel `{name.removeprefix('wl_')}` has {needed} bytes of arguments; CUDA takes {LARGEST_SPACE}",
            help="pass some of the arguments in an array, for example one of structs that hold arrays",
        )
    version = max(tuple(map(int, _VERSION.findall(ptx)[0])), LARGE_PARAMETERS)
    return _VERSION.sub(".version {}.{}".format(*version), ptx, count=1)


def _parameter_bytes(params: str) -> int:
    """The bytes of an entry's list of parameters: blocks of bytes, and numbers and addresses of at most 8 bytes."""
    return sum(int(size or 8) for size in _PARAMETER.findall(params))


class Assembled(NamedTuple):
    """Machine code, and what its threads need.

    Attributes:
        cubin: The code.
        registers: Of a thread.
        spilled: The bytes of registers that a thread keeps in memory.
        shared: The bytes of shared memory of a block.
    """

    cubin: bytes
    registers: int
    spilled: int
    shared: int


def assemble(ptx: str, target: Target | str) -> bytes:
    """Return the cubin of ``ptx`` for a target, or for an architecture such as ``sm_80``.

    Raises:
        RuntimeError: There is no ptxas for it, or it rejects the text.
    """
    return assembled(ptx, target).cubin


def assembled(ptx: str, target: Target | str) -> Assembled:
    """Return what ``assemble`` does, with what the assembler says about the first entry.

    Raises:
        RuntimeError: There is no ptxas for it, or it rejects the text.
    """
    target = cuda_target(target) if isinstance(target, str) else target
    ptxas = require_ptxas(FIRST_TOOLKIT[target.arch], target.toolkit)
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = [str(ptxas), f"--gpu-name={target.name}", "--verbose", f"--output-file={out}", str(source)]
        if "\t.loc\t" in ptx:
            command.append("--generate-line-info")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.strip() or done.stdout.strip()
            raise RuntimeError(f"{describe_tool(ptxas)} failed for {target.name}: {said}")
        said = done.stdout + done.stderr
        numbers = [
            re.search(p, said) for p in (r"Used (\d+) registers", r"(\d+) bytes spill stores", r"(\d+) bytes smem")
        ]
        return Assembled(out.read_bytes(), *(int(found[1]) if found else 0 for found in numbers))


def disassemble(cubin: bytes) -> str:
    """Return the SASS of a cubin, with source lines where it has them.

    Raises:
        RuntimeError: There is no disassembler, or it refuses the cubin.
    """
    tool = require_disassembler()
    options = ["--print-line-info", "--print-code"] if tool.stem == "nvdisasm" else ["--dump-sass"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(cubin)
        done = subprocess.run([str(tool), *options, str(file)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{tool.name} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout


@functools.lru_cache(maxsize=16)
def _machine(target: Target) -> tuple[Any, Any]:
    llvm = binding_with_all_targets()
    found = llvm.Target.from_triple(target.triple)
    return llvm, found.create_target_machine(cpu=target.name, features=target.features, opt=3, codemodel="default")


@functools.lru_cache(maxsize=64)
def _bitcode_of(called: frozenset[str], target: Target) -> bytes:
    """The part of libdevice that the functions ``called`` need: small, so quickly read for the next kernel."""
    llvm, machine = _machine(target)
    calls = "".join(f"declare void @{name}()\n" for name in sorted(called))
    with parsed(llvm, calls, machine) as module:
        link_internally(llvm, module, machine, require_libdevice(called).read_bytes())
        for name in called:
            module.get_function(name).linkage = "external"
        run_passes(llvm, ("add_global_dead_code_eliminate_pass",), module, machine)
        return bytes(module.as_bitcode())
