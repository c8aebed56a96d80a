"""How far kernels reach: each form of an index, what always runs, and random kernels against an oracle."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

import warp_like as wp
from tests.frontend.support import define
from warp_like.analysis.extents import reaches
from warp_like.analysis.memory import analyse
from warp_like.base.reach import Reach
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature

PARAMETERS = "a: wp.array2d(dtype=float), x: wp.array(dtype=float), n: int, flag: int"
A, X = 0, 1  # their positions


def found(body: str, *, ndim: int = 1, wide: bool = False, parameters: str = PARAMETERS, **names: Any) -> set[Any]:
    """Return (param, axis, dim, offset) of a kernel's reaches; with "end" where they count from the end."""
    f = kernel_of(body, ndim, parameters, **names)
    made = reaches(analyse(optimised(f.source, Signature(f.types, wide=wide))))
    return {r.as_tuple()[:4] + (("end",) if r.from_end else ()) for r in made}


def kernel_of(body: str, ndim: int, parameters: str = PARAMETERS, **names: Any) -> wp.Kernel:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    indices = ", ".join("ijkl"[:ndim])
    return define(f"@wp.kernel\ndef k({parameters}):\n    {indices} = wp.tid()\n{lines}", **names)["k"]


@pytest.mark.parametrize(
    "index, expected",
    [
        ("i", (0, 0)),
        ("i + 3", (0, 3)),
        ("3 + i", (0, 3)),
        ("i - 1", (0, -1)),
        ("i - 1 + 3", (0, 2)),
        ("2 * 4", (None, 8)),
        ("7", (None, 7)),
        ("-3", (None, 2, "end")),
        ("x.shape[0] - 3", (None, 2, "end")),
        ("x.shape[0]", (None, -1, "end")),
        ("x.shape[0] - 1 - i", (0, 0, "end")),
        ("x.shape[0] - i", (0, -1, "end")),
        ("x.shape[0] - (i + 4)", (0, 3, "end")),
        ("len(x) - 1 - i", (0, 0, "end")),
        ("wp.int64(i)", (0, 0)),
        ("wp.int64(i) + wp.int64(2)", (0, 2)),
        ("wp.uint64(i) + wp.uint64(2)", (0, 2)),
        ("wp.uint32(i)", (0, 0)),
        ("wp.int32(wp.int64(i + 1))", (0, 1)),
        ("i + 2147483647", (0, 2147483647)),
    ],
)
def test_indices(index: str, expected: tuple[Any, ...]) -> None:
    assert found(f"x[{index}] = 1.0") == {(X, 0, *expected)}


@pytest.mark.parametrize(
    "index",
    [
        "n",  # computed
        "i + n",
        "2 * i",
        "i + i",
        "-i",
        "4 - i",
        "i % 4",
        "wp.min(i, 4)",
        "n - 1 - i",
        "a.shape[0] - 1 - i",  # of another array
        "i - x.shape[0]",
        "x.shape[0] + i",
        "wp.int8(i)",  # what wraps may be in range
        "wp.uint8(i)",
        "wp.uint32(i) - wp.uint32(1)",
        "wp.int64(i) + wp.int64(2147483648)",
        "int(x[i - i])",
        "int(float(i))",
    ],
)
def test_indices_that_are_not_understood(index: str) -> None:
    assert not {r for r in found(f"x[{index}] = 1.0") if r[2:] != (None, 0)}


@pytest.mark.parametrize(
    "index, expected",
    [
        ("i", {(X, 0, 0, 0)}),
        ("wp.int64(i) + wp.int64(1)", {(X, 0, 0, 1)}),
        ("x.shape[0] - 1 - i", {(X, 0, 0, 0, "end")}),
        ("wp.uint32(i)", set()),
        ("wp.int32(i)", set()),
    ],
)
def test_indices_of_wide_grids_that_are_cut_to_32_bits_may_be_anything(index: str, expected: set[Any]) -> None:
    assert found(f"x[{index}] = 1.0", wide=True) == expected


def test_axes_of_the_grid_and_of_the_array() -> None:
    assert found("a[i, j] = 1.0", ndim=2) == {(A, 0, 0, 0), (A, 1, 1, 0)}
    assert found("a[j, i] = 1.0", ndim=2) == {(A, 1, 0, 0), (A, 0, 1, 0)}
    assert found("a[k + 1, 0] = 1.0", ndim=3) == {(A, 0, 2, 1), (A, 1, None, 0)}
    assert found("a[i + j, i] = 1.0", ndim=2) == {(A, 1, 0, 0)}
    assert found("a[n, -1] = 1.0") == {(A, 1, None, 0, "end")}
    assert found("a[i, a.shape[0] - 1] = 1.0") == {(A, 0, 0, 0)}


@pytest.mark.parametrize(
    "body, expected",
    [
        ("x[i] = a[i, 0]", {(X, 0, 0, 0), (A, 0, 0, 0), (A, 1, None, 0)}),
        ("wp.atomic_add(x, i, 1.0)", {(X, 0, 0, 0)}),
        ("wp.atomic_cas(x, i, 1.0, 2.0)", {(X, 0, 0, 0)}),
        ("x[i] += 1.0", {(X, 0, 0, 0)}),
        ("r = a[i]\nr[2] = 1.0", {(A, 0, 0, 0), (A, 1, None, 2)}),
        ("r = a[1:]\nr[i, 0] = 1.0", {(A, 1, None, 0)}),
        ("s = x[i]", set()),  # read by no one, so not read
        ("s = x.shape[0]", set()),
        ("x[i + 1] = x[i]", {(X, 0, 0, 1)}),  # the farther one
        ("x[i - 2] = x[i - 1]", {(X, 0, 0, -1)}),  # one is enough
        ("fill(x, i)", {(X, 0, 0, 1)}),
        ("if i < x.shape[0]:\n    x[i] = 1.0", set()),
        ("if flag > 0:\n    x[i] = 1.0\nelse:\n    x[i] = 2.0", set()),
        ("x[i] = wp.where(flag > 0, 1.0, 2.0)", {(X, 0, 0, 0)}),
        ("if i >= n:\n    return\nx[i] = 1.0", set()),
        ("x[i] = 1.0\nif i >= n:\n    return\na[i, 0] = 1.0", {(X, 0, 0, 0)}),
        ("if x[i] > 0.0:\n    a[i, 0] = 1.0", {(X, 0, 0, 0)}),
        ("for q in range(3):\n    x[i + q] = 1.0", {(X, 0, 0, 2)}),
        ("for q in range(40):\n    x[i + q] = 1.0", {(X, 0, 0, 39)}),
        ("for q in range(40, 2, -3):\n    x[2 * q - 1] = 1.0", {(X, 0, None, 79)}),
        ("for q in range(40):\n    x[x.shape[0] - 1 - q] = 1.0", {(X, 0, None, 39, "end")}),
        ("for q in range(40):\n    for p in range(30):\n        x[q - p] = 1.0", {(X, 0, None, -29)}),
        ("for q in range(40):\n    for p in range(30):\n        x[q * 30 + p] = 1.0", {(X, 0, None, 1199)}),
        ("for q in range(40):\n    if q > n:\n        break\n    x[q] = 1.0", set()),
        ("for q in range(40):\n    if q > n:\n        continue\n    x[q] = 1.0", set()),
        ("for q in range(0, 40, 50):\n    x[q] = 1.0", {(X, 0, None, 0)}),
        ("for q in range(40, 0):\n    x[q] = 1.0", set()),
        ("for q in range(n):\n    x[i] = 1.0", set()),
        ("for q in range(n):\n    x[0] = 1.0\na[i, 0] = 1.0", {(A, 0, 0, 0), (A, 1, None, 0)}),
        ("while x[i] > 0.0:\n    a[i, 0] = 1.0", {(X, 0, 0, 0)}),
        ("wp.expect_eq(flag, 0)\nx[i] = 1.0", set()),
        ("if flag > 0:\n    wp.expect_eq(n, 0)\nx[i] = 1.0", set()),
        ("assert flag == 0\nx[i] = 1.0", {(X, 0, 0, 0)}),  # not asked without debug mode
        ("snippet(n)\nx[i] = 1.0", {(X, 0, 0, 0)}),
    ],
)
def test_what_is_always_executed(body: str, expected: set[Any]) -> None:
    @wp.func
    def fill(x: wp.array(dtype=float), at: int):
        x[at + 1] = 1.0

    @wp.func_native("if (n == 7) return;")
    def snippet(n: int): ...

    assert found(body, fill=fill, snippet=snippet) == expected


def test_structs_arrays_of_structs_and_indexed_arrays() -> None:
    @wp.struct
    class Point:
        at: wp.vec3
        mass: float

    @wp.struct
    class Fields:
        weights: wp.array(dtype=float)
        scale: float

    parameters = "p: wp.array(dtype=Point), f: Fields, ix: wp.indexedarray(dtype=float)"
    body = "p[i + 1].mass = 1.0\nf.weights[i + 2] = f.scale\nix[i] = p[i].at[1]"
    named = {"Point": Point, "Fields": Fields}
    expected = {(0, 0, 0, 1), (1, 0, 0, 2), (4, 0, 0, 0)}  # f.scale and ix.data are 2 and 3
    assert found(body, parameters=parameters, **named) == expected


def test_arrays_of_the_thread_s_own_are_not_compared() -> None:
    assert found("t = wp.zeros(shape=4, dtype=float)\nt[3] = 1.0\nx[i] = t[3]") == {(X, 0, 0, 0)}


def test_what_fits() -> None:
    own, window = Reach(0, 0, 0, 0), Reach(0, 0, 0, 2)
    second, constant = Reach(0, 0, 1, 0), Reach(0, 0, None, 5)
    assert own.fits((3,), 3)
    assert not own.fits((3,), 2)
    assert window.fits((3,), 5)
    assert not window.fits((3,), 4)
    assert second.fits((9, 2, 3), 2)
    assert not second.fits((9, 2, 3), 1)
    assert second.fits((9,), 1)
    assert constant.fits((100,), 6)
    assert not constant.fits((1,), 5)
    assert not Reach(0, 0, 0, -1).fits((1,), 100)
    assert not own.fits((2**63 - 1,), 2**62)


# --- random kernels ---


class Program:
    """A random kernel of arrays of small shapes. What it may do out of range stands where no thread comes by.

    ``always_executed`` has the accesses that every thread makes: their indices in Python, and the loops around them.
    """

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.ndim = self.pick.randint(1, 3)
        self.dims = tuple(self.pick.choice([1, 2, 3, 4, 5]) for _ in range(self.ndim))
        self.shapes = {name: self.shape(name) for name in ("a", "x")}
        self.lines: list[str] = []
        self.returned = False
        self.always_executed: list[tuple[str, str, list[tuple[str, range]]]] = []
        self.statements(4, "", [])

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.pick.choice([0, 2, 4, 5, 6, 7, 9]) for _ in range(2 if name == "a" else 1))

    def statements(self, count: int, indent: str, loops: list[tuple[str, range]] | None) -> None:
        """Add statements; ``loops`` are those around them, or None where they do not run."""
        for _ in range(count):
            if self.pick.random() < 0.65:
                self.access(indent, loops)
            elif len(indent) < 12:
                self.control(indent, loops)

    def control(self, indent: str, loops: list[tuple[str, range]] | None) -> None:
        inside, name = indent + "    ", f"q{len(self.lines)}"
        match self.pick.choice(["loop", "loop", "if", "return", "while", "unknown"]):
            case "loop":
                trips = self.pick.choice([range(2), range(20), range(19, 0, -3), range(1, 3), range(3, 1)])
                self.lines.append(f"{indent}for {name} in {trips!r}:".replace("range(0, ", "range("))
                body = None if loops is None or not trips else [*loops, (name, trips)]
                self.lines.append(f"{inside}s += 1.0")
                self.statements(2, inside, body)
            case "if":
                self.lines += [f"{indent}if flag > 0:", f"{inside}s += 1.0"]
                self.statements(2, inside, None)
            case "return" if not indent:
                self.lines += ["if flag > 0:", "    return"]
                self.returned = True
            case "while":
                self.lines += [f"{indent}while s < float(flag):", f"{inside}s += 1.0"]
                self.statements(1, inside, None)
            case "unknown":
                self.lines += [f"{indent}for {name} in range(flag):", f"{inside}s += 1.0"]
                self.statements(1, inside, None)

    def access(self, indent: str, loops: list[tuple[str, range]] | None) -> None:
        name = self.pick.choice(["a", "x"])
        indices = ", ".join(self.index(name, axis, loops) for axis in range(len(self.shapes[name])))
        form = self.pick.choice(["{} = 1.0", "{} += 1.0", "s += {}"])
        self.lines.append(indent + form.format(f"{name}[{indices}]"))
        if loops is not None and not self.returned:
            self.always_executed.append((name, indices, loops))

    def index(self, name: str, axis: int, loops: list[tuple[str, range]] | None) -> str:
        own = self.pick.choice("ijk"[: self.ndim])
        moved = self.pick.choice(["", "", " + 1", " + 2", " - 1", " + 3 - 2"])
        forms = [own + moved, own, str(self.pick.randint(0, 6)), f"-{self.pick.randint(1, 5)}"]
        forms.append(f"{name}.shape[{axis}] - 1 - {own}")
        if loops:
            forms += [loops[-1][0], f"{own} + {loops[-1][0]}", f"2 * {loops[-1][0]}"]
        return self.pick.choice(forms)

    def kernel(self) -> wp.Kernel:
        return kernel_of("\n".join(["s = float(0.0)", *self.lines, "out[0] = s"]), self.ndim, RANDOM)

    def breaks(self) -> bool:
        """Whether a thread accesses an element out of range, by running all threads in Python."""
        names = {name: _Shaped(shape) for name, shape in self.shapes.items()}
        for name, indices, loops in self.always_executed:
            constant = tuple(map(_is_negative_constant, indices.split(", ")))
            for at in itertools.product(*map(range, self.dims)):
                threads = dict(zip("ijk", at, strict=False))
                for values in itertools.product(*(trips for _, trips in loops)):
                    known = threads | dict(zip((n for n, _ in loops), values, strict=True)) | names
                    got = eval(f"({indices},)", known)
                    for i, counts, extent in zip(got, constant, self.shapes[name], strict=True):
                        if not 0 <= (i + extent if counts else i) < extent:
                            return True
        return False


RANDOM = "a: wp.array2d(dtype=float), x: wp.array(dtype=float), flag: int, out: wp.array(dtype=float)"


class _Shaped:
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def _is_negative_constant(index: str) -> bool:
    return index.startswith("-")


def refused(program: Program, kernel: wp.Kernel) -> bool:
    shapes = [*program.shapes.values(), None, (1,)]
    made = reaches(analyse(optimised(kernel.source, Signature(kernel.types))))
    return not all(r.fits(program.dims, shapes[r.param][r.axis]) for r in made)


def test_random_kernels_are_refused_where_a_thread_would_access_an_element_out_of_range() -> None:
    results = []
    for seed in range(100):
        program = Program(seed)
        breaks = program.breaks()
        assert refused(program, program.kernel()) == breaks, (seed, program.dims, program.shapes, program.lines)
        results.append(breaks)
    assert 20 < sum(results) < 80  # both happen
