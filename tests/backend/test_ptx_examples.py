"""Every kernel of ``examples/``, and its adjoint, becomes PTX that the assembler takes.

The suite asks sm_80 for contiguous arrays and for adjoints, and sm_90 for arrays of any strides; the long tail asks the
other architecture. ``pytest --for-cuda`` asks both, for the kernels of all other tests as well.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.backend.test_ptx import needs_libdevice, needs_ptxas
from tests.cuda_compiling import ARCHITECTURES, require_cuda_code
from tests.long_tail import tail
from warp_like.analysis.memory import analyse
from warp_like.base.errors import WarpCodegenError
from warp_like.compiler import pipeline
from warp_like.compiler.signature import Signature
from warp_like.ir.types import Array, is_differentiable
from warp_like.passes.effects import array_uses
from warp_like.runtime.kernels.kernel import Kernel

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def holds_kernels(file: Path) -> bool:
    """Whether a file declares kernels at its top level."""
    names = (
        ast.unparse(d.func if isinstance(d, ast.Call) else d)
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
        for d in node.decorator_list
    )
    return any(name.endswith("kernel") for name in names)


FILES = [f.relative_to(EXAMPLES).as_posix() for f in sorted(EXAMPLES.rglob("*.py")) if holds_kernels(f)]


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import an example; its neighbours and those of its package are found."""
    file = EXAMPLES / name
    for folder in (file.parent, file.parent.parent):
        monkeypatch.syspath_prepend(str(folder))
    spec = importlib.util.spec_from_file_location(f"cuda_example_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    try:
        spec.loader.exec_module(module)
    except ImportError as e:
        pytest.skip(f"{name} needs what is not here: {e}")
    return module


def table() -> list[Any]:
    """Every fourth file with the architectures of the suite; all with those of the long tail."""
    few, others = ARCHITECTURES, ARCHITECTURES[::-1]
    suite = [(tail if k % 4 else pytest.param)(name, *few) for k, name in enumerate(FILES)]
    return [*suite, *(tail(name, *others) for name in FILES)]


@needs_ptxas
@needs_libdevice
@pytest.mark.parametrize(("name", "first", "second"), table())
def test_example(name: str, first: str, second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(name, monkeypatch)
    kernels = [k for k in vars(module).values() if isinstance(k, Kernel)]
    concrete = [k for k in kernels if not k.is_generic] + [i for k in kernels for i in k.overloads.values()]
    for kernel in concrete:
        signature = Signature(kernel.types, options=kernel.compile_options(), sums=True)
        f = pipeline.optimised(kernel.source, signature)
        require_cuda_code(f, signature, (first,))
        require_cuda_code(f, signature.replace(contiguous=False, sums=False), (second,))
        accesses = array_uses(analyse(f))
        wrt = tuple(i for i, t in enumerate(kernel.types) if isinstance(t, Array) and is_differentiable(t))
        if not kernel.option("enable_backward") or not {i for i in wrt if accesses[i].written}:
            continue
        try:
            reverse = signature.replace(wrt=wrt)
            g = pipeline.optimised(kernel.source, reverse)
        except WarpCodegenError:
            continue  # refused for the CPU as well
        require_cuda_code(g, reverse, (first,))


def test_there_are_examples() -> None:
    assert "gaussian_splatting_2d.py" in FILES
    assert len(FILES) > 8
