"""The common part of the compilers for the CPU and for GPUs: LLVM's initialisation, parsing, the optimisation pipeline.

LLVM is used by one thread at a time, under ``LOCK``.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from warp_like.base.forking import Order, held_by_forks

LOCK = held_by_forks(threading.RLock(), Order.LLVM)


class InvalidCode(RuntimeError):
    """LLVM's optimiser has made code that LLVM's verifier refuses. Machine code of it would compute anything."""


_DIRECT = ("0.48", "0.49", "0.50")
"""The versions of llvmlite whose library the native extension calls itself (``native/llvm.cpp``).

Compared were the types of the functions in llvmlite's Python files. All other versions are used through these files.
"""


@functools.lru_cache(maxsize=1)  # to look for the library takes a tenth of the time of compiling a small kernel
def preload() -> bool:
    """Let LLVM's library be loaded in the background, whose relocations take as long as importing a floor of ours.

    Returns:
        Whether the native extension may call it: ``_native.llvm_object``.
    """
    from importlib.machinery import PathFinder

    from warp_like import _native

    spec = PathFinder.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return False
    import llvmlite
    from llvmlite.utils import get_library_name

    direct = ".".join(llvmlite.__version__.split(".")[:2]) in _DIRECT
    _native.preload(os.path.join(os.path.dirname(spec.origin), "binding", get_library_name()), direct)
    return direct


def others() -> Any:
    """Return the lock under which others call LLVM through llvmlite, as its Python files do."""
    loaded = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    return contextlib.nullcontext() if loaded is None else loaded._lock


@functools.lru_cache(maxsize=1)
def binding() -> Any:
    """Return ``llvmlite.binding``, with the host's target initialised."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@functools.lru_cache(maxsize=1)
def binding_with_all_targets() -> Any:
    """Return ``llvmlite.binding`` with every target initialised."""
    llvm = binding()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


@contextlib.contextmanager
def parsed(llvm: Any, text: str, machine: Any) -> Iterator[Any]:
    """Parse and verify ``text`` into a module laid out for ``machine``, which lives inside the ``with``.

    Module and context are closed here, in this order: the garbage collector, which gets them when an
    exception holds their frame, would free them in any order.
    """
    context = llvm.create_context()
    try:
        module = llvm.parse_assembly(text, context=context)
        try:
            module.triple = machine.triple
            module.data_layout = str(machine.target_data)
            module.verify()
            yield module
        finally:
            module.close()
    finally:
        context.close()


@functools.lru_cache(maxsize=32)
def _builder(machine: Any, level: int, vectorize: bool = False, unroll: bool = False) -> Any:
    """Return LLVM's builder of pipelines for a machine; kept, since LLVM frees only a part of a dropped one."""
    llvm = binding()
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = vectorize
    options.slp_vectorization = vectorize
    options.loop_interleaving = vectorize
    options.loop_unrolling = unroll
    return llvm.create_pass_builder(machine, options)


def _run(passes: Any, builder: Any, *parts: Any) -> None:
    """Run a pass manager over ``parts``, a module or functions of one, and free it.

    llvmlite frees no pass manager: the method of its class that would is hidden by an empty one of another base. The
    class is imported by name: ``llvmlite.binding`` lacks its modules if Ctrl-C has ended a first import of it.
    """
    from llvmlite.binding.newpassmanagers import NewPassManager

    try:
        for part in parts:
            passes.run(part, builder)
    finally:
        NewPassManager._dispose(passes)
        passes.detach()


def run_passes(llvm: Any, names: tuple[str, ...], module: Any, machine: Any) -> None:
    """Run LLVM's passes over ``module``, by the names of llvmlite's methods that add them."""
    passes = llvm.create_new_module_pass_manager()
    for name in names:
        getattr(passes, name)()
    _run(passes, _builder(machine, 2), module)


def link_internally(llvm: Any, module: Any, machine: Any, bitcode: bytes) -> None:
    """Link a library's functions into ``module``, all of them internal so that unused ones are dropped."""
    own = {f.name for f in module.functions if not f.is_declaration}
    library = llvm.parse_bitcode(bitcode, context=module._context)
    library.triple = machine.triple
    library.data_layout = str(machine.target_data)
    module.link_in(library)
    for function in module.functions:
        if not function.is_declaration and function.name not in own:
            function.linkage = "internal"


def optimize(
    llvm: Any, module: Any, machine: Any, *, vectorize: bool, unroll: bool = True, first: tuple[str, ...] = ()
) -> None:
    """Run LLVM's standard pipeline at level 3 over ``module``, the passes named in ``first`` before it.

    Raises:
        InvalidCode: LLVM has a defect that this module shows. To look for that takes 0.5 % of the pipeline's time.
    """
    if first:
        run_passes(llvm, first, module, machine)
    builder = _builder(machine, 3, vectorize, unroll)
    _run(builder.getModulePassManager(), builder, module)
    try:
        module.verify()
    except RuntimeError as e:
        raise InvalidCode(str(e)) from None


def simplify(module: Any, machine: Any, *, level: int = 1) -> None:
    """Run LLVM's simplifications over each function of ``module``, for code that has its vectors already.

    They remove what is computed twice, move out of loops what stays the same, and keep arrays in registers. The
    standard pipeline takes twice as long, mostly between functions and for vectors, and gains nothing here.
    Level 2 also threads jumps. Code that says its lines needs that: where the ends of two branches are joined, the code
    generator forgets which lines they are of.
    """
    builder = _builder(machine, level)
    defined = [f for f in module.functions if not f.is_declaration]
    _run(builder.getFunctionPassManager(), builder, *defined)


_NEWEST = 22
"""The newest LLVM that is known to have ``-disable-lsr``: it would end the process if it lacked that."""


@contextlib.contextmanager
def without_strength_reduction(llvm: Any, machine: Any) -> Iterator[None]:
    """Let the code generator leave the counters of loops as they are inside the ``with``.

    In lanes the x86 has addressing modes for all that a loop counts, so loops are no faster with other counters: the
    programs of the throughput and gradient benchmarks take 0.99 of the time without them. To find them takes a fifth of
    the code generator's time for a small kernel. The option belongs to the process; other users of llvmlite have it as
    it was whenever no kernel is being compiled.
    """
    if not machine.triple.startswith("x86_64") or llvm.llvm_version_info[0] > _NEWEST:
        yield
        return
    llvm.set_option("warp_like", "-disable-lsr")
    try:
        yield
    finally:
        llvm.set_option("warp_like", "-disable-lsr=false")


def tidy(llvm: Any, module: Any, machine: Any) -> None:
    """Bring ``module`` into the form that the code generator expects, for code that has nothing more to gain.

    Its loops have that form already (``LaneGrid`` in ``backend/llvm/grids.py``).
    """
    run_passes(llvm, ("add_instruction_combine_pass",), module, machine)
