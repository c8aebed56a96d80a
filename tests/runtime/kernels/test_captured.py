"""Values that kernels name: a launch computes with those of now, a gradient with those of its launch."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import types
from pathlib import Path

import numpy as np
import pytest

import warp_like as wp
from warp_like.runtime.kernels import kernel as kernel_module

G = 2.0
V = wp.vec2(1.0, 2.0)
LIST = [1.0, 2.0]
consts = types.ModuleType("consts_of_test")
consts.scale = 1.0


class Constants:
    bias = 0.0


@wp.func
def powered(x: float):
    return x * x * G


@wp.kernel
def named(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = powered(x[i]) * consts.scale + Constants.bias + V[0] + LIST[1]


@pytest.fixture(autouse=True)
def usual(monkeypatch):
    """Give each test the values of the declarations above, and take back what it changes."""
    this = sys.modules[__name__]
    for name, value in {"G": 2.0, "V": wp.vec2(1.0, 2.0), "LIST": [1.0, 2.0]}.items():
        monkeypatch.setattr(this, name, value)
    monkeypatch.setattr(consts, "scale", 1.0)
    monkeypatch.setattr(Constants, "bias", 0.0)


def set_global(name: str, value: object) -> None:
    globals()[name] = value


def expected(x: np.ndarray) -> np.ndarray:
    """What the kernel computes with the values of now."""
    return x * x * G * consts.scale + Constants.bias + V[0] + LIST[1]


X = np.array([1.0, 3.0], np.float32)


def run(x: np.ndarray = X) -> np.ndarray:
    y = np.zeros_like(x)
    wp.launch(named, dim=len(x), inputs=[x], outputs=[y])
    return y


CHANGES = {
    "global of a function": lambda: set_global("G", 5.0),
    "attribute of a module": lambda: setattr(consts, "scale", 5.0),
    "attribute of a class": lambda: setattr(Constants, "bias", 5.0),
    "vector": lambda: set_global("V", wp.vec2(5.0, 2.0)),
    "component": lambda: V.__setitem__(0, 5.0),
    "item": lambda: LIST.__setitem__(1, 5.0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_launch_computes_with_the_values_of_now(change):
    for _ in range(3):  # compiled, then by the native path
        np.testing.assert_allclose(run(), expected(X))
    before = run()
    change()
    for _ in range(3):
        after = run()
        np.testing.assert_allclose(after, expected(X))
        assert (after != before).all()


def test_a_function_that_is_declared_again_is_used():
    scope: dict[str, object] = {"wp": wp}
    text = """
    @wp.func
    def f(x: float):
        return x + {0}
    """
    declare_in(scope, text.format("1.0"))
    declare_in(scope, "@wp.kernel\ndef k(y: wp.array(dtype=float)):\n    y[0] = f(y[0])\n")
    y = np.zeros(1, np.float32)
    wp.launch(scope["k"], dim=1, inputs=[y])
    declare_in(scope, text.format("10.0"))
    wp.launch(scope["k"], dim=1, inputs=[y])
    assert y[0] == 11.0


def test_a_name_that_is_bound_to_another_function_or_type():
    f, t = wp.sin, wp.float64

    @wp.kernel
    def k(y: wp.array(dtype=float)):
        y[0] = float(f(t(0.1)))

    y = np.zeros(1, np.float32)
    wp.launch(k, dim=1, inputs=[y])
    assert y[0] == np.float32(np.sin(0.1))
    f, t = wp.cos, wp.float16
    wp.launch(k, dim=1, inputs=[y])
    assert abs(y[0] - np.cos(0.1)) < 1e-3


def declare_in(scope: dict[str, object], text: str) -> None:
    """Run a text whose source can be found later."""
    import linecache

    name = f"<captured {len(linecache.cache)}>"
    text = textwrap.dedent(text)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), scope)


def counted(monkeypatch) -> list[str]:
    """The kernels whose artifacts are asked for from now on."""
    asked: list[str] = []
    original = kernel_module.compile_kernel

    def compile_kernel(source, *args):
        asked.append(source.name)
        return original(source, *args)

    monkeypatch.setattr(kernel_module, "compile_kernel", compile_kernel)
    return asked


def test_each_value_is_compiled_once_and_an_equal_one_not_at_all(monkeypatch):
    for value in (2.0, 3.0):
        set_global("G", value)
        run()
    asked = counted(monkeypatch)
    for value in (2.0, 3.0, 2.0, float("3.0"), float("2.0")):
        set_global("G", value)
        np.testing.assert_allclose(run(), expected(X))
    assert asked == []


def test_a_number_that_keeps_changing_is_warned_of_once_and_old_code_is_forgotten(caplog):
    n = 0

    @wp.kernel
    def k(y: wp.array(dtype=float)):
        y[0] = float(n)

    y = np.zeros(1, np.float32)
    for n in range(14):
        wp.launch(k, dim=1, inputs=[y])
        assert y[0] == n
    assert caplog.text.count("kernel `k` is compiled again and again, since `n` changes") == 1
    assert len(k._editions) == kernel_module.MANY_EDITIONS + 1
    n = 0
    wp.launch(k, dim=1, inputs=[y])
    assert y[0] == 0.0


# --- launches that are made ready beforehand ---


def test_recorded_launches_follow_the_value():
    y = np.zeros_like(X)
    command = wp.launch(named, dim=2, inputs=[X], outputs=[y], record_cmd=True)
    for value in (2.0, 5.0, 2.0, 7.0):
        set_global("G", value)
        for _ in range(2):
            command.launch()
            np.testing.assert_allclose(y, expected(X))


def test_graphs_keep_the_value_of_the_capture():
    x, y = wp.array(X), wp.zeros(2, dtype=float)
    with wp.ScopedCapture() as capture:
        wp.launch(named, dim=2, inputs=[x], outputs=[y])
    wanted = expected(X)
    set_global("G", 5.0)
    wp.capture_launch(capture.graph)
    np.testing.assert_allclose(y.numpy(), wanted)
    np.testing.assert_allclose(run(), expected(X))


def test_generic_kernels_and_kernels_with_options():
    k = 2.0

    @wp.kernel
    def scaled(x: wp.array(dtype=wp.Any)):
        i = wp.tid()
        x[i] = x[i] * x.dtype(k)

    single, double = np.ones(1, np.float32), np.ones(1, np.float64)
    for k in (2.0, 2.0, 3.0, 3.0, 2.0):  # noqa: B007
        wp.launch(scaled, dim=1, inputs=[single])
        wp.launch(scaled, dim=1, inputs=[double])
        wp.launch(scaled, dim=1, inputs=[single], options={"fast_math": True})
    assert single[0] == 72.0 * 72.0
    assert double[0] == 72.0


def test_options_that_change_hold_for_every_value():
    options = wp.get_module_options()
    for value in (2.0, 5.0):
        set_global("G", value)
        run()
    options["max_unroll"] = 3
    try:
        for value in (2.0, 5.0):
            set_global("G", value)
            np.testing.assert_allclose(run(), expected(X))
            assert named.current().compile_options().max_unroll == 3
    finally:
        options["max_unroll"] = None


def test_threads_that_launch_while_a_value_changes_get_one_of_the_values():
    allowed = set()
    for value in (2.0, 3.0):
        set_global("G", value)
        allowed.add(float(run()[1]))
    seen: list[float] = []
    stop = threading.Event()

    def work():
        while not stop.is_set():
            seen.append(float(run()[1]))

    workers = [threading.Thread(target=work) for _ in range(3)]
    for w in workers:
        w.start()
    for k in range(200):
        set_global("G", (2.0, 3.0)[k % 2])
    stop.set()
    for w in workers:
        w.join()
    assert seen
    assert set(seen) <= allowed


# --- gradients ---


def test_the_adjoint_is_that_of_the_value_at_recording():
    @wp.kernel
    def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = powered(x[i]) * V[0] * LIST[1]

    x, y = wp.array(X, requires_grad=True), wp.zeros(2, dtype=float, requires_grad=True)
    wp.launch(k, dim=2, inputs=[x], outputs=[y])  # so that the second launch is recorded by the native path
    with wp.Tape() as tape:
        wp.launch(k, dim=2, inputs=[x], outputs=[y])
    wanted = 2.0 * X * G * V[0] * LIST[1]
    set_global("G", 5.0)
    V[0] = 10.0
    LIST[1] = 10.0
    tape.backward(grads={y: wp.ones(2, dtype=float)})  # whose code is made only now
    np.testing.assert_allclose(x.grad.numpy(), wanted)
    with wp.Tape() as other:
        wp.launch(k, dim=2, inputs=[x], outputs=[y])
    other.zero()
    other.backward(grads={y: wp.ones(2, dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * X * G * V[0] * LIST[1])
    tape.zero()
    tape.backward(grads={y: wp.ones(2, dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), wanted)


def test_one_tape_may_hold_launches_of_several_values():
    x = wp.array(X, requires_grad=True)
    y = [wp.zeros(2, dtype=float, requires_grad=True) for _ in range(4)]
    values = (2.0, 3.0, 2.0, 4.0)
    with wp.Tape() as tape:
        for k, value in enumerate(values):
            set_global("G", value)
            wp.launch(named, dim=2, inputs=[x], outputs=[y[k]])
    set_global("G", 100.0)
    tape.backward(grads={a: wp.ones(2, dtype=float) for a in y})
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * X * sum(values))


def test_the_adjoint_calls_the_function_of_the_recording():
    scope: dict[str, object] = {"wp": wp}
    text = "@wp.func\ndef f(x: float):\n    return {0} * x * x\n"
    declare_in(scope, text.format("3.0"))
    kernel = "@wp.kernel\ndef k(x: wp.array(dtype=float), y: wp.array(dtype=float)):\n    y[0] = f(x[0])\n"
    declare_in(scope, kernel)
    x, y = wp.ones(1, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(scope["k"], dim=1, inputs=[x], outputs=[y])
    declare_in(scope, text.format("50.0"))
    tape.backward(grads={y: wp.ones(1, dtype=float)})
    assert x.grad.numpy().tolist() == [6.0]


def test_explicit_adjoints_and_forward_mode_take_the_value_of_now():
    for value in (2.0, 5.0, 2.0):
        set_global("G", value)
        x = wp.array(X, requires_grad=True)
        y = wp.zeros(2, dtype=float, requires_grad=True)
        wp.launch(named, 2, [x], [y], adj_inputs=[None], adj_outputs=[wp.ones(2, dtype=float)], adjoint=True)
        np.testing.assert_allclose(x.grad.numpy(), 2.0 * X * value)
        (change,) = wp.autograd.jvp(named, dim=2, inputs=[x], outputs=[y], tangents=[wp.ones(2, dtype=float)])
        np.testing.assert_allclose(change.numpy(), 2.0 * X * value)


def test_a_gradient_function_that_comes_later_is_used_with_the_value_of_the_recording():
    c = 3.0

    @wp.func
    def f(x: float):
        return c * x

    @wp.kernel
    def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        y[0] = f(x[0]) * c

    x, y = wp.ones(1, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(k, dim=1, inputs=[x], outputs=[y])
    c = 7.0

    @wp.func_grad(f)
    def adj_f(x: float, adj_ret: float):
        wp.adjoint[x] += 100.0 * adj_ret

    tape.backward(grads={y: wp.ones(1, dtype=float)})
    assert x.grad.numpy().tolist() == [300.0]
    wp.launch(k, dim=1, inputs=[x], outputs=[y])
    assert y.numpy().tolist() == [49.0]


# --- what comes from elsewhere ---


def test_ahead_of_time_modules_hold_the_value_of_their_compilation(tmp_path):
    scope = {"wp": wp, "C": 2.0, "__name__": "captured_aot"}
    declare_in(scope, "@wp.kernel\ndef k(y: wp.array(dtype=float)):\n    y[0] = C\n")
    y = np.zeros(1, np.float32)
    wp.launch(scope["k"], dim=1, inputs=[y])
    scope["C"] = 3.0
    wp.compile_aot_module("captured_aot", device="cpu", module_dir=tmp_path)
    wp.load_aot_module("captured_aot", device="cpu", module_dir=tmp_path)
    for value in (3.0, 2.0, 3.0, 4.0):
        scope["C"] = value
        wp.launch(scope["k"], dim=1, inputs=[y])
        assert y[0] == value
    with pytest.raises(RuntimeError, match="kernel `k` has changed since"):
        wp.load_aot_module("captured_aot", device="cpu", module_dir=tmp_path)
    wp.load_aot_module("captured_aot", device="cpu", module_dir=tmp_path, strip_hash=True)
    wp.launch(scope["k"], dim=1, inputs=[y])
    assert y[0] == 3.0


PROGRAM = """
import numpy as np
import warp_like as wp

G = 2.0

@wp.kernel
def k(y: wp.array(dtype=float)):
    y[0] = G

y = np.zeros(1, np.float32)
for G in (2.0, 3.0, 2.0):
    wp.launch(k, dim=1, inputs=[y])
    print(y[0], "from the cache" in str(k.explain()))
"""


def test_each_value_has_its_place_in_the_cache(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path = str(Path(wp.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": path, "WARP_LIKE_CACHE_DIR": str(tmp_path / "cache")}
    said = [
        subprocess.run([sys.executable, str(program)], env=env, check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    ]
    assert said[0].splitlines() == ["2.0 False", "3.0 False", "2.0 False"]
    assert said[1].splitlines() == ["2.0 True", "3.0 True", "2.0 True"]


def test_what_inspect_shows_has_the_value_of_now():
    for value in (2.25, 5.25):
        set_global("G", value)
        run()
        assert f"{value}" in named.inspect("optimised")
