"""Source locations with their chain of callers.

A ``Loc`` names a span of user source and, through ``caller``, the call that led there, so that an error
raised inside an inlined function can show every step from the kernel to the mistake.
"""

from __future__ import annotations

import contextvars
import linecache
from collections.abc import Callable
from types import TracebackType
from typing import Any

from warp_like.base.frozen import Frozen


class Loc(Frozen):
    """A span in user source: 1-based lines, 0-based columns in characters, and the function that holds it.

    ``first_line`` is where the source of that function begins.
    """

    file: str
    line: int
    col: int
    end_line: int
    end_col: int
    role: str = "kernel"  # "kernel" or "func"
    function: str = ""
    caller: Loc | None = None
    first_line: int = 0

    def __init__(  # written out, as each op has one: in half the time of what it stands for
        self,
        file: str,
        line: int,
        col: int,
        end_line: int,
        end_col: int,
        role: str = "kernel",
        function: str = "",
        caller: Loc | None = None,
        first_line: int = 0,
    ) -> None:
        fields = self.__dict__
        fields["file"] = file
        fields["line"] = line
        fields["col"] = col
        fields["end_line"] = end_line
        fields["end_col"] = end_col
        fields["role"] = role
        fields["function"] = function
        fields["caller"] = caller
        fields["first_line"] = first_line

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
        return self.excerpt().text(f"{self.file}:{self.line}:{self.col + 1}")

    def excerpt(self) -> Excerpt:
        """Return what a message shows of this span."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        end = self.end_col if self.end_line == self.line else len(text)
        shown = text.strip()
        start = max(self.col - (len(text) - len(text.lstrip())), 0)
        width = max(min(end - self.col, len(shown) - start), 1)
        return Excerpt(self.role, self.function, self.line - self.first_line, self.col, shown, start, width)

    def render(self) -> str:
        """Return the frames of the whole chain, outermost first."""
        return "\n".join(loc.frame() for loc in self.chain())

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Excerpt(Frozen):
    """What a message shows of a span, without the place in a file, where the function may move.

    Attributes:
        role: ``"kernel"`` or ``"func"``.
        function: The function that holds it; empty where it is in none.
        line: The line of the function's source, from 0.
        col: The column, from 0.
        shown: The line without what surrounds it; empty where the file could not be read.
        start: Where in ``shown`` the span begins.
        width: How many characters of it are marked.
    """

    role: str
    function: str
    line: int
    col: int
    shown: str
    start: int
    width: int

    def text(self, where: str = "") -> str:
        """Return the lines of a message: a header that begins with the place ``where``, the source line and a caret."""
        inside = f"{self.role} `{self.function}`" if self.function else ""
        header = f"  --> {' in '.join(filter(None, (where, inside)))}"
        if not self.shown:
            return header
        return f"{header}\n   |     {self.shown}\n   |     {' ' * self.start}{'^' * self.width}"


class Pending:
    """A location that is found when it is first asked for: most places in a syntax tree make no op and no error."""

    __slots__ = ("_find", "_found", "_place")

    def __init__(self, find: Callable[[Any], Loc], place: Any) -> None:
        self._find = find
        self._place = place
        self._found: Loc | None = None

    def get(self) -> Loc:
        """Return the location, which is ``find(place)``."""
        if self._found is None:
            self._found = self._find(self._place)
        return self._found


_current: contextvars.ContextVar[Loc | Pending | None] = contextvars.ContextVar("warp_like_loc", default=None)


def current_loc() -> Loc | None:
    """Return the location under which code is being built right now, if any."""
    found = _current.get()
    return found.get() if isinstance(found, Pending) else found


class At:
    """What ``at`` returns. A generator would take three times as long, and there is one of these for each op."""

    __slots__ = ("_loc", "_token")

    def __init__(self, loc: Loc | Pending | None) -> None:
        self._loc = loc

    def __enter__(self) -> None:
        self._token = _current.set(self._loc)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.reset(self._token)


def at(loc: Loc | Pending | None) -> At:
    """Make ``loc`` the current location inside the ``with``: ops built and errors raised there get it."""
    return At(loc)


enter = _current.set
leave = _current.reset
"""What ``at`` does where each op and each expression comes by, in a third of its time: ``before = enter(loc)``, then
``leave(before)`` in a ``finally``."""
