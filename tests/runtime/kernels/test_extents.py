"""Launches that would surely access an array out of range are refused before anything runs, whatever starts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.analysis.test_extents import Program
from tests.frontend.support import define
from warp_like.compiler.artifact import Artifact

F32 = np.float32


@wp.kernel
def scale(x: wp.array(dtype=float), y: wp.array(dtype=float), by: float):
    i = wp.tid()
    y[i] = by * x[i]


@wp.kernel
def difference(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    y[i, j] = x[i, j + 1] - x[i, j]


@wp.kernel
def guarded(x: wp.array(dtype=float)):
    i = wp.tid()
    if i < x.shape[0]:
        x[i] = 1.0


def arrays(*lengths: int, grad: bool = False) -> list[Any]:
    return [wp.ones(n, dtype=float, requires_grad=grad) for n in lengths]


@pytest.fixture(autouse=True, params=["first", "again"])
def _warm(request: pytest.FixtureRequest) -> None:
    """What is refused is refused by code that was just compiled, and on the native path."""
    scale.forget_programs()
    if request.param == "again":
        wp.launch(scale, 2, [*arrays(2, 2), 1.0])


def refuses(launch: Callable[[], object], words: str) -> None:
    for _ in range(2):
        with pytest.raises(IndexError) as raised:
            launch()
        assert words in str(raised.value)


# --- routes ---


def test_launch() -> None:
    x, y = np.ones(4, F32), np.zeros(3, F32)
    refuses(
        lambda: wp.launch(scale, 4, [x, y, 2.0]), "argument 2 `y`: index 3 is out of range for an array of shape (3,)"
    )
    refuses(lambda: wp.launch(scale, 5, [x, np.zeros(9, F32), 2.0]), "argument 1 `x`: index 4 is out of range")
    assert not y.any()  # nothing ran
    wp.launch(scale, 3, [x, y, 2.0])
    assert y.tolist() == [2.0, 2.0, 2.0]
    wp.launch(scale, 0, [x[:0], y[:0], 2.0])
    refuses(lambda: wp.launch(scale, 1, [x[:0], y, 2.0]), "index 0 is out of range for an array of shape (0,)")


def test_recorded_launches() -> None:
    x, y = arrays(4, 4)
    command = wp.launch(scale, 4, [x, y, 2.0], record_cmd=True)
    command.launch()
    command.set_dim(5)
    refuses(command.launch, "index 4")
    command.set_dim(4)
    command.launch()
    command.set_param_by_name("y", wp.zeros(3))
    refuses(command.launch, "argument 2 `y`: index 3")
    command.set_param_at_index(1, y)
    command.launch()
    refuses(wp.launch(scale, 9, [x, y, 2.0], record_cmd=True).launch, "index 8")


def test_graphs() -> None:
    x, y = arrays(4, 3)

    def capture(dim: int) -> wp.Graph:
        with wp.ScopedCapture() as captured:
            wp.launch(scale, dim, [x, y, 2.0])
        return captured.graph

    refuses(lambda: capture(4), "index 3")
    wp.capture_launch(capture(3))
    assert y.list() == [2.0, 2.0, 2.0]


def test_tapes() -> None:
    x, y = arrays(4, 4, grad=True)

    def recorded(dim: int) -> wp.Tape:
        with wp.Tape() as tape:
            wp.launch(scale, 2, [x, y, 2.0])
            wp.launch(scale, dim, [x, y, 2.0])
        return tape

    refuses(lambda: recorded(5), "index 4")
    tape = recorded(4)
    tape.backward(grads={y: wp.ones(4)})
    assert x.grad.list() == [2.0, 2.0, 2.0, 2.0]
    assert len(tape.launches) == 2


def test_explicit_adjoints() -> None:
    x, y, gx, gy = arrays(4, 4, 4, 4)

    def adjoint(dim: int, gx: Any = gx, gy: Any = gy, **more: Any) -> Any:
        return wp.launch(scale, dim, [x], [y, 2.0], adj_inputs=[gx], adj_outputs=[gy, None], adjoint=True, **more)

    refuses(lambda: adjoint(5), "index 4 is out of range for an array of shape (4,)")
    adjoint(4)
    assert gx.list() == [3.0, 3.0, 3.0, 3.0]
    refuses(lambda: adjoint(5), "index 4")  # now on the native path
    with pytest.raises(ValueError, match="`adj_x` has shape"):
        adjoint(4, wp.zeros(3))
    command = adjoint(4, record_cmd=True)
    command.set_dim(5)
    refuses(command.launch, "index 4")


def test_forward_mode() -> None:
    x, y = arrays(4, 3)
    refuses(lambda: wp.autograd.jvp(scale, 4, [x], [y, 2.0], tangents=[wp.ones(4)]), "index 3")


def test_timings() -> None:
    x, y = arrays(4, 3)
    wp.timing_begin(cuda_filter=wp.TIMING_ALL)
    try:
        refuses(lambda: wp.launch(scale, 4, [x, y, 2.0]), "index 3")
    finally:
        wp.timing_end()


def test_options_and_generic_kernels() -> None:
    module = define("""
        from typing import Any

        @wp.kernel
        def add(x: wp.array(dtype=Any), by: Any):
            i = wp.tid()
            x[i] = x[i] + by
        """)
    for dtype in (np.float64, np.int32, np.float16, np.uint8):
        x = np.zeros(3, dtype)
        by = wp.dtype_from_numpy(dtype)(1)
        refuses(
            lambda x=x, by=by: wp.launch(module["add"], 4, [x, by]),
            "index 3 is out of range for an array of shape (3,)",
        )
        wp.launch(module["add"], 3, [x, by])
    refuses(lambda: wp.launch(scale, 4, [*arrays(4, 3), 1.0], options={"fast_math": True}), "index 3")


def test_debug_mode_says_which_thread() -> None:
    with pytest.raises(IndexError, match="in thread 3"):
        wp.launch(scale, 4, [*arrays(4, 3), 1.0], options={"mode": "debug"})


# --- grids and arrays ---


def test_two_dimensions() -> None:
    x, y = np.zeros((3, 5), F32), np.zeros((3, 4), F32)
    wp.launch(difference, (3, 4), [x, y])
    refuses(lambda: wp.launch(difference, (3, 5), [x, y]), "`x`: index 5 is out of range for dimension 1 of")
    refuses(lambda: wp.launch(difference, (4, 4), [x, y]), "`x`: index 3 is out of range for dimension 0 of")
    refuses(lambda: wp.launch(difference, (3, 4), [x, y.T]), "`y`: index 3 is out of range for dimension 1 of")
    refuses(lambda: wp.launch(difference, (3, 4), [x[:, ::2], y]), "shape (3, 3)")
    wp.launch(difference, (3, 2, 2), [x, y[:, :2]])  # the third one is not asked for
    refuses(lambda: wp.launch(difference, (3, 3, 2), [x, y[:, :2]]), "index 2 is out of range for dimension 1")
    wp.launch(difference, 3, [x, y])  # the second index is 0
    for empty in ((0, 9), (9, 0), (9, 9, 0)):
        wp.launch(difference, empty, [x, y])


def test_huge_grids_do_not_overflow() -> None:
    x, y = arrays(4, 4)
    for dim in (2**31 - 1, 2**31, 2**62, 2**63 - 1):
        refuses(lambda dim=dim: wp.launch(scale, dim, [x, y, 1.0]), f"index {dim - 1} is out of range")
    far = define("@wp.kernel\ndef far(x: wp.array(dtype=float)):\n    x[wp.tid() + 2147483647] = 1.0\n")["far"]
    refuses(lambda: wp.launch(far, 2**63 - 1, [x]), f"index {2**63 - 2 + 2**31 - 1} is out of range")


def test_extents_beyond_32_bits() -> None:
    many = np.broadcast_to(np.ones(1, F32), 2**40)
    last = define("""
        @wp.kernel
        def last(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = x[i + 1]
        """)["last"]
    y = np.zeros(2, F32)
    wp.launch(last, 2, [many, y])
    assert y.tolist() == [1.0, 1.0]
    refuses(lambda: wp.launch(last, 2**40, [many, y]), f"`x`: index {2**40} is out of range")


@pytest.mark.parametrize("dtype", [wp.vec3, wp.mat22, wp.quat, wp.transform, wp.int8, wp.uint64, wp.bool, wp.float16])
def test_elements_of_any_type(dtype: Any) -> None:
    kernel = define(
        "@wp.kernel\ndef k(x: wp.array(dtype=T), y: wp.array(dtype=T)):\n    i = wp.tid()\n    y[i] = x[i + 1]\n",
        T=dtype,
    )["k"]
    wp.launch(kernel, 3, [wp.zeros(4, dtype=dtype), wp.zeros(3, dtype=dtype)])
    refuses(lambda: wp.launch(kernel, 4, [wp.zeros(4, dtype=dtype), wp.zeros(4, dtype=dtype)]), "index 4")


@wp.struct
class Fields:
    weights: wp.array(dtype=float)
    scale: float


@wp.kernel
def use_fields(f: Fields, out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = f.scale * f.weights[i]


def test_structs() -> None:
    f, out = Fields(), wp.zeros(3)
    f.weights, f.scale = wp.ones(3), 2.0
    wp.launch(use_fields, 3, [f, out])
    f.weights = wp.ones(2)
    refuses(lambda: wp.launch(use_fields, 3, [f, out]), "argument 1 `f.weights`: index 2 is out of range")
    command = wp.launch(use_fields, 2, [f, out], record_cmd=True)
    command.launch()
    f.weights = wp.ones(1)
    refuses(command.launch, "argument 1 `f.weights`: index 1 is out of range")
    f.weights = None
    with pytest.raises(TypeError, match="expected array1d"):
        wp.launch(use_fields, 3, [f, out])
    with pytest.raises(TypeError, match="expected array1d"):
        wp.launch(use_fields, 3, [Fields(), out])


def test_arrays_of_structs() -> None:
    @wp.struct
    class Point:
        at: wp.vec3
        mass: float

    kernel = define("@wp.kernel\ndef k(p: wp.array(dtype=P)):\n    p[wp.tid()].mass = 1.0\n", P=Point)["k"]
    points = wp.zeros(3, dtype=Point)
    wp.launch(kernel, 3, [points])
    refuses(lambda: wp.launch(kernel, 4, [points]), "argument 1 `p`: index 3")


def test_indexed_arrays() -> None:
    kernel = define("""
        @wp.kernel
        def k(x: wp.indexedarray2d(dtype=float), out: wp.array2d(dtype=float)):
            i, j = wp.tid()
            out[i, j] = x[i, j]
        """)["k"]
    data, out = wp.ones((9, 9)), wp.zeros((4, 4))
    picked = wp.indexedarray2d(data, [wp.array([8, 2, 4], dtype=int), None])
    wp.launch(kernel, (3, 4), [picked, out])
    refuses(lambda: wp.launch(kernel, (4, 4), [picked, out]), "argument 1 `x`: index 3 is out of range")


def test_none_has_no_elements() -> None:
    kernel = define("""
        @wp.kernel
        def k(x: wp.array(dtype=float), out: wp.array(dtype=float)):
            for q in range(40):
                x[q] = 1.0
            out[0] = 1.0
        """)["k"]
    wp.launch(kernel, 1, [wp.zeros(40), wp.zeros(1)])
    for _ in range(2):
        with pytest.raises(TypeError, match="expected array1d.float32., got None, and every thread accesses"):
            wp.launch(kernel, 1, [None, wp.zeros(1)])


def test_guards_are_respected() -> None:
    x = np.zeros(3, F32)
    wp.launch(guarded, 1000, [x])
    assert x.tolist() == [1.0, 1.0, 1.0]


# --- messages ---

MESSAGES = define("""
    @wp.func
    def at(x: wp.array(dtype=float), i: int):
        return x[i + 1]

    @wp.kernel
    def own(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = at(x, i)

    @wp.kernel
    def first(x: wp.array2d(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = 1.0

    @wp.kernel
    def before(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = x[i - 1]

    @wp.kernel
    def fixed(x: wp.array2d(dtype=float)):
        i, j = wp.tid()
        x[i, 3] = x[-2, 0]

    @wp.kernel
    def reverse(x: wp.array2d(dtype=float)):
        i, j = wp.tid()
        x[x.shape[0] - 1 - i, j] = 1.0
    """)


@pytest.mark.parametrize(
    "name, dim, shapes, expected",
    [
        (
            "own",
            3,
            [3],
            """\
kernel `own`, argument 1 `x`: index 3 is out of range for an array of shape (3,): every thread of the grid (3,) \
accesses the element at its own index + 1
  --> FILE:9:12 in kernel `own`
   |     x[i] = at(x, i)
   |            ^^^^^^^^
  --> FILE:4:12 in func `at`
   |     return x[i + 1]
   |            ^^^^^^^^
  help: launch fewer threads, pass a larger array, or let threads ask first: if i + 1 < x.shape[0]: ...""",
        ),
        (
            "first",
            (301, 400),
            [(300, 400), 300],
            """\
kernel `first`, argument 2 `out`: index 300 is out of range for an array of shape (300,): every thread of the grid \
(301, 400) accesses the element at its own index along dimension 0
  --> FILE:14:5 in kernel `first`
   |     out[i] = 1.0
   |     ^^^^^^
  help: launch fewer threads, pass a larger array, or let threads ask first: if i < out.shape[0]: ...""",
        ),
        (
            "before",
            3,
            [3],
            """\
kernel `before`, argument 1 `x`: index -1 is out of range for an array of shape (3,): every thread of the grid (3,) \
accesses the element at its own index - 1
  --> FILE:19:12 in kernel `before`
   |     x[i] = x[i - 1]
   |            ^^^^^^^^
  help: let the first threads leave it out: if i >= 1: ...""",
        ),
        (
            "fixed",
            (2, 2),
            [(2, 3)],
            """\
kernel `fixed`, argument 1 `x`: index 3 is out of range for dimension 1 of an array of shape (2, 3): every thread \
accesses this element
  --> FILE:24:5 in kernel `fixed`
   |     x[i, 3] = x[-2, 0]
   |     ^^^^^^^
  help: pass a larger array, or let the kernel ask first: if x.shape[1] > 3: ...""",
        ),
        (
            "fixed",
            (1, 1),
            [(1, 4)],
            """\
kernel `fixed`, argument 1 `x`: index -1 is out of range for dimension 0 of an array of shape (1, 4): every thread \
accesses element -2, counted from the end
  --> FILE:24:15 in kernel `fixed`
   |     x[i, 3] = x[-2, 0]
   |               ^^^^^^^^
  help: pass a larger array, or let the kernel ask first: if x.shape[0] > 1: ...""",
        ),
        (
            "reverse",
            (3, 2),
            [(2, 2)],
            """\
kernel `reverse`, argument 1 `x`: index -1 is out of range for dimension 0 of an array of shape (2, 2): every thread \
of the grid (3, 2) accesses the element at its own index along dimension 0, counted back from the last one
  --> FILE:29:5 in kernel `reverse`
   |     x[x.shape[0] - 1 - i, j] = 1.0
   |     ^^^^^^^^^^^^^^^^^^^^^^^^
  help: launch fewer threads, pass a larger array, or let threads ask first: if i < x.shape[0]: ...""",
        ),
    ],
)
def test_messages(name: str, dim: Any, shapes: list[Any], expected: str) -> None:
    kernel = MESSAGES[name]
    with pytest.raises(IndexError) as raised:
        wp.launch(kernel, dim, [wp.zeros(shape) for shape in shapes])
    assert str(raised.value) == expected.replace("FILE", kernel.source.file)


SOURCE = """
@wp.func
def at(x: wp.array(dtype=float), i: int):
    return x[i + 17]


@wp.kernel
def k(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = at(x, i)
"""


def test_places_of_code_from_the_cache_are_those_of_now() -> None:
    """The key of the cache does not hold where the code stands."""

    def message(source: str) -> list[str]:
        kernel = define(source)["k"]
        with pytest.raises(IndexError) as raised:
            wp.launch(kernel, 3, [wp.zeros(3)])
        return str(raised.value).replace(kernel.source.file, "FILE").splitlines()

    first = message(SOURCE)
    moved = message("# another line\n" + SOURCE)
    assert first[1::3] == ["  --> FILE:10:12 in kernel `k`", "  --> FILE:4:12 in func `at`", first[-1]]
    assert moved[1::3] == ["  --> FILE:11:12 in kernel `k`", "  --> FILE:5:12 in func `at`", first[-1]]
    assert moved[2:4] == first[2:4] == ["   |     x[i] = at(x, i)", "   |            ^^^^^^^^"]
    assert moved[5:7] == first[5:7] == ["   |     return x[i + 17]", "   |            ^^^^^^^^^"]


def test_artifacts_keep_reaches() -> None:
    wp.launch(scale, 2, [*arrays(2, 2), 1.0])
    (program,) = scale._programs.values()
    artifact = program.any_artifact
    assert [r.as_tuple()[:4] for r in artifact.effects.reaches] == [(0, 0, 0, 0), (1, 0, 0, 0)]
    assert Artifact.from_bytes(artifact.to_bytes("k"), "k") == artifact


# --- random kernels ---


def test_random_kernels() -> None:
    """Compiled kernels do not run where a thread would access an element out of range, and run everywhere else."""
    for seed in range(1000, 1025):
        program = Program(seed)
        kernel = program.kernel()
        out = np.full(1, -1.0, F32)
        args = [np.zeros(shape, F32) for shape in program.shapes.values()]
        try:
            wp.launch(kernel, program.dims, [*args, 0, out])
        except IndexError:
            assert program.breaks(), (seed, program.lines)
            assert out[0] == -1.0
            assert not any(a.any() for a in args)
        else:
            assert not program.breaks(), (seed, program.lines)
            assert out[0] != -1.0
