"""Building kernels from Python functions in tests, and running them by the interpreter."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import warp_like as wp
from tests.interpreter import run
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


def define(source: str, **names: Any) -> dict[str, Any]:
    """Run source text as a module whose lines can be found, and return its names."""
    file = f"<test {next(_counter)}>"
    source = textwrap.dedent(source)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = {"wp": wp, "__name__": f"test_module_{file}", **names}
    exec(compile(source, file, "exec"), module)
    return module
