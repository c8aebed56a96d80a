"""Source locations with their chain of callers.

A ``Loc`` names a span of user source and, through ``caller``, the call that led there, so that an error
raised inside an inlined function can show every step from the kernel to the mistake.
"""

from __future__ import annotations

import contextlib
import contextvars
import linecache
from collections.abc import Iterator

from warp_like.base.frozen import Frozen


class Loc(Frozen):
    """A span in user source: 1-based lines, 0-based columns in characters, and the function that holds it."""

    file: str
    line: int
    col: int
    end_line: int
    end_col: int
    role: str = "kernel"  # "kernel" or "func"
    function: str = ""
    caller: Loc | None = None

    def called_from(self, caller: Loc | None) -> Loc:
        """Return this location with ``caller`` appended at the outer end of its chain."""
        if caller is None:
            return self
        outer = caller if self.caller is None else self.caller.called_from(caller)
        return self.replace(caller=outer)

    def chain(self) -> list[Loc]:
        """Return the locations from the outermost call to this one."""
        outer = self.caller.chain() if self.caller else []
        return [*outer, self]

    def frame(self) -> str:
        """Return the text that shows this span: a header, the source line and a caret line."""
        where = f"  --> {self.file}:{self.line}:{self.col + 1}"
        if self.function:
            where += f" in {self.role} `{self.function}`"
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text:
            return where
        end = self.end_col if self.end_line == self.line else len(text)
        indent = len(text) - len(text.lstrip())
        shown = text.strip()
        start = max(self.col - indent, 0)
        width = max(min(end - self.col, len(shown) - start), 1)
        return f"{where}\n   |     {shown}\n   |     {' ' * start}{'^' * width}"

    def render(self) -> str:
        """Return the frames of the whole chain, outermost first."""
        return "\n".join(loc.frame() for loc in self.chain())

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


_current: contextvars.ContextVar[Loc | None] = contextvars.ContextVar("warp_like_loc", default=None)


def current_loc() -> Loc | None:
    """Return the location under which code is being built right now, if any."""
    return _current.get()


@contextlib.contextmanager
def at(loc: Loc | None) -> Iterator[None]:
    """Make ``loc`` the current location: ops built and errors raised inside get it."""
    token = _current.set(loc)
    try:
        yield
    finally:
        _current.reset(token)
