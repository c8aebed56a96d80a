"""Modules: what belongs to them, their options and those of kernels, loading."""

from __future__ import annotations

import gc
from unittest.mock import patch

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define

SOURCE = """
@wp.struct
class Point:
    x: float

@wp.func
def twice(x: float):
    return x + x

@wp.kernel
def double(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = twice(x[i])

@wp.kernel
def fused(a: wp.array(dtype=wp.float64), b: wp.array(dtype=wp.float64), c: wp.array(dtype=wp.float64)):
    i = wp.tid()
    c[i] = a[i] * b[i] + c[i]
"""


@pytest.fixture
def module(request: pytest.FixtureRequest) -> wp.Module:
    return wp.get_module(define(SOURCE, __name__=f"made.{request.node.name}")["__name__"])


def test_a_module_lists_what_is_declared_in_it(module):
    assert list(module.kernels) == ["double", "fused"]
    assert list(module.functions) == ["twice"]
    assert list(module.structs) == ["Point"]
    assert module.kernels["double"].module is module
    assert wp.get_module(module.name) is module
    assert repr(module) == f"<warp_like module {module.name}>"


def test_kernels_go_to_the_module_that_is_asked_for():
    other = wp.get_module("made.elsewhere")

    @wp.kernel(module="made.elsewhere", name="first")
    def a(x: float):
        pass

    @wp.kernel(module=other)
    def b(x: float):
        pass

    @wp.kernel(module="unique", module_options={"max_unroll": 3})
    def c(x: float):
        pass

    @wp.func(module=other, name="cube")
    def f(x: float):
        return x * x * x

    assert list(other.kernels) == ["first", "b"]
    assert other.functions == {"cube": f}
    assert c.module.name.startswith(f"{__name__}.c_")
    assert c.option("max_unroll") == 3
    assert c.key not in wp.get_module(__name__).kernels
    with pytest.raises(ValueError, match="module_options belong to a module of the kernel's own"):
        wp.kernel(module_options={"max_unroll": 3})
    with pytest.raises(TypeError, match="a module is given as a Python module, its name or a wp.Module, got int"):
        wp.kernel(module=3)(lambda: None)


def test_a_kernel_of_the_same_name_takes_its_place(module):
    first = module.kernels["double"]

    @wp.kernel(module=module)
    def double(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = 2.0 * x[i] + 100.0

    assert module.kernels["double"] is double
    for k, expected in ((first, 2.0), (double, 102.0), (first, 2.0)):  # who holds the earlier one can still use it
        x = np.ones(1, np.float32)
        wp.launch(k, 1, inputs=[x])
        assert x[0] == expected


def products(kernel: wp.Kernel) -> float:
    """What ``a * b + c`` leaves where it rounds once, and 0 where it rounds twice."""
    a, c = np.array([1.0 + 2.0**-30]), np.array([-((1.0 + 2.0**-30) ** 2)])
    wp.launch(kernel, 1, inputs=[a, a, c])
    return float(c[0])


def test_options_take_effect_and_are_given_back_to_config(module):
    kernel = module.kernels["fused"]
    assert products(kernel) == 2.0**-60
    module.options["fuse_fp"] = False
    assert products(kernel) == 0.0
    wp.set_module_options({"fuse_fp": None}, module=module.name)
    assert products(kernel) == 2.0**-60
    wp.config.fuse_fp = False
    try:
        assert module.options["fuse_fp"] is False
        assert products(kernel) == 0.0
        module.options["fuse_fp"] = True
        assert products(kernel) == 2.0**-60
    finally:
        del wp.config.fuse_fp
        del module.options["fuse_fp"]


def test_the_mode_of_one_kernel():
    @wp.kernel(mode="debug")
    def checked(x: wp.array(dtype=float)):
        x[wp.tid()] = 1.0

    with pytest.raises(IndexError):
        wp.launch(checked, 2, inputs=[np.zeros(1, np.float32)])
    assert checked.option("mode") == "debug"
    assert wp.config.mode == "release"


def test_a_kernel_s_own_options_come_before_its_module_s(module):
    @wp.kernel(module=module, max_unroll=4, fast_math=True, enable_backward=False)
    def k(x: wp.array(dtype=float)):
        pass

    module.options.update(max_unroll=8, fast_math=False)
    compiled = k.compile_options()
    assert (compiled.max_unroll, compiled.fast_math, k.option("enable_backward")) == (4, True, False)
    assert module.kernels["double"].compile_options().max_unroll == 8


def test_a_kernel_s_options_are_a_mapping_that_can_be_changed(module):
    @wp.kernel(module=module, enable_backward=False, cuda_max_registers=64, grid_stride=False)
    def k(x: wp.array(dtype=float)):
        x[wp.tid()] = x[5]

    assert k.options == {"enable_backward": False, "max_registers": 64, "grid_stride": False}
    assert k.options["cuda_max_registers"] == 64
    assert module.kernels["double"].options.get("enable_backward") is None
    wp.launch(k, 1, inputs=[wp.zeros(6, dtype=float)])
    k.options["mode"] = "debug"
    with pytest.raises(IndexError):
        wp.launch(k, 1, inputs=[wp.zeros(1, dtype=float)])
    del k.options["mode"]
    assert k.option("mode") == wp.config.mode
    with pytest.raises(KeyError):
        k.options["mode"]


def test_options_can_be_copied_cleared_and_patched(module):
    kernel = module.kernels["double"]
    module.options["max_unroll"] = 3
    kernel.options["mode"] = "debug"
    kept = module.options.copy()
    assert (type(kept), kept["max_unroll"], kernel.options.copy()) == (dict, 3, {"mode": "debug"})
    with patch.dict(module.options, {"max_unroll": 4}), patch.dict(kernel.options, clear=True):
        assert (kernel.option("max_unroll"), kernel.option("mode")) == (4, wp.config.mode)
    assert (kernel.option("max_unroll"), kernel.option("mode")) == (3, "debug")
    module.options.clear()
    kernel.options.clear()
    assert (kernel.option("max_unroll"), kernel.options) == (wp.config.max_unroll, {})


def test_options_of_a_generic_kernel_reach_its_instances(module):
    @wp.kernel(module=module)
    def k(x: wp.array(dtype=wp.Float)):
        x[wp.tid()] = x[5]

    wp.launch(k, 1, inputs=[wp.zeros(6, dtype=float)])
    k.options["mode"] = "debug"
    with pytest.raises(IndexError):
        wp.launch(k, 1, inputs=[wp.zeros(1, dtype=float)])


def test_options_of_warp_that_change_nothing_are_kept(module):
    module.options.update(cpu_compiler_flags="-march=native", optimization_level=1, enable_mathdx_gemm=False)
    assert module.options["optimization_level"] == 1
    with pytest.raises(ValueError, match="has no option `grid_stride`"):  # which belongs to kernels
        module.options["grid_stride"] = False


def test_gradients_switched_off_for_a_module(module):
    module.options["enable_backward"] = False
    x = wp.ones(1, dtype=float, requires_grad=True)
    with pytest.raises(RuntimeError, match="kernel `double`: gradients are switched off"):
        wp.launch(module.kernels["double"], 1, inputs=[x], adjoint=True)


def test_compiled_kernels_stay_when_nothing_changes(module):
    double = module.kernels["double"]
    wp.launch(double, 1, [np.ones(1, np.float32)])
    compiled = double.fast
    assert compiled is not None

    @wp.kernel(module=module)
    def another(x: float):
        pass

    double.options["max_unroll"] = None
    assert double.fast is compiled
    module.options["fast_math"] = True
    assert double.fast is None
    wp.launch(double, 1, [np.ones(1, np.float32)])
    compiled = double.fast
    module.options["fast_math"] = True
    assert double.fast is compiled


def test_options_of_the_calling_module():
    made = define(
        "wp.set_module_options({'max_unroll': 5})\noptions = wp.get_module_options()\n", __name__="made.calling"
    )
    assert made["options"]["max_unroll"] == 5
    assert wp.get_module("made.calling").options["max_unroll"] == 5
    assert wp.get_module_options("made.calling") is made["options"]
    assert wp.get_module_options()["max_unroll"] == wp.config.max_unroll


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"fastmath": True}, ValueError, "module `made.wrong` has no option `fastmath`; did you mean `fast_math`?"),
        ({"mode": "fast"}, ValueError, "setting `mode` is one of 'release', 'debug', got 'fast'"),
        ({"max_unroll": "8"}, TypeError, "setting `max_unroll` takes int, got str '8'"),
        ({"max_unroll": -1}, ValueError, "setting `max_unroll` can't be negative, got -1"),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    with pytest.raises(error) as caught:
        wp.set_module_options(options, module="made.wrong")
    assert str(caught.value) == message


def test_wrong_options_of_a_kernel_are_refused():
    def k(x: float):
        pass

    with pytest.raises(ValueError, match="kernel `k` has no option `max_unrol`; did you mean `max_unroll`?"):
        wp.kernel(max_unrol=3)(k)
    with pytest.raises(ValueError, match="has no option `qqq`; they are mode, fast_math"):
        wp.kernel(qqq=3)(k)
    for bounds in (0, 2000, (256, -1), "256", (1, 2, 3)):
        with pytest.raises(ValueError, match="launch_bounds is the most threads of a block"):
            wp.kernel(launch_bounds=bounds)


def test_launch_bounds_are_in_the_ptx():
    def text(bounds: int | tuple[int, int] | None) -> str:
        @wp.kernel(launch_bounds=bounds)
        def k(x: wp.array(dtype=float)):
            x[wp.tid()] = 1.0

        return k.inspect_ptx()

    assert ".maxntid" not in text(None)
    assert ".maxntid 256" in text(256)
    assert ".minnctapersm 2" in text((128, 2))


def test_loading_compiles_what_can_be_launched(module):
    wp.load_module(module)
    for kernel in module.kernels.values():
        assert kernel.program(kernel.types).dispatcher is not None
    module.unload()
    assert not module.kernels["double"]._programs
    wp.force_load("cpu", [module])
    assert module.kernels["double"]._programs


def test_loading_compiles_each_kernel_of_one_name(module):
    text = "@wp.kernel\ndef k(x: wp.array(dtype=float)):\n    x[wp.tid()] = float(N)\n"
    kernels = [define(text, N=n, __name__=module.name)["k"] for n in (1, 2, 3)]
    assert module.kernels["k"] is kernels[-1]
    module.load("cpu")
    x = wp.zeros(1)
    with patch("warp_like.runtime.kernels.kernel.compile_kernel", side_effect=AssertionError):
        for n, k in enumerate(kernels, 1):
            wp.launch(k, 1, [x])
            assert x.list() == [n]
    del kernels[:2], k
    gc.collect()
    assert not list(module._replaced)


def test_hashes_tell_kernels_apart(module):
    text = "@wp.func\ndef f(x: float):\n    return x * A\n\n"
    text += "@wp.kernel\ndef k(x: wp.array(dtype=float)):\n    x[0] = f(x[0])\n"
    one, other, same = (define(text, A=a, __name__=module.name)["k"] for a in (1.0, 2.0, 1.0))
    assert isinstance(one.hash, bytes)
    assert one.hash == same.hash != other.hash
    before = module.get_module_hash()
    assert before == module.get_module_hash(block_dim=64)
    module.options["fast_math"] = True
    assert before != module.get_module_hash()
    del module.options["fast_math"]
    assert before == module.get_module_hash()
    define(text, A=3.0, __name__=module.name)
    assert before != module.get_module_hash()


def test_loading_modules_inside_a_module():
    define("@wp.kernel\ndef k(x: float):\n    pass\n", __name__="made.outer.inner")
    inner = wp.get_module("made.outer.inner")
    with pytest.raises(RuntimeError, match="module `made.outer` declares no kernels, functions or structs"):
        wp.load_module("made.outer")
    wp.load_module("made.outer", recursive=True)
    assert inner.kernels["k"]._programs


def test_a_mistake_is_found_when_its_module_is_loaded():
    define("@wp.kernel\ndef k(x: float):\n    y = x + 1 + wp.vec2(0.0, 0.0)\n", __name__="made.mistaken")
    with pytest.raises(wp.WarpCodegenTypeError):
        wp.load_module("made.mistaken")


def test_recorded_launches_follow_the_options(module):
    """One of the products is only seen where nothing is rounded in between."""
    a = np.array([1.0 + 2.0**-30])
    c = np.array([-1.0])
    exact, rounded = 2.0**-29 + 2.0**-60, 2.0**-29

    def result(command):
        c[:] = -1.0
        command.launch()
        return c[0]

    module.options["fuse_fp"] = True
    command = wp.launch(module.kernels["fused"], 1, [a, a, c], record_cmd=True)
    assert [result(command) for _ in range(2)] == [exact, exact]
    wp.set_module_options({"fuse_fp": False}, module)
    assert [result(command) for _ in range(2)] == [rounded, rounded]
    module.kernels["fused"].options["fuse_fp"] = True
    assert [result(command) for _ in range(2)] == [exact, exact]
    module.kernels["fused"].options["fuse_fp"] = None
    before = wp.config.mode
    wp.config.mode = "debug"
    try:
        command.set_dim(2)
        with pytest.raises(IndexError):
            command.launch()
    finally:
        wp.config.mode = before
    command.set_dim(1)
    assert result(command) == rounded
