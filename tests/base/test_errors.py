"""The exceptions about kernel code."""

import pickle

import pytest

import warp_like as wp
from warp_like.base.loc import Loc, Pending, at, current_loc


@wp.kernel
def undefined(x: wp.array(dtype=float)):
    x[0] = undefined_name  # noqa: F821


def test_a_place_is_found_when_it_is_asked_for_and_once():
    asked: list[int] = []

    def find(line: int) -> Loc:
        asked.append(line)
        return Loc("file.py", line, 0, line, 1)

    with at(Pending(find, 7)):
        assert not asked
        with at(None):
            assert current_loc() is None
        assert current_loc() is current_loc()
        assert wp.WarpCodegenError("a reason").loc == Loc("file.py", 7, 0, 7, 1)
    assert asked == [7]
    assert current_loc() is None


def test_compile_errors_are_runtime_errors_and_python_errors():
    for cls, python in [
        (wp.WarpCodegenError, RuntimeError),
        (wp.WarpCodegenTypeError, TypeError),
        (wp.WarpCodegenValueError, ValueError),
        (wp.WarpCodegenAttributeError, AttributeError),
        (wp.WarpCodegenIndexError, IndexError),
        (wp.WarpCodegenKeyError, KeyError),
    ]:
        assert issubclass(cls, python)
        assert issubclass(cls, wp.WarpCodegenError)
        error = pickle.loads(pickle.dumps(cls("a reason", None, "a help")))
        assert (type(error), str(error), error.help) == (cls, "a reason\n  help: a help", "a help")
    assert issubclass(wp.WarpDeterminismError, RuntimeError)


def test_a_kernel_that_does_not_compile_raises_a_runtime_error():
    with pytest.raises(RuntimeError, match="undefined_name"):
        wp.launch(undefined, 1, [wp.zeros(1)])
