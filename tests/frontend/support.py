"""Building kernels from Python functions in tests, and running them by the interpreter."""

from __future__ import annotations
import __future__

import itertools
import linecache
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import warp_like as wp
from tests.interpreter import run
from warp_like.backend import libdevice
from warp_like.backend.nvptx import assemble
from warp_like.frontend.build import build_kernel
from warp_like.frontend.parameters import parameters
from warp_like.frontend.source import parse
from warp_like.ir.core import Function
from warp_like.ir.printer import print_function
from warp_like.ir.types import Type
from warp_like.ir.verify import verify

_counter = itertools.count()


def build(pyfunc: Callable[..., Any], types: Sequence[Type] | None = None, wide: bool = False) -> Function:
    """Build a kernel and verify it and all functions that it calls."""
    source = parse(pyfunc, "kernel")
    given = types if types is not None else [t for _, t in parameters(source)]
    f = build_kernel(source, given, wide=wide)
    for g in functions(f):
        verify(g)
    return f


def functions(f: Function) -> list[Function]:
    """Return a kernel and all functions that it reaches, each once."""
    found = {f: None}
    for g in found.copy():
        for o in g.body.walk():
            callee = getattr(o, "callee", None)
            if callee is not None:
                found.update(dict.fromkeys(functions(callee)))
    return list(found)


def text(pyfunc: Callable[..., Any], types: Sequence[Type] | None = None) -> str:
    """Return the IR of a kernel and all that it calls."""
    return "\n".join(map(print_function, functions(build(pyfunc, types))))


def launch(
    pyfunc: Callable[..., Any], dims: int | tuple[int, ...], *args: Any, types: Sequence[Type] | None = None
) -> None:
    """Run a kernel by the interpreter."""
    run(build(pyfunc, types), args, (dims,) if isinstance(dims, int) else dims)


def everywhere(kernel: wp.Kernel, dim: int | tuple[int, ...], *args: Any) -> list[Any]:
    """Run a kernel compiled and by the interpreter, which have to agree, and have its PTX assembled.

    Returns copies of ``args`` as the kernel left them.
    """
    compiled, interpreted = [[a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2)]
    wp.launch(kernel, dim=dim, inputs=compiled)
    f = build_kernel(kernel.source, [t for _, t in kernel.parameters])
    for g in functions(f):
        verify(g)
    run(f, interpreted, (dim,) if isinstance(dim, int) else dim)
    for ours, expected in zip(compiled, interpreted, strict=True):
        if isinstance(ours, np.ndarray):
            np.testing.assert_array_equal(ours, expected)
    ptx = kernel.inspect("ptx", target="sm_80")
    if libdevice.find_ptxas() is not None:
        assert assemble(ptx, "sm_80")[:4] == b"\x7fELF"
    return compiled


def define(source: str, *, eager: bool = False, **names: Any) -> dict[str, Any]:
    """Run source text as a module whose lines can be found, and return its names.

    Annotations stay text, as under ``from __future__ import annotations``, unless ``eager``.
    """
    file = f"<test {next(_counter)}>"
    source = textwrap.dedent(source)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = {"wp": wp, "__name__": f"test_module_{file}", **names}
    flags = 0 if eager else __future__.annotations.compiler_flag
    exec(compile(source, file, "exec", flags, dont_inherit=True), module)
    return module
