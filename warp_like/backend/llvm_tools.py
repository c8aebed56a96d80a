"""What the CPU and the NVPTX compilers share: LLVM's initialisation, parsing, the optimisation pipeline.

LLVM is used by one thread at a time, under ``LOCK``.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

LOCK = threading.RLock()


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


def parse(llvm: Any, text: str, machine: Any) -> Any:
    """Return the verified module of ``text``, laid out for ``machine``."""
    module = llvm.parse_assembly(text, context=llvm.create_context())
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    return module


def optimize(llvm: Any, module: Any, machine: Any, *, vectorize: bool, first: tuple[str, ...] = ()) -> None:
    """Run LLVM's standard pipeline at level 3 over ``module``, the passes named in ``first`` before it."""
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = vectorize
    options.slp_vectorization = vectorize
    options.loop_interleaving = vectorize
    options.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, options)
    if first:
        early = llvm.create_new_module_pass_manager()
        for name in first:
            getattr(early, name)()
        early.run(module, builder)
    builder.getModulePassManager().run(module, builder)
