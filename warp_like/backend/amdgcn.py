"""LLVM IR to objects for AMD's GPUs, and to their assembly. Neither needs a GPU.

An object is relocatable: ROCm's linker (``ld.lld -shared``) makes of it what HIP loads. ``backend/ocml.py`` finds the
library of math functions, whose bitcode is linked in.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from warp_like.backend.llvm_tools import LOCK, binding_with_all_targets, link_internally, optimize, parsed, run_passes
from warp_like.backend.ocml import controls, require_ocml
from warp_like.backend.target import Target

_OCML_CALL = re.compile(r"^declare .*@(__ocml_\w+)\(", re.MULTILINE)


def compile_object(text: str, target: Target, *, flushes: bool = False) -> bytes:
    """Return the object of the module ``text``; ``flushes`` says that denormal numbers of float32 become 0.

    Raises:
        RuntimeError: The module calls math functions, whose library is not on this machine.
    """
    made: bytes = _compiled(text, target, flushes, "emit_object")
    return made


def compile_assembly(text: str, target: Target, *, flushes: bool = False) -> str:
    """Return the assembly of the module ``text``, with registers and occupancy in comments; see ``compile_object``."""
    return str(_compiled(text, target, flushes, "emit_assembly"))


def _compiled(text: str, target: Target, flushes: bool, emit: str) -> Any:
    with LOCK:
        llvm, machine = _machine(target)
        called = frozenset(_OCML_CALL.findall(text))
        with parsed(llvm, text, machine) as module:
            if called:
                link_internally(llvm, module, machine, _bitcode_of(called, target, flushes))
            optimize(llvm, module, machine, vectorize=False)
            return getattr(machine, emit)(module)


@functools.lru_cache(maxsize=8)
def _machine(target: Target) -> tuple[Any, Any]:
    llvm = binding_with_all_targets()
    found = llvm.Target.from_triple(target.triple)
    return llvm, found.create_target_machine(
        cpu=target.name, features=target.features, opt=3, reloc="pic", codemodel="default"
    )


@functools.lru_cache(maxsize=64)
def _bitcode_of(called: frozenset[str], target: Target, flushes: bool) -> bytes:
    """The part of the library that the functions ``called`` need."""
    llvm, machine = _machine(target)
    calls = "".join(f"declare void @{name}()\n" for name in sorted(called))
    with parsed(llvm, controls(target, flushes=flushes) + calls, machine) as module:
        link_internally(llvm, module, machine, require_ocml(called).read_bytes())
        for name in called:
            module.get_function(name).linkage = "external"
        run_passes(llvm, ("add_global_dead_code_eliminate_pass",), module, machine)
        return bytes(module.as_bitcode())
