"""Which names may be read after a statement."""

import ast
import textwrap

import pytest

from warp_like.frontend.liveness import Liveness

PROGRAMS = {
    "x = 1 #\ny = x": "x",
    "x = 1\ny = x #": "",
    "x = 1 #\nx = 2\ny = x": "",
    "x = 1 #\nif a:\n    x = 2\ny = x": "a x",
    "x = 1 #\nif a:\n    x = 2\nelse:\n    x = 3\ny = x": "a",
    "x = 1 #\nx += 2": "x",
    "x = 1 #\nx[0] = 2": "x",
    "x = 1 #\nx: T = 2\nuse(x)": "T",
    "for i in range(n):\n    use(x)\n    x = i #": "x",
    "for i in range(n):\n    x = i\n    use(x) #": "",
    "for i in range(n): #\n    x = i\nuse(i, x)": "i x",
    "for i in range(n):\n    x = i #\n    if a:\n        break\n    x = 2\nuse(x)": "a x",
    "for i in range(n):\n    x = i #\n    if a:\n        continue\n    x = 2\nuse(i)": "a i",
    "while x < 3:\n    x = y #": "x y",
    "for i in range(n):\n    for j in range(i):\n        use(x)\n    x = j #": "j x",
    "if a:\n    x = 1 #\n    return\nuse(x)": "",
    "x = 1 #\nreturn x": "x",
}


@pytest.mark.parametrize("source", PROGRAMS)
def test_names_that_are_read_after_the_marked_statement(source):
    line = next(k for k, text in enumerate(source.splitlines(), 1) if text.endswith("#"))
    tree = ast.parse(f"def f():\n{textwrap.indent(source, '    ')}").body[0]
    assert isinstance(tree, ast.FunctionDef)
    marked = next(n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno == line + 1)
    live = Liveness(tree.body, ["returned"]).after(marked)
    assert live - {"use", "range", "returned"} == set(PROGRAMS[source].split())
    assert "returned" in live
