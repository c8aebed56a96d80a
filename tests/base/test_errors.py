"""The exceptions about kernel code."""

import pickle

import pytest

import warp_like as wp


@wp.kernel
def undefined(x: wp.array(dtype=float)):
    x[0] = undefined_name  # noqa: F821


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
