"""LLVM IR to object code for the CPU, and object code to addresses in this process."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from warp_like import _native
from warp_like.backend.llvm_tools import (
    LOCK,
    InvalidCode,
    binding,
    binding_with_all_targets,
    optimize,
    others,
    parsed,
    preload,
    simplify,
    tidy,
    without_strength_reduction,
)
from warp_like.base import log

if TYPE_CHECKING:
    from warp_like.backend.llvm.entry import Lowered
    from warp_like.backend.target import Target

LARGEST_WIDENED = 3000
"""Lines of LLVM IR beyond which LLVM neither vectorises nor unrolls the loops of a kernel.

Those of a kernel in lanes it leaves as they are, whatever the size (``simplify``): their bodies are vectors long enough
that unrolling them gains nothing, and took up to six times as long as the rest of LLVM. Nor does it unroll where loops
of one thread are in lanes: for three products of tiles that took as long as the rest of LLVM.

Its time would grow with the square of their number or size: 12,000 lines in the loop over the grid take the vectoriser
45 s, 3,400 lines in 125 loops take the unroller 5 s, and the rest of LLVM takes about 1 s for either.
"""

LARGEST_TILED = 12000
"""Lines beyond which LLVM makes no vectors in a kernel on tiles, whose work is in many short loops: 7,400 lines in 60
of them take 1.7 s with vectors and 2 s without, since vectors are less code."""

_Made = TypeVar("_Made")

_numbers = itertools.count()


def compile_object(module: Lowered, target: Target) -> bytes:
    """Return the relocatable object of ``module``."""
    from warp_like.backend.target import host_target

    if preload() and target.triple == host_target().triple:
        with LOCK, others():
            return _without_invalid_code(module, lambda **how: _object(module, target, **how))
    return bytes(_compile(module, target, lambda machine, module: machine.emit_object(module)))


def compile_assembly(module: Lowered, target: Target) -> str:
    """Return the assembly of ``module``."""
    return str(_compile(module, target, lambda machine, module: machine.emit_assembly(module)))


def optimized_ir(module: Lowered, target: Target) -> str:
    """Return ``module`` after LLVM's optimisations."""
    return str(_compile(module, target, lambda machine, module: str(module)))


def _compile(lowered: Lowered, target: Target, emit: Callable[[Any, Any], Any]) -> Any:
    with LOCK:
        llvm, machine = _machine(target)
        return _without_invalid_code(lowered, lambda **how: _emitted(lowered, llvm, machine, emit, **how))


def _without_invalid_code(lowered: Lowered, make: Callable[..., _Made]) -> _Made:
    """Return what ``make`` does with ``vectorize`` and ``unroll`` as they suit ``lowered``."""
    lines = lowered.text.count("\n")
    unroll = not (lowered.in_lanes or lowered.loops_in_lanes) and lines <= LARGEST_WIDENED
    vectorize = unroll or (lowered.tiled and lines <= LARGEST_TILED)
    try:
        return make(vectorize=vectorize, unroll=unroll)
    except InvalidCode as e:  # its vectorisers make the most complicated code
        log.info(f"a kernel is compiled without LLVM's vectorisers, which made invalid code: {e}")
        return make(vectorize=False, unroll=False)


_TIDY, _STANDARD = 0, 3


def _level(lowered: Lowered, vectorize: bool) -> int:
    """Return how much LLVM does before the code generator: ``_TIDY``, a level of ``simplify``, or ``_STANDARD``."""
    if lowered.straight:
        return _TIDY
    if lowered.in_lanes and not (lowered.also_alone and vectorize):
        return 2 if lowered.has_lines else 1
    return _STANDARD


def _emitted(
    lowered: Lowered, llvm: Any, machine: Any, emit: Callable[[Any, Any], Any], *, vectorize: bool, unroll: bool
) -> Any:
    level = _level(lowered, vectorize)
    with parsed(llvm, lowered.text, machine) as module:
        if level == _STANDARD:
            optimize(llvm, module, machine, vectorize=vectorize, unroll=unroll)
            return emit(machine, module)
        if level == _TIDY:
            tidy(llvm, module, machine)
        else:
            simplify(module, machine, level=level)
        with without_strength_reduction(llvm, machine):
            return emit(machine, module)


def _object(lowered: Lowered, target: Target, *, vectorize: bool, unroll: bool) -> bytes:
    """Return the object as ``_emitted`` makes it, without llvmlite's Python files."""
    level = _level(lowered, vectorize)
    made = _native.llvm_object(target.triple, target.name, target.features, lowered.text, level, vectorize, unroll)
    if isinstance(made, str):
        raise InvalidCode(made)
    return made


@functools.lru_cache(maxsize=8)
def _machine(target: Target) -> tuple[Any, Any]:
    from warp_like.backend.target import host_target

    llvm = binding() if target.triple == host_target().triple else binding_with_all_targets()
    found = llvm.Target.from_triple(target.triple)
    machine = found.create_target_machine(
        cpu=target.name, features=target.features, opt=3, reloc="pic", codemodel="small"
    )
    return llvm, machine


@functools.lru_cache(maxsize=1)
def _jit() -> Any:
    from warp_like.backend.target import host_target, load_libmvec  # loading a kernel from the cache takes no target

    llvm = binding()
    load_libmvec()
    target = host_target()
    found = llvm.Target.from_triple(target.triple)
    machine = found.create_target_machine(
        cpu=target.name, features=target.features, opt=3, reloc="pic", codemodel="small", jit=True
    )
    jit = llvm.create_lljit_compiler(machine, use_jit_link=True)
    # Never freed: loaded code may outlive every other object when the interpreter ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(jit))
    return jit


class Loaded:
    """Object code in this process. It stays as long as this object lives; the last reference frees it."""

    def __init__(self, tracker: Any) -> None:
        self._tracker = tracker

    def address(self, name: str) -> int:
        """Return the address of entry point ``name``."""
        return int(self._tracker[name])


def load(data: bytes, entries: tuple[str, ...], symbols: Mapping[str, int]) -> Loaded | _native.Code:
    """Load an object that ``compile_object`` made for this host.

    The native extension loads what it can, which takes no LLVM; the rest goes through LLVM's linker.

    Args:
        data: The object.
        entries: The names of the entry points that will be asked for.
        symbols: Addresses of functions that the object may call, beyond those of the C and math libraries.

    Raises:
        RuntimeError: It is damaged, or calls a function that is nowhere.
    """
    code = _native.load_object(data, dict(symbols))
    if not isinstance(code, _native.Code):
        return load_with_llvm(data, entries, symbols)
    for entry in entries:
        if not code.has(entry):
            raise RuntimeError(f"the object has no function {entry}")
    return code


def load_with_llvm(data: bytes, entries: tuple[str, ...], symbols: Mapping[str, int]) -> Loaded:
    """Load an object through LLVM's linker; as ``load``."""
    with LOCK:
        jit = _jit()
        builder = binding().JITLibraryBuilder().add_object_img(data).add_current_process()
        for name, address in symbols.items():
            builder.import_symbol(name, address)
        for entry in entries:
            builder.export_symbol(entry)
        return Loaded(builder.link(jit, f"kernel{next(_numbers)}"))
