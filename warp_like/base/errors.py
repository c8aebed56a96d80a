"""Exceptions about kernel code, with the source line and a caret.

The names are those of Warp's public API. Errors of a launch (wrong dtype, wrong count, ...) are Python's own
``TypeError``, ``ValueError`` and ``RuntimeError``; the classes here are for code that can't be compiled.
"""

from __future__ import annotations

from warp_like.base.loc import Loc, current_loc


class WarpCodegenError(RuntimeError):
    """Kernel code that can't be compiled. ``str()`` holds the reason, the source frames and a hint.

    Args:
        reason: One sentence that says what is wrong, what was expected and what came.
        loc: Where; the current location when left out.
        help: What to write instead, where that is known.
    """

    def __init__(self, reason: str, loc: Loc | None = None, help: str | None = None) -> None:
        loc = loc if loc is not None else current_loc()
        self.reason = reason
        self.loc = loc
        self.help = help
        parts = [reason]
        if loc is not None:
            parts.append(loc.render())
        if help is not None:
            parts.append(f"  help: {help}")
        super().__init__("\n".join(parts))

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.reason, self.loc, self.help)


class WarpCodegenTypeError(WarpCodegenError, TypeError):
    """Types that do not go together in kernel code."""


class WarpCodegenValueError(WarpCodegenError, ValueError):
    """A value that kernel code can't use."""


class WarpCodegenAttributeError(WarpCodegenError, AttributeError):
    """A name or attribute that does not exist in kernel code."""


class WarpCodegenIndexError(WarpCodegenError, IndexError):
    """A constant index outside its range."""


class WarpDeterminismError(RuntimeError):
    """A launch on a device that can't be deterministic. On the CPU, such kernels run on one thread."""


class WarpCodegenKeyError(WarpCodegenError, KeyError):
    """A key or option that kernel code does not know."""

    __str__ = RuntimeError.__str__
