"""What kernels check while they run: assertions, expectations, debug mode, finite floats. And what they print."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import numpy as np
import pytest

import warp_like as wp
from tests.backend.running import copies
from tests.cuda_emulation import Context, CudaKernel
from tests.frontend.support import build
from tests.interpreter import run
from warp_like.analysis.memory import analyse
from warp_like.backend import libdevice
from warp_like.backend.nvptx import assemble
from warp_like.backend.target import cuda_target
from warp_like.compiler import pipeline
from warp_like.compiler.signature import Signature
from warp_like.runtime.kernels.kernel import Kernel

FILE = __file__


def line_of(kernel: Kernel, text: str) -> int:
    source = kernel.source
    return next(source.first_line + k for k, row in enumerate(source.text.splitlines()) if text in row)


@pytest.fixture
def debug():
    wp.config.mode = "debug"
    yield
    del wp.config.mode


@pytest.fixture
def verify_fp():
    wp.config.verify_fp = True
    yield
    del wp.config.verify_fp


def fails(kernel: Kernel, exception: type[Exception], message: str, at: str, *args: object, dim: int = 4) -> None:
    """Check that a launch raises, with all its words, and that the code for CUDA reports the same."""
    given = copies([a.numpy() if isinstance(a, wp.array) else a for a in args])
    with pytest.raises(exception) as caught:
        wp.launch(kernel, dim=dim, inputs=list(args))
    assert str(caught.value) == f"kernel `{kernel.key}`: {message}, line {line_of(kernel, at)} of {FILE}"
    signature, context = Signature(kernel.types, contiguous=False, options=kernel.compile_options()), Context(1024, 1)
    f = pipeline.optimised(kernel.source, signature)
    on_cuda = CudaKernel(f, pipeline._lowering(signature, analyse(f), cuda_target("sm_80")))
    on_cuda(given, (dim,), context, blocks=1, threads=1)
    fault = on_cuda.fault(context, f"kernel `{kernel.key}`")
    assert (type(fault), str(fault)) == (exception, str(caught.value))
    ptx = kernel.inspect("ptx", target="sm_80")
    if libdevice.find_ptxas() is not None:
        assert assemble(ptx, "sm_80")[:4] == b"\x7fELF"


@wp.kernel
def asserting(x: wp.array(dtype=float), seen: wp.array(dtype=int)):
    i = wp.tid()
    assert x[i] < 3.0, "x is {too} large"
    seen[i] = 1


def test_assert_in_debug_mode(debug):
    seen = wp.zeros(4, dtype=int)
    fails(
        asserting,
        AssertionError,
        "`assert x[i] < 3.0` does not hold: x is {too} large in thread 3",
        "assert x[i]",
        np.arange(4, dtype=np.float32),
        seen,
    )
    np.testing.assert_array_equal(seen.numpy(), [1, 1, 1, 0])


def test_assert_costs_nothing_in_release_mode():
    seen = wp.zeros(4, dtype=int)
    wp.launch(asserting, dim=4, inputs=[np.full(4, 5.0, np.float32), seen])
    np.testing.assert_array_equal(seen.numpy(), [1, 1, 1, 1])
    assert "check" not in asserting.inspect("optimised")


def test_assert_by_the_interpreter():
    with pytest.raises(AssertionError, match="x is {too} large"):
        run(build(asserting.source.pyfunc), [np.full(1, 5.0, np.float32), np.zeros(1, np.int32)], (1,))


@wp.func
def halved(n: int, by: int):
    return n / by


@wp.kernel
def dividing(n: wp.array(dtype=int), by: int, kind: int):
    i = wp.tid()
    if kind == 0:
        n[i] = halved(n[i], by)
    elif kind == 1:
        n[i] = n[i] // by
    elif kind == 2:
        n[i] = n[i] % by
    else:
        zero = wp.uint8(0)
        n[i] = int(wp.uint8(3) / zero)


def test_integer_division_by_zero(debug):
    n = np.ones(4, np.int32)
    for kind, sign, row in ((1, "//", "// by"), (2, "%", "% by"), (3, "/", "(3) / zero")):
        text = f"an integer is divided by zero by `{sign}` in thread 0"
        fails(dividing, ZeroDivisionError, text, row, n, 0, kind)
    wp.launch(dividing, dim=4, inputs=[n, 2, 0])
    np.testing.assert_array_equal(n, [0, 0, 0, 0])
    with pytest.raises(ZeroDivisionError) as caught:
        wp.launch(dividing, dim=4, inputs=[n, 0, 0])
    assert str(caught.value).endswith(
        f"in thread 0, line {line_of(dividing, 'halved(') - 7} of {FILE} in func `halved`"
    )


@wp.kernel
def guarded(n: wp.array(dtype=int), rows: wp.array2d(dtype=int), by: int, k: int, out: wp.array(dtype=int)):
    i = wp.tid()
    v, limit, extent = n[i], n.shape[0], rows.shape[0]
    parts = wp.vec2i(v, by)
    if by != 0 and v // by == 3:
        out[0] += 1
    if by == 0 or v % by == 1 or wp.vec2i(7, 8) / by == wp.vec2i(0, 0):
        out[1] += 1
    if 0 <= k < 2 and parts[k] == v:
        out[2] += 1
    if k < extent and len(rows[k]) == limit:
        out[3] += 1
    if 0 < by < v // by:
        out[4] += 1
    while True:
        v -= 1
        if v < by or by == 0:
            break
        if v // by > 100:
            break
    out[5] += v
    for j in range(5):
        if by == 0:
            break
        if j // by > v:
            continue
        out[6] += 1


def test_what_the_program_does_not_evaluate_is_not_checked(debug):
    n, rows, out = np.full(4, 7, np.int32), np.zeros((2, 4), np.int32), np.zeros(7, np.int32)
    wp.launch(guarded, dim=4, inputs=[n, rows, 0, 2, out], options={"vector_width": 1})
    np.testing.assert_array_equal(out, [0, 4, 0, 0, 0, 24, 0])
    out[:] = 0
    wp.launch(guarded, dim=4, inputs=[n, rows, 2, 0, out])
    np.testing.assert_array_equal(out, [4, 4, 4, 4, 4, 4, 16])
    with pytest.raises(ZeroDivisionError):
        wp.launch(dividing, dim=4, inputs=[n, 0, 1])


def test_integer_division_by_zero_gives_zero_in_release_mode():
    n = np.ones(4, np.int32)
    wp.launch(dividing, dim=4, inputs=[n, 0, 0])
    np.testing.assert_array_equal(n, [0, 0, 0, 0])


@wp.kernel
def indexing(a: wp.array2d(dtype=float), v: wp.vec3, m: wp.mat22, i: int, kind: int):
    if kind == 0:
        a[0, 0] = v[i]
    elif kind == 1:
        a[0, 0] = m[0, i]
    elif kind == 2:
        v[i] = 1.0
        a[0, 0] = v[0]
    elif kind == 3:
        a[i, 1] = 1.0
    elif kind == 4:
        row = a[i]
        row[0] = 1.0
    elif kind == 5:
        part = a[1:, i]
        part[0] = 1.0
    elif kind == 6:
        part = a[1:, 0]
        part[i] = 1.0
    else:
        wp.atomic_add(a, 0, i, 1.0)


@pytest.mark.parametrize(
    ("kind", "message", "row"),
    [
        (0, "component 5 is out of range: a vec3[float32] has 3", "= v[i]"),
        (1, "column 5 is out of range: a mat2x2[float32] has 2", "m[0, i]"),
        (2, "component 5 is out of range: a vec3[float32] has 3", "v[i] = 1.0"),
        (3, "index (5, 1) is out of range for array `a` of shape (3, 4)", "a[i, 1]"),
        (4, "index (5, 0) is out of range for array `a` of shape (3, 4)", "row[0]"),
        (5, "index 5 is out of range for array `a` of shape (4,)", "a[1:, i]"),
        (6, "index 5 is out of range for a part of array `a` of shape (2,)", "part[i]"),
        (7, "index (0, 5) is out of range for array `a` of shape (3, 4)", "atomic_add"),
    ],
)
def test_indices_out_of_range(debug, kind, message, row):
    a = np.zeros((3, 4), np.float32)
    args = (a, wp.vec3(), wp.mat22())
    fails(indexing, IndexError, f"{message} in thread 0", row, *args, 5, kind, dim=1)
    wp.launch(indexing, dim=1, inputs=[*args, 1, kind])
    if kind < 3:
        with pytest.raises(IndexError, match=r"(component|column) -4 is out of range"):
            wp.launch(indexing, dim=1, inputs=[*args, -4, kind])
        wp.launch(indexing, dim=1, inputs=[*args, -1, kind])


@wp.kernel
def roots(x: wp.array(dtype=float), out: wp.array(dtype=float), vs: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    wp.atomic_add(vs, 0, wp.vec2(1.0, x[i] / (x[i] - 2.0)))
    out[i] = wp.sqrt(x[i])


def test_values_that_are_not_finite(verify_fp):
    vs = wp.zeros(1, dtype=wp.vec2)
    x = np.array([1.0, -1.0, 4.0], np.float32)
    fails(
        roots,
        FloatingPointError,
        "nan is written to array `out` at index 1 in thread 1",
        "sqrt",
        x,
        x.copy(),
        vs,
        dim=3,
    )
    x = np.array([1.0, 2.0, 4.0], np.float32)
    message = "[1.0, inf] is written to array `vs` at index 0 in thread 1"
    fails(roots, FloatingPointError, message, "atomic_add", x, x.copy(), vs, dim=3)


def test_gradients_that_are_not_finite(verify_fp):
    @wp.kernel
    def doubled(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = 2.0 * x[i]

    x = wp.array([0.5, 1.0], dtype=float, requires_grad=True)
    out = wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(doubled, dim=2, inputs=[x, out])
    with pytest.raises(
        FloatingPointError, match="the adjoint of kernel `doubled`: inf is written to array `adj_x` at index 1"
    ):
        tape.backward(grads={out: wp.array([1.0, np.inf], dtype=float)})


@wp.kernel
def expecting(x: wp.array(dtype=float), v: wp.vec2, kind: int):
    i = wp.tid()
    wp.expect_eq(i, int(x[i]))
    wp.expect_neq(v, wp.vec2(1.0, 2.0))
    if kind == 1:
        wp.expect_near(v, wp.vec2(3.0, 4.5), 0.25)
    if kind == 2:
        wp.expect_near(1.0, x[i])


def test_expectations():
    x = np.arange(3, dtype=np.float32)
    v = wp.vec2(3.0, 4.0)
    wp.launch(expecting, dim=3, inputs=[x, v, 0])
    near = "`wp.expect_near(v, wp.vec2(3.0, 4.5), 0.25)` does not hold: [3.0, 4.0] and [3.0, 4.5] in thread 0"
    fails(expecting, AssertionError, near, "0.25", x, v, 1, dim=3)
    near = "`wp.expect_near(1.0, x[i])` does not hold: 1.0 and 0.0 in thread 0"
    fails(expecting, AssertionError, near, "1.0, x[i]", x, v, 2, dim=3)
    neq = "`wp.expect_neq(v, wp.vec2(1.0, 2.0))` does not hold: [1.0, 2.0] and [1.0, 2.0] in thread 0"
    fails(expecting, AssertionError, neq, "neq", x, wp.vec2(1.0, 2.0), 0, dim=3)
    eq = "`wp.expect_eq(i, int(x[i]))` does not hold: 2 and 7 in thread 2"
    fails(expecting, AssertionError, eq, "expect_eq", np.array([0, 1, 7], np.float32), v, 0, dim=3)


def test_checks_are_left_out_of_gradients(debug):
    @wp.kernel
    def k(x: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
        i = wp.tid()
        assert x[i] > 0.0
        v = wp.vec2(x[i], 1.0)
        out[i] = v[n % 2] * v[0]

    x = wp.array([2.0, 3.0], dtype=float, requires_grad=True)
    out = wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(k, dim=2, inputs=[x, out, 4])
    tape.backward(grads={out: wp.ones(2, dtype=float)})
    np.testing.assert_array_equal(x.grad.numpy(), [4.0, 6.0])


PRINTING = r"""
import numpy as np
import warp_like as wp

@wp.struct
class Ball:
    mass: float
    at: wp.vec2

@wp.kernel
def k(a: wp.array2d(dtype=float), u: wp.uint32):
    b = Ball(mass=0.5, at=wp.vec2(1.0, 2.5))
    print(b)
    print(1, 2.5, "text", True, wp.vec2(1.0, 2.0), (3, wp.float64(0.1)))
    print(wp.mat22(1.0, 2.0, 3.0, 4.0))
    print(a, a[0, 1:], a.dtype)
    print(1, 2, sep=", ", end=";\n")
    wp.printf("%5d|%-5d|%05d|%+d|% d\n", 42, 42, 42, 42, 42)
    wp.printf("%x %X %#o %c %u %%\n", 255, 255, 8, 65, -1)
    wp.printf("%8.3f|%-8.2e|%g|%.0f|%10s|", 3.14159, 12345.678, 0.1, 2.5, "right")
    wp.printf("%.2f", wp.float64(1.0) / wp.float64(3.0))
    wp.printf(" %lu %hd end\n", u, 7)
    wp.printf("no values\n")

wp.launch(k, dim=1, inputs=[np.zeros((2, 3), np.float32), 4000000000])
"""


def test_printing(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PRINTING)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False, env=_env())
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "Ball(mass=0.5, at=[1.0, 2.5])",
        "1 2.5 text True 1.0 2.0 3 0.1",
        "1.0 2.0",
        "3.0 4.0",
        "array2d[float32] of shape (2, 3) array1d[float32] of shape (2,) float32",
        "1, 2;",
        "   42|42   |00042|+42| 42",
        "ff FF 010 A 4294967295 %",
        "   3.142|1.23e+04|0.1|2|     right|0.33 4000000000 7 end",
        "no values",
    ]


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@wp.kernel
def formatted(x: float, n: int):
    wp.printf("%c%c %5.2f %lld %s\n", n, n + 1, x, wp.int64(n), "end")
    wp.breakpoint()
    print(x, n)


def test_printing_in_ptx():
    ptx = formatted.inspect("ptx", target="sm_80")
    assert "brkpt" in ptx
    if libdevice.find_ptxas() is not None:
        assert assemble(ptx, "sm_80")[:4] == b"\x7fELF"


def test_a_breakpoint_without_a_debugger_does_nothing(capfd):
    wp.launch(formatted, dim=1, inputs=[1.5, 66])
    assert capfd.readouterr().out == "BC  1.50 66 end\n1.5 66\n"
    told: list[str] = []
    with contextlib.suppress(StopIteration):
        run(build(formatted.source.pyfunc), [1.5, 66], (1,), told)
    assert told == ["BC  1.50 66 end\n", "1.5 66\n"]


def test_lines_are_those_of_the_file_now(debug, tmp_path):
    """A function that moves in its file is compiled again where its code names lines."""
    module = """
import warp_like as wp

@wp.kernel
def k(n: int):
    assert n > 0
"""
    for empty in (0, 5):
        names: dict[str, object] = {"__name__": "moved"}
        file = tmp_path / f"moved{empty}.py"
        file.write_text("\n" * empty + module)
        exec(compile(file.read_text(), str(file), "exec"), names)
        with pytest.raises(AssertionError, match=f"line {6 + empty} of {file}"):
            wp.launch(names["k"], dim=1, inputs=[0])
