"""Finding the text of a definition: without reading tokens it is what ``inspect`` finds."""

import importlib.util
import inspect
import linecache
import os
import sys
import textwrap

import pytest

import warp_like as wp
from warp_like.compiler.lookup import cache_key
from warp_like.compiler.signature import Signature
from warp_like.frontend import source as module
from warp_like.frontend.source import parse, read

DEFINITIONS = '''
def decorate(*args, **kwargs):
    return lambda f: f

@decorate(
    1,
    name="two",
)
def decorated(x: float,
              y: float = 2.0):
    # a comment
    v = x + (
        y
    )

    return v
    # the end

def one_line(x): return x

def docstring_alone():
    """Text
that is not indented.
    """

def text_in_the_middle(x):
    v = """
not indented
"""
    return x

def ends_in_pass(x):
    if x:
        pass
    else:
        pass

def ends_in_a_bracket(x):
    return max(
        x,
        1,
)

def unreachable(x):
    return x
    x = 2
    x: int

def only_comments_follow(x):
    return x
# not part of it

    # nor is this

def nested(x):
    def inner(y):
        return [
            z
            for z in y
        ]
    return inner

class Holder:
    @staticmethod
    def method(x):
        while x:
            x = x - 1
        return x

    other = 3

def last(x):
    for i in range(x):
        x = i
'''

FUNCTIONS = [line.split("(")[0].split()[1] for line in DEFINITIONS.splitlines() if line.startswith("def ")]


@pytest.fixture
def definitions(tmp_path):
    path = tmp_path / "definitions.py"
    path.write_text(DEFINITIONS)
    spec = importlib.util.spec_from_file_location("definitions", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("name", [*FUNCTIONS, "Holder.method"])
def test_the_block_is_what_inspect_finds(definitions, name):
    f = definitions
    for part in name.split("."):
        f = getattr(f, part)
    lines, first = inspect.getsourcelines(f)
    found = parse(f, "func")
    assert found.first_line == first
    expected = [line.rstrip("\n") for line in lines]
    assert list(found.lines) == expected[: len(found.lines)]
    assert all(line.strip()[:1] in ("", "#") for line in expected[len(found.lines) :])
    assert found.node.name == f.__name__
    assert found.text == textwrap.dedent(found.text)


def test_every_function_of_a_large_module_is_found():
    for f in vars(module).values():
        if inspect.isfunction(f) and f.__module__ == module.__name__:
            lines, first = inspect.getsourcelines(f)
            assert ("".join(lines).rstrip(), first) == ("\n".join(read(f, "func").lines).rstrip(), first)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="instructions have no positions")
def test_the_tokenizer_is_not_needed(definitions, monkeypatch):
    def refuse(*args):
        raise AssertionError("inspect was asked")

    monkeypatch.setattr(inspect, "getblock", refuse)
    for name in set(FUNCTIONS) - {"docstring_alone"}:  # which has no instruction at its end
        assert parse(getattr(definitions, name), "func").name == name


def test_a_file_that_changes_later_does_not_matter(tmp_path):
    path = tmp_path / "changing.py"
    path.write_text("import warp_like as wp\n\n@wp.kernel\ndef k(x: wp.array(dtype=float)):\n    x[wp.tid()] = 1.0\n")
    spec = importlib.util.spec_from_file_location("changing", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    path.write_text("import warp_like as wp\n\n\n\n\n\n\n\ndef other(x):\n    return 1.0\n")
    os.utime(path, (1.0, 1.0))
    linecache.checkcache(str(path))
    x = wp.zeros(1, dtype=float)
    wp.launch(made.k, dim=1, inputs=[x])
    assert x.numpy()[0] == 1.0
    with pytest.raises(wp.WarpCodegenError, match=f"the source of kernel `k` is not what was run: {path} has changed"):
        parse(made.k.func, "kernel")  # which reads the file now


def test_a_function_with_other_parameters_is_noticed_though_the_text_is_known(tmp_path):
    first = "import warp_like as wp\n\n@wp.kernel\ndef k(x: wp.array(dtype=float)):\n    x[wp.tid()] = 1.0\n"
    second = first.replace("x", "renamed")
    path = tmp_path / "changing.py"
    made = []
    for text in (second, first):
        path.write_text(text)
        linecache.checkcache(str(path))
        spec = importlib.util.spec_from_file_location("changing", path)
        made.append(importlib.util.module_from_spec(spec))
        sys.dont_write_bytecode, old = True, sys.dont_write_bytecode
        spec.loader.exec_module(made[-1])
        sys.dont_write_bytecode = old
        if text is second:
            wp.launch(made[0].k, dim=1, inputs=[wp.zeros(1, dtype=float)])
    path.write_text(second)
    os.utime(path, (1.0, 1.0))
    with pytest.raises(wp.WarpCodegenError, match="is not what was run"):
        cache_key(read(made[1].k.func, "kernel"), Signature(made[1].k.types))  # which reads the file now


def filler(dtype, value, name):
    def fill(a: wp.array(dtype=dtype)):
        i = wp.tid()
        a[i] = dtype(value)

    fill.__name__ = name
    fill.__qualname__ = name
    return wp.kernel(fill, enable_backward=False)


def test_functions_that_were_renamed_before_they_were_declared():
    kernels = [
        filler(wp.float32, 1.0, "fill__f32"),
        filler(wp.float64, 2.0, "fill<double>"),
        filler(wp.int32, 3, "fill"),
    ]
    assert [k.key for k in kernels] == ["fill__f32", "fill<double>", "fill"]
    for k, dtype, value in zip(kernels, (wp.float32, wp.float64, wp.int32), (1, 2, 3), strict=True):
        a = wp.zeros(2, dtype=dtype)
        wp.launch(k, 2, inputs=[a])
        assert a.list() == [value, value]
    keys = {cache_key(k.source, Signature(k.types)) for k in kernels}
    assert len(keys) == 3

    def wrong(a: wp.array(dtype=float)):
        a[0] = wp.missing_builtin()

    wrong.__name__ = "shown"
    with pytest.raises(wp.WarpCodegenError, match="in kernel `shown`"):
        wp.launch(wp.kernel(wrong), 1, inputs=[wp.zeros(1)])


def test_renamed_functions_and_lambdas_are_called():
    def scaled(factor, name):
        def f(x: float):
            return x * factor

        f.__name__ = name
        return wp.func(f)

    def halved():
        f = lambda x: x * 0.5  # noqa: E731
        f.__name__ = "halved"
        return wp.func(f)

    double, triple, half = scaled(2.0, "double"), scaled(3.0, "triple"), halved()

    @wp.kernel
    def run(out: wp.array(dtype=float)):
        out[0] = double(1.0)
        out[1] = triple(1.0)
        out[2] = half(1.0)

    out = wp.zeros(3)
    wp.launch(run, 1, inputs=[out])
    assert out.list() == [2.0, 3.0, 0.5]
    assert (double.key, half.key) == ("double", "halved")


def test_keys_and_names_of_what_is_declared_can_be_set():
    k = filler(wp.float32, 1.0, "first")
    k.key = k.__name__ = k.__qualname__ = "second"
    f = wp.func(lambda x: x + 1.0)
    f.key = "plus_one"
    f.__name__ = "shown"
    assert (k.key, k.__name__, f.key, f.__name__) == ("second", "second", "plus_one", "shown")
    a = wp.zeros(2)
    wp.launch(k, 2, inputs=[a])
    assert a.list() == [1.0, 1.0]
    with pytest.raises(TypeError, match="kernel `second`"):
        wp.launch(k, 2, inputs=[1.0])
