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
