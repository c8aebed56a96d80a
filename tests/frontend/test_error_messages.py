"""The whole text of every error of the frontend."""

import linecache
import math
from typing import NamedTuple

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.mistakes import MISTAKES
from tests.frontend.support import build, define, launch
from warp_like import WarpCodegenError
from warp_like.base import depth
from warp_like.frontend.source import parse


class Config:
    def __init__(self) -> None:
        self.dt = 0.5
        self.steps = 3
        self.inner = object()
        self.nothing = None

    def half(self) -> float:
        return 0.5 * self.dt


class Sizes(NamedTuple):
    width: float


@wp.kernel
def other_kernel(a: wp.array(dtype=float)):
    a[0] = 1.0


NAMES = {
    "math": math,
    "np": np,
    "other_kernel": other_kernel,
    "VALUES": [1, 2],
    "COUNTER": 0,
    "DATA": np.zeros(3),
    "CONFIG": Config(),
    "CONFIGS": [Config()],
    "SIZES": Sizes(1.0),
    "TABLE": wp.vec3(1.0, 2.0, 3.0),
}
_file = "kernels.py"


def error_of(source: str) -> WarpCodegenError:
    linecache.cache[_file] = (len(source), None, source.splitlines(keepends=True), _file)
    module = {"wp": wp, "__name__": "kernels", **NAMES}

    def declare_and_build() -> None:
        exec(compile(source, _file, "exec"), module)  # gradient functions are checked where they are declared
        build(module["k"])

    with pytest.raises(WarpCodegenError) as caught:
        declare_and_build()
    return caught.value


@pytest.mark.parametrize("name", MISTAKES)
def test_message(name, golden):
    error = error_of(MISTAKES[name])
    golden(f"error_{name}", f"{type(error).__name__}: {error}\n")


def test_no_mistake_is_named_without_its_place():
    for name, source in MISTAKES.items():
        assert "kernels.py:" in str(error_of(source)), name


def test_source_that_can_not_be_found():
    module = {"wp": wp}
    exec("def k(x: float):\n    pass\n", module)
    with pytest.raises(WarpCodegenError, match="the source of kernel `k` can't be found"):
        parse(module["k"], "kernel")
    with pytest.raises(WarpCodegenError, match="can't be a lambda"):
        parse(lambda x: x, "kernel")
    with pytest.raises(WarpCodegenError, match="got builtin_function_or_method"):
        parse(print, "kernel")


def test_source_that_has_changed(tmp_path):
    import importlib.util

    file = tmp_path / "changing.py"
    file.write_text("def k(x: float, y: float):\n    pass\n")
    spec = importlib.util.spec_from_file_location("changing", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    file.write_text("def k(z: float):\n    pass\n# longer than before, so that nobody takes it for the same\n")
    linecache.checkcache(str(file))
    with pytest.raises(WarpCodegenError, match="has changed"):
        parse(module.k, "kernel")


def test_an_expression_of_many_terms():
    k = define(f"def k(out: wp.array(dtype=float), x: float):\n    out[0] = {'x + ' * 1499}x\n")["k"]
    out = np.zeros(1, np.float32)
    wp.launch(wp.kernel(k), 1, inputs=[out, 2.0])
    assert out[0] == 3000.0


def test_what_nests_too_deeply_is_refused(monkeypatch):
    monkeypatch.setattr(depth, "LIMIT", 0)
    k = define(f"def k(out: wp.array(dtype=float), x: float):\n    out[0] = {'x + ' * 1500}x\n")["k"]
    with pytest.raises(WarpCodegenError, match="too deeply"):
        build(k)


def test_many_exits_after_each_other():
    lines = "".join(f"    if x == {i}:\n        out[0] = {i * 2}\n        return\n" for i in range(60))
    k = define(f"def k(out: wp.array(dtype=int), x: int):\n{lines}    out[0] = -1\n")["k"]
    out = np.zeros(1, np.int32)
    for x, expected in ((0, 0), (59, 118), (60, -1)):
        launch(k, 1, out, x)
        assert out[0] == expected


# --- places ---


def place_of(pyfunc):
    with pytest.raises(WarpCodegenError) as caught:
        build(pyfunc)
    loc = caught.value.loc
    return linecache.getline(loc.file, loc.line)[loc.col : loc.end_col], loc


def test_places_in_nested_definitions():
    class Holder:
        def make():
            # fmt: off
            def k(a: wp.array(dtype=float),
                  x: float):
                """Two lines
    of text."""
                y = "ä", wp.sin(x); b = (1.0 +  # noqa: E702, F841
                     undefined)  # noqa: F821
            # fmt: on
            return k

    got, loc = place_of(Holder.make())
    assert got == '"ä", wp.sin(x)'
    assert loc.file == __file__


def test_columns_count_characters():
    m = define("def k(a: wp.array(dtype=float)):\n    'öäü'; a[0] = missing\n")
    got, loc = place_of(m["k"])
    assert (got, loc.line, loc.col) == ("missing", 2, 18)


def test_decorators_and_comments_do_not_shift_lines():
    def decorate(**_):
        return lambda f: f

    @decorate(
        a=1,
    )
    # a comment
    def k(a: wp.array(dtype=float)):
        # another

        a[0] = missing  # noqa: F821

    assert place_of(k)[0] == "missing"


def test_string_annotations_see_the_closure():
    dtype = wp.float64

    def k(a: "wp.array(dtype=dtype)", b: "float"):
        a[0] = dtype(1.0) + dtype(b)

    out = np.zeros(1)
    launch(k, 1, out, 2.0)
    assert out[0] == 3.0


def test_errors_survive_pickling():
    import pickle

    error = error_of(MISTAKES["error_inside_two_funcs"])
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert [loc.function for loc in error.loc.chain()] == ["k", "outer", "wave"]


def test_every_golden_file_has_its_mistake():
    from pathlib import Path

    files = {f.stem.removeprefix("error_") for f in (Path(__file__).parent / "golden").glob("error_*.txt")}
    assert files == set(MISTAKES)
