"""The contract between Python and the native extension: one table, and no number of it anywhere else."""

from __future__ import annotations

import ast
import ctypes
import importlib.util
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from warp_like.base import contract
from warp_like.base.contract import Cases, Layout, Numbers
from warp_like.ir.layout import SCALAR_CODE, size_of
from warp_like.ir.types import SCALARS, Array, float32

ROOT = Path(__file__).resolve().parents[2]
GROUPS = [*Cases.__subclasses__(), *Numbers.__subclasses__()]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_contract", ROOT / "build_contract.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HEADER = generator().header(contract)


def test_a_group_numbers_nothing_twice() -> None:
    for group in GROUPS:
        numbers = list(generator().numbers(group).values())
        assert numbers
        assert len(set(numbers)) == len(numbers), group


def test_flags_can_be_told_apart() -> None:
    flags = generator().numbers(contract.ParamFlag).values()
    assert all(flag > 0 and flag & (flag - 1) == 0 for flag in flags)


def test_scalars_are_those_of_the_ir() -> None:
    assert [SCALAR_CODE[t] for t in SCALARS] == list(range(contract.SCALAR_COUNT))
    assert len(generator().numbers(contract.Scalar)) == contract.SCALAR_COUNT


def test_slots_of_arrays() -> None:
    assert size_of(Array(float32, 3)) == contract.ARRAY_SHAPE + 2 * 3 * contract.SLOT


@pytest.mark.parametrize("layout", contract.LAYOUTS, ids=lambda layout: layout.name)
def test_layouts_are_those_of_c(layout: Layout) -> None:
    kinds = {"i": ctypes.c_int32, "I": ctypes.c_uint32, "q": ctypes.c_int64, "d": ctypes.c_double, "P": ctypes.c_void_p}
    fields = []
    for m in layout.members:
        kind = kinds[Layout("", "", (m,)).format[-1]]
        fields.append((m.name, kind * m.count if m.count else kind))
    of_c = type(layout.name, (ctypes.Structure,), {"_fields_": fields})
    assert layout.offsets == {m.name: getattr(of_c, m.name).offset for m in layout.members}
    assert layout.size == ctypes.sizeof(of_c) == struct.calcsize(layout.format)


def test_the_header_says_what_the_tables_say() -> None:
    assert "constexpr int kMaxDims = 8;" in HEADER
    assert "enum class ParamKind : uint8_t {\n    Array = 0,\n    Scalar = 1,\n    Value = 2,\n};" in HEADER
    assert "struct RunError {\n    static constexpr int StackLimit = 1;" in HEADER
    assert "    int64_t values[16]{};  // the numbers that go into the fault's text\n" in HEADER
    assert "static_assert(offsetof(Context, alone) == 40," in HEADER
    assert "static_assert(sizeof(CudaContext) == 160," in HEADER


def defined_in_cpp(text: str) -> set[str]:
    """The constants and types that a C++ source defines."""
    constants = re.findall(r"constexpr \w+ (k\w+)(?:\[\w*\])? = ", text)
    return {*constants, *re.findall(r"(?:struct|enum class|enum) (\w+)(?: : \w+)? \{", text)}


def test_no_native_source_defines_it_again() -> None:
    known = defined_in_cpp(HEADER)
    assert {"kMaxDims", "RunError", "ParamKind", "Context", "Binding"} <= known
    for path in sorted((ROOT / "native").glob("*.*")):
        assert not known & defined_in_cpp(path.read_text()), path


def assigned(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The integers that a module gives names."""
    for node in tree.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            several = isinstance(target, ast.Tuple)  # else a tuple is the value of one name
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = node.value.elts if several and isinstance(node.value, ast.Tuple) else [node.value]
            for name, value in zip(names, values):  # noqa: B905 (a function may give all of them)
                if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, int):
                    yield name.id.strip("_"), value.value


def test_no_python_source_defines_it_again() -> None:
    names = {name for name, value in vars(contract).items() if name.isupper() and isinstance(value, int)}
    groups = [group for group in GROUPS if group is not contract.StackOp]  # ADD and THREAD have other meanings, too
    names |= {name for group in groups for name in generator().numbers(group)}
    names |= {name.upper() for name in contract.CONTEXT.offsets}
    for path in sorted((ROOT / "warp_like").rglob("*.py")):
        if path == Path(contract.__file__):
            continue
        text = path.read_text()
        twice = {name for name, value in assigned(ast.parse(text)) if name in names and type(value) is int}
        assert not twice, path
        assert not re.search(r"%ctx, i64 \d", text), path
        assert "_native.CONTEXT" not in text, path
