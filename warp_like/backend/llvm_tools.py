"""The common part of the CPU and the NVPTX compilers: LLVM's initialisation, parsing, the optimisation pipeline.

LLVM is used by one thread at a time, under ``LOCK``.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from typing import Any

from warp_like.base.forking import Order, held_by_forks

LOCK = held_by_forks(threading.RLock(), Order.LLVM)


def preload() -> None:
    """Let LLVM's library be loaded in the background, whose relocations take as long as importing a floor of ours."""
    from importlib.machinery import PathFinder

    from warp_like import _native

    spec = PathFinder.find_spec("llvmlite")
    if spec is not None and spec.origin is not None:
        from llvmlite.utils import get_library_name

        _native.preload(os.path.join(os.path.dirname(spec.origin), "binding", get_library_name()))


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


def optimize(
    llvm: Any, module: Any, machine: Any, *, vectorize: bool, unroll: bool = True, first: tuple[str, ...] = ()
) -> None:
    """Run LLVM's standard pipeline at level 3 over ``module``, the passes named in ``first`` before it."""
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = vectorize
    options.slp_vectorization = vectorize
    options.loop_interleaving = vectorize
    options.loop_unrolling = unroll
    builder = llvm.create_pass_builder(machine, options)
    if first:
        early = llvm.create_new_module_pass_manager()
        for name in first:
            getattr(early, name)()
        early.run(module, builder)
    builder.getModulePassManager().run(module, builder)


_TIDYING = (
    "simplify_cfg",
    "instruction_combine",
    "loop_simplify",
    "lcssa",
    "loop_rotate",
    "instruction_combine",
    "simplify_cfg",
)


def tidy(llvm: Any, module: Any, machine: Any) -> None:
    """Bring ``module`` into the form that the code generator expects, for code that has nothing more to gain."""
    passes = llvm.create_new_module_pass_manager()
    for name in _TIDYING:
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2)))
