"""The source of a kernel or function: text, syntax tree, places, and what its names mean outside of it.

Lines and columns are those of the user's file, whatever the indentation of the definition. Nothing here runs
user code, apart from annotations that are strings.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import inspect
import linecache
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warp_like.base.errors import WarpCodegenError
from warp_like.base.loc import Loc

MISSING = object()
"""What ``Source.resolve`` returns for a name that means nothing."""

_STARS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class Source:
    """A Python function and its text, which is parsed when its syntax tree is first asked for.

    A kernel that is in the cache is never parsed.

    Attributes:
        pyfunc: The function.
        role: ``kernel`` or ``func``.
        file: The file that holds it.
        first_line: The line of the file where ``lines`` starts.
        lines: The lines of the definition as they stand in the file, decorators included.
        names: Names that come before those around the function.
    """

    def __init__(self, pyfunc: types.FunctionType, role: str, names: Mapping[str, Any] | None = None) -> None:
        self.pyfunc = pyfunc
        self.role = role
        self.names: Mapping[str, Any] = names or {}
        self.file = pyfunc.__code__.co_filename
        found = _block(pyfunc)
        self.lines, self.first_line = _read(pyfunc, role) if found is None else found

    @property
    def name(self) -> str:
        """The function's name."""
        return self.pyfunc.__name__

    @functools.cached_property
    def text(self) -> str:
        """The definition without common indentation: equal texts mean equal code, given the same surroundings."""
        indent = len(self.lines[0]) - len(self.lines[0].lstrip())
        return "\n".join(line[indent:] if not line[:indent].strip() else line for line in self.lines) + "\n"

    @functools.cached_property
    def node(self) -> ast.FunctionDef:
        """The definition, whose line 1 is ``first_line`` of the file.

        Raises:
            WarpCodegenError: The text is not that of the function.
        """
        node = _find(self.lines, self.name)
        if node is None:
            self.lines, self.first_line = _read(self.pyfunc, self.role)
            node = _find(self.lines, self.name)
        if node is None or not _same_parameters(node, self.pyfunc):
            raise WarpCodegenError(
                f"the source of {self.role} `{self.name}` is not what was run: {self.file} has changed",
                help="restart Python or reload the module",
            )
        return node

    def with_node(self, node: ast.FunctionDef) -> Source:
        """Return the source with another syntax tree."""
        other = copy.copy(self)
        other.node = node
        return other

    @property
    def params(self) -> tuple[str, ...]:
        """The names of the parameters, without those that take any number of arguments."""
        return parameter_names(self.pyfunc)

    @property
    def has_stars(self) -> bool:
        """Whether there are parameters that take any number of arguments."""
        return bool(self.pyfunc.__code__.co_flags & _STARS)

    def loc(self, node: ast.AST) -> Loc:
        """Return the place of ``node``."""
        line, end = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
        return Loc(
            self.file,
            line + self.first_line - 1,
            self._column(line, node.col_offset),  # type: ignore[attr-defined]
            end + self.first_line - 1,
            self._column(end, node.end_col_offset),  # type: ignore[attr-defined]
            self.role,
            self.name,
        )

    @functools.cached_property
    def header(self) -> Loc:
        """The place of the function's name."""
        line = self.node.lineno
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        found = re.search(rf"\bdef\s+({re.escape(self.name)})\b", text)
        col = found.start(1) if found is not None else 0
        at = line + self.first_line - 1
        return Loc(self.file, at, col, at, col + len(self.name), self.role, self.name)

    def _column(self, line: int, offset: int) -> int:
        """Characters before byte ``offset`` of a line: ``ast`` counts bytes, people count characters."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if text.isascii():
            return offset
        return len(text.encode()[:offset].decode(errors="ignore"))

    @functools.cached_property
    def closure(self) -> dict[str, types.CellType]:
        """The captured variables."""
        return dict(zip(self.pyfunc.__code__.co_freevars, self.pyfunc.__closure__ or (), strict=True))

    def resolve(self, name: str) -> Any:
        """Return what ``name`` means around the function, or ``MISSING``."""
        if name in self.names:
            return self.names[name]
        cell = self.closure.get(name)
        if cell is not None:
            try:
                return cell.cell_contents
            except ValueError:  # captured, but assigned only later
                return MISSING
        if name in self.pyfunc.__globals__:
            return self.pyfunc.__globals__[name]
        return getattr(builtins, name, MISSING)

    def environment(self) -> dict[str, Any]:
        """Return all names around the function with their values, for evaluating an expression."""
        names = dict(self.pyfunc.__globals__)
        for name in self.closure:
            value = self.resolve(name)
            if value is not MISSING:
                names[name] = value
        return names

    @functools.cached_property
    def annotations(self) -> dict[str, Any]:
        """The annotations of parameters and result, those written as strings evaluated.

        Raises:
            WarpCodegenError: One of them can't be evaluated.
        """
        try:
            found = dict(inspect.get_annotations(self.pyfunc))
        except Exception as error:  # Python 3.14 evaluates annotations only now
            raise WarpCodegenError(
                f"the annotations of {self.role} `{self.name}` can't be evaluated: {error}", self.header
            ) from None
        for name, annotation in found.items():
            if isinstance(annotation, str):
                found[name] = self._evaluate(name, annotation)
        return found

    def _evaluate(self, name: str, annotation: str) -> Any:
        try:
            return eval(annotation, self.environment())
        except Exception as error:
            what = "the result" if name == "return" else f"argument `{name}`"
            raise WarpCodegenError(
                f"the annotation of {what} of {self.role} `{self.name}` can't be evaluated: {error}",
                self.header,
                help="an annotation that is text, or under `from __future__ import annotations`, sees names "
                "of the module and those that the body uses",
            ) from None

    def parameter_loc(self, name: str) -> Loc:
        """Return where parameter ``name`` is declared."""
        a = self.node.args
        found = next((p for p in [*a.posonlyargs, *a.args, *a.kwonlyargs] if p.arg == name), None)
        return self.header if found is None else self.loc(found)


def read(pyfunc: Callable[..., Any], role: str, names: Mapping[str, Any] | None = None) -> Source:
    """Return the source of a Python function, not parsed yet.

    Args:
        pyfunc: A function made by ``def``.
        role: ``kernel`` or ``func``, for messages.
        names: Names that come before those around the function.

    Raises:
        WarpCodegenError: It is no such function, or its source can't be found.
    """
    if not isinstance(pyfunc, types.FunctionType):
        raise WarpCodegenError(f"a {role} is made from a function, got {type(pyfunc).__name__}")
    if pyfunc.__name__ == "<lambda>":
        raise WarpCodegenError(f"a {role} can't be a lambda", help="write it with def")
    return Source(pyfunc, role, names)


def parse(pyfunc: Callable[..., Any], role: str, names: Mapping[str, Any] | None = None) -> Source:
    """Read and parse the source of a Python function; as ``read``.

    Raises:
        WarpCodegenError: As ``read``; or the text that is found is not that of the function.
    """
    source = read(pyfunc, role, names)
    assert source.node is not None
    return source


def parameter_names(pyfunc: types.FunctionType) -> tuple[str, ...]:
    """Return the names of a function's parameters, without those that take any number of arguments."""
    code = pyfunc.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _block(pyfunc: types.FunctionType) -> tuple[tuple[str, ...], int] | None:
    """Return the lines of a definition and the number of the first; None where only ``inspect`` finds them.

    ``inspect`` reads tokens to find the last line. Here the code says where its last instruction stands; what follows
    belongs to the definition as long as it is indented deeper.
    """
    code = pyfunc.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, pyfunc.__globals__)
    first, last = code.co_firstlineno, _last_line(code)
    if last is None or not 1 <= first <= last <= len(lines):
        return None
    head = lines[first - 1]
    indent = len(head) - len(head.lstrip())
    end = last
    for number in range(last, len(lines)):
        line = lines[number]
        bare = line.lstrip()
        if bare and not bare.startswith("#"):
            if len(line) - len(bare) <= indent:
                break
            end = number + 1
    return tuple(line.rstrip("\r\n") for line in lines[first - 1 : end]), first


def _last_line(code: types.CodeType) -> int | None:
    """The last line that an instruction of ``code`` comes from; None where Python does not say (before 3.11)."""
    positions = getattr(code, "co_positions", None)
    if positions is None:
        return None
    inner = [_last_line(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return max((end for end in [*inner, *(p[1] for p in positions())] if end is not None), default=None)


def _read(pyfunc: types.FunctionType, role: str) -> tuple[tuple[str, ...], int]:
    try:
        lines, first_line = inspect.getsourcelines(pyfunc.__code__)
    except (OSError, TypeError, IndexError, SyntaxError):
        raise WarpCodegenError(
            f"the source of {role} `{pyfunc.__name__}` can't be found: its file is given as "
            f"{pyfunc.__code__.co_filename!r}",
            help="define it in a file or a notebook cell: exec() and a prompt leave no source behind",
        ) from None
    return tuple(line.rstrip("\r\n") for line in lines), max(first_line, 1)


def _find(lines: Sequence[str], name: str) -> ast.FunctionDef | None:
    """Parse ``lines`` as they stand: an indented definition goes under an ``if``, to keep its columns."""
    text = "\n".join(lines) + "\n"
    indented = lines[0][:1] in (" ", "\t")
    try:
        tree = ast.parse(f"if 1:\n{text}" if indented else text)
    except SyntaxError:
        return None
    if indented:
        ast.increment_lineno(tree, -1)
        (wrapper,) = tree.body[:1]
        assert isinstance(wrapper, ast.If)
        body = wrapper.body
    else:
        body = tree.body
    found = body[0] if body else None
    return found if isinstance(found, ast.FunctionDef) and found.name == name else None


def _same_parameters(node: ast.FunctionDef, pyfunc: types.FunctionType) -> bool:
    a = node.args
    return tuple(p.arg for p in [*a.posonlyargs, *a.args, *a.kwonlyargs]) == parameter_names(pyfunc)
