"""Names that some paths assign and others do not, and functions that return a value on some paths."""

import warnings

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define


def run(body: str, *rows: tuple[int, ...], head: str = "", result: str = "float") -> list[list[float]]:
    """What ``out`` holds after a launch of one thread for each row of numbers ``n, m``."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    arguments = f"x: wp.array2d(dtype=int), a: wp.array(dtype=float), out: wp.array(dtype={result})"
    source = f"{head}\n@wp.kernel\ndef k({arguments}):\n    i = wp.tid()\n    n = x[i, 0]\n    m = x[i, 1]\n{lines}"
    out = np.zeros(len(rows), dtype=np.float32 if result == "float" else np.int32)
    numbers = np.arange(1, 9, dtype=np.float32)
    wp.launch(define(source)["k"], len(rows), inputs=[np.array(rows, np.int32), numbers, out])
    return out.tolist()


def test_assigned_in_a_branch_and_read_in_another():
    body = "if n > 0:\n    act = a[n]\nr = float(0.0)\nif n > 0:\n    r = act\nout[i] = r"
    assert run(body, (1, 0), (0, 0), (3, 0)) == [2.0, 0.0, 4.0]


def test_zero_where_no_path_assigned_it():
    assert run("if n > 0:\n    y = 5.0\nout[i] = y", (1, 0), (0, 0)) == [5.0, 0.0]
    assert run("if n > 0:\n    y = 5.0\nelif n < -3:\n    y = 7.0\nout[i] = y", (1, 0), (-1, 0), (-9, 0)) == [5, 0, 7]


def test_the_index_of_a_loop_after_it():
    body = "for f in range(n):\n    if i * 2 < f:\n        break\nout[i] = f"
    assert run(body, (4, 0), (4, 0), (0, 0), result="int") == [1, 3, 0]
    assert run("for f in range(m, n):\n    pass\nout[i] = f", (4, 1), (4, 4), result="int") == [3, 0]
    assert run("while n > 0:\n    n -= 1\n    last = n * 2\nout[i] = last", (4, 0), (0, 0), result="int") == [0, 0]


def test_a_value_outlives_the_iteration_that_assigned_it():
    body = "total = int(0)\nfor j in range(n):\n    if j % 3 == 1:\n        best = j\n"
    body += "    if j % 3 == 2:\n        total += best\nout[i] = total"
    assert run(body, (9, 0), (2, 0), (3, 0), result="int") == [1 + 4 + 7, 0, 1]


def test_a_value_outlives_an_inner_loop():
    body = "total = int(0)\nfor j in range(n):\n    for k in range(j % 2):\n        found = j * 10 + k\n"
    body += "    total += found\nout[i] = total"
    assert run(body, (5, 0), (1, 0), result="int") == [0 + 10 + 10 + 30 + 30, 0]


def test_read_by_the_condition_of_the_loop_that_assigns_it():
    body = "while done < 2:\n    n -= 1\n    done = n % 3\nout[i] = n"
    assert run(body, (9, 0), (6, 0), (4, 0), result="int") == [8, 5, 2]


def test_vectors_tuples_structs_and_arrays():
    head = "@wp.struct\nclass Pair:\n    u: float\n    v: wp.vec2\n\n"
    head += "@wp.func\ndef two(a: float):\n    return a, wp.vec2(a, -a)\n"
    assign = "if n > 0:\n    v = wp.vec3(1.0, 2.0, 3.0)\n    p = Pair()\n    p.u = 4.0\n    t = two(5.0)\n    b = a\n"
    reads = ("v[2]", "p.u + p.v[0]", "t[0] - t[1][1]")
    for read, value in zip(reads, (3.0, 4.0, 10.0), strict=True):
        assert run(f"{assign}out[i] = {read}", (1, 0), (0, 0), head=head) == [value, 0.0]
    guarded = "s = float(0.0)\nif n > 0:\n    s = b[3]\nout[i] = s"
    assert run(assign + guarded, (1, 0), (0, 0), head=head) == [4.0, 0.0]


def test_a_component_of_a_vector_that_was_not_assigned():
    assert run("if n > 0:\n    v = wp.vec2(1.0, 2.0)\nv[0] = 5.0\nout[i] = v[0] + v[1]", (1, 0), (0, 0)) == [7.0, 5.0]


def test_each_use_of_a_name_may_have_its_own_type():
    body = "for j in range(n):\n    t = a[j]\nfor j in range(n):\n    t = j\n    m += t\n"
    body += "if n > 1:\n    t = 0.5\n    a[0] = t\nout[i] = m"
    assert run(body, (4, 1), result="int") == [7]


def test_iterations_of_an_unrolled_loop():
    body = "for T in (int, float):\n    t = T(n)\n    if t > T(2):\n        y = float(t)\nout[i] = y"
    assert run(body, (3, 0), (1, 0)) == [3.0, 0.0]
    body = "for j in (2, 5):\n    if n < j:\n        y = j\n        break\nout[i] = y"
    assert run(body, (1, 0), (4, 0), (9, 0), result="int") == [2, 5, 0]


def test_types_that_differ_are_refused_where_it_shows():
    with pytest.raises(wp.WarpCodegenError, match=r"`y` is float32 \(line 8\) or int32 \(line 10\)"):
        run("if n > 0:\n    y = a[0]\nelif n > 1:\n    y = n\nout[i] = float(y)", (1, 0))
    body = "for j in range(n):\n    if j > 1:\n        y = a[j]\n    m += int(y)\n    y = j\nout[i] = float(m)"
    with pytest.raises(wp.WarpCodegenError, match=r"`y` is a float32 since line \d+ and can't become an int32 in line"):
        run(body, (1, 0))


def test_no_path_can_have_assigned_it(tmp_path, monkeypatch):
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))  # what is on disk has been warned of
    with pytest.warns(UserWarning, match=r"kernel `k`: `y` is not assigned on any path that leads here") as caught:
        assert run("if n > 0:\n    y = 5.0\n    out[i] = y\nelse:\n    out[i] = y + 1.0", (1, 0), (0, 0)) == [5.0, 1.0]
    assert len(caught) == 1
    assert caught[0].lineno == 11
    assert caught[0].filename.startswith("<")


def test_what_all_paths_assign_gives_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run("if n > 0:\n    y = 5.0\nelse:\n    y = 6.0\nout[i] = y", (1, 0), (0, 0)) == [5.0, 6.0]


def test_read_before_the_loop_assigns_it():
    with pytest.raises(wp.WarpCodegenKeyError, match="`y` is read before it is assigned"):
        run("for j in range(n):\n    out[i] = y\n    y = 1.0", (1, 0))


@pytest.fixture
def debug():
    wp.config.mode = "debug"
    yield
    del wp.config.mode


def test_debug_mode_reports_reads_of_what_was_not_assigned(debug):
    body = "if n > 0:\n    y = 5.0\nout[i] = y"
    assert run(body, (1, 0), (2, 0)) == [5.0, 5.0]
    with pytest.raises(UnboundLocalError, match=r"kernel `k`: `y` is read, but not assigned .* in thread 1, line 9 of"):
        run(body, (1, 0), (0, 0))
    loop = "for j in range(n):\n    if j == m:\n        y = j\nout[i] = y"
    assert run(loop, (3, 1), result="int") == [1]
    with pytest.raises(UnboundLocalError, match="`y` is read"):
        run(loop, (3, 4), result="int")


def test_debug_mode_lets_pass_what_is_not_read(debug):
    body = "if n > 0:\n    y = 5.0\nr = float(0.0)\nif n > 0:\n    r = y\nout[i] = r"
    assert run(body, (1, 0), (0, 0)) == [5.0, 0.0]


PAIR = (
    "@wp.func\ndef pair(a: int, b: int) -> bool:\n    if a == 0 or b == 0:\n        return False\n"
    "    if a > 0:\n        return a == b or b < 0\n    if a < 0:\n        return a != b\n"
)


def test_functions_that_return_on_some_paths():
    assert run("out[i] = int(pair(n, m))", (0, 1), (1, -1), (-2, 1), (-2, -2), head=PAIR, result="int") == [0, 1, 1, 0]
    several = "@wp.func\ndef f(n: int):\n    for j in range(n):\n"
    several += "        if j == 3:\n            return j, wp.vec2(1.0, 2.0)\n"
    assert run("j, v = f(n)\nout[i] = float(j) + v[1]", (5, 0), (3, 0), head=several) == [5.0, 0.0]
    literal = "@wp.func\ndef f(n: int):\n    if n > 0:\n        return 1.5\n"
    assert run("out[i] = f(n)", (5, 0), (0, 0), head=literal) == [1.5, 0.0]


def test_a_function_that_changes_an_argument_and_returns_on_some_paths():
    head = "@wp.func\ndef f(n: wp.ref[int]):\n    n += 1\n    if n > 3:\n        return n * 10\n    n += 1\n"
    assert run("got = f(n)\nout[i] = got + n", (5, 0), (0, 0), head=head, result="int") == [66, 2]


def test_debug_mode_reports_the_end_of_a_function_that_returns_values(debug):
    head = "@wp.func\ndef f(n: int):\n    if n > 0:\n        return 1.5\n"
    assert run("out[i] = f(n)", (5, 0), head=head) == [1.5]
    with pytest.raises(UnboundLocalError, match=r"`f` ends without a value to return in thread 1, line .* in func `f`"):
        run("out[i] = f(n)", (5, 0), (0, 0), head=head)


@wp.kernel
def scaled(x: wp.array(dtype=wp.float64), n: int, y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    for j in range(n):
        if x[j] > wp.float64(0.5):
            best = wp.sin(x[j]) * x[i]
    if i > 0:
        factor = x[i] * x[i]
    y[i] = best * best + factor


def test_gradients_take_it_for_the_constant_zero():
    x = np.array([0.2, 0.7, 0.9, 0.3])

    def value(x: np.ndarray) -> float:
        y = wp.zeros(4, dtype=wp.float64)
        wp.launch(scaled, 4, inputs=[x, 4, y])
        return float(y.numpy() @ [1.0, 2.0, 3.0, 4.0])

    for start in (x, np.array([0.2, 0.1, 0.3, 0.4])):
        a, y = wp.array(start, requires_grad=True), wp.zeros(4, dtype=wp.float64, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(scaled, 4, inputs=[a, 4, y])
        tape.backward(grads={y: wp.array([1.0, 2.0, 3.0, 4.0], dtype=wp.float64)})
        steps = 1e-6 * np.eye(4)
        expected = [(value(start + s) - value(start - s)) / 2e-6 for s in steps]
        np.testing.assert_allclose(a.grad.numpy(), expected, rtol=1e-6, atol=1e-9)


LEAVING = {
    "else reads what the other side assigns": (
        "if n < 1:\n    v = 1.0\nelse:\n    out[i] = v + 5.0\n    return\nout[i] = v",
        [1.0, 5.0, 5.0],
    ),
    "each side reads what the other assigns": (
        "if n < 1:\n    v = 1.0\nelse:\n    w = 2.0\n    out[i] = v + w\n    return\nout[i] = v + w + 3.0",
        [4.0, 2.0, 2.0],
    ),
    "one side is never read": (
        "if n > 1:\n    v = 1.0\n    return\nelse:\n    out[i] = v\nout[i] += v + 2.0",
        [2.0, 2.0, 0.0],
    ),
    "a loop goes on": (
        "for j in range(3):\n    if n > 1:\n        v = 2.0\n        continue\n    else:\n        out[i] += v + 1.0",
        [3.0, 3.0, 0.0],
    ),
    "a loop is left": (
        "for j in range(3):\n    if n < 1:\n        if j > 0:\n            w = 4.0\n        else:\n"
        "            out[i] += w + 1.0\n            w = 1.0\n            break\n    else:\n        out[i] += w\n"
        "        return\nout[i] += w",
        [2.0, 0.0, 0.0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LEAVING)
@pytest.mark.filterwarnings("ignore:.*is not assigned on any path")
def test_a_side_that_leaves_reads_what_the_other_assigns(case):
    body, expected = LEAVING[case]
    assert run(body, (0, 0), (1, 0), (2, 0)) == expected


def test_a_name_that_no_side_assigns_is_still_not_defined():
    with pytest.raises(wp.WarpCodegenKeyError, match="`w` is not defined"):
        run("if n < 1:\n    v = 1.0\nelse:\n    out[i] = v + w\n    return\nout[i] = v", (0, 0))
    with pytest.raises(wp.WarpCodegenKeyError, match="`u` is not defined"):
        run("if n < 1:\n    v = 1.0 + u\nelse:\n    out[i] = v\n    return\nout[i] = v", (0, 0))
