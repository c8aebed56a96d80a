"""The source of a kernel or function: text, syntax tree, places, and what its names mean outside of it.

Lines and columns are those of the user's file, whatever the indentation of the definition. Nothing here runs
user code, apart from annotations that are strings.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from warp_like.base.errors import WarpCodegenError
from warp_like.base.loc import Loc

MISSING = object()
"""What ``Source.resolve`` returns for a name that means nothing."""


@dataclass(frozen=True, eq=False)
class Source:
    """A parsed Python function.

    Attributes:
        pyfunc: The function.
        role: ``kernel`` or ``func``.
        node: Its definition, whose line 1 is ``first_line`` of the file.
        file: The file that holds it.
        first_line: The line of the file where ``lines`` starts.
        lines: The lines of the definition as they stand in the file, decorators included.
        text: The definition without decorators and common indentation; equal texts mean equal code, given the
            same surroundings.
        names: Names that come before those around the function.
    """

    pyfunc: types.FunctionType
    role: str
    node: ast.FunctionDef
    file: str
    first_line: int
    lines: tuple[str, ...]
    text: str
    names: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The function's name."""
        return self.node.name

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

    def parameter_node(self, name: str) -> ast.arg | None:
        """Return where parameter ``name`` is declared."""
        a = self.node.args
        return next((p for p in [*a.posonlyargs, *a.args, *a.kwonlyargs] if p.arg == name), None)


def parse(pyfunc: Callable[..., Any], role: str, names: Mapping[str, Any] | None = None) -> Source:
    """Read and parse the source of a Python function.

    Args:
        pyfunc: A function made by ``def``.
        role: ``kernel`` or ``func``, for messages.
        names: Names that come before those around the function.

    Raises:
        WarpCodegenError: It is no such function, or its source can't be found.
    """
    if not isinstance(pyfunc, types.FunctionType):
        raise WarpCodegenError(f"a {role} is made from a function, got {type(pyfunc).__name__}")
    name = pyfunc.__name__
    if name == "<lambda>":
        raise WarpCodegenError(f"a {role} can't be a lambda", help="write it with def")
    lines, first_line = _read(pyfunc, role)
    node = _find(lines, name)
    if node is None or not _same_parameters(node, pyfunc):
        raise WarpCodegenError(
            f"the source of {role} `{name}` is not what was run: {pyfunc.__code__.co_filename} has changed",
            help="restart Python or reload the module",
        )
    file = inspect.getsourcefile(pyfunc) or pyfunc.__code__.co_filename
    return Source(pyfunc, role, node, file, first_line, tuple(lines), _text(lines, node), names or {})


def _read(pyfunc: types.FunctionType, role: str) -> tuple[list[str], int]:
    try:
        lines, first_line = inspect.getsourcelines(pyfunc.__code__)
    except (OSError, TypeError, IndexError, SyntaxError):
        raise WarpCodegenError(
            f"the source of {role} `{pyfunc.__name__}` can't be found: its file is given as "
            f"{pyfunc.__code__.co_filename!r}",
            help="define it in a file or a notebook cell: exec() and a prompt leave no source behind",
        ) from None
    return [line.rstrip("\r\n") for line in lines], max(first_line, 1)


def _find(lines: list[str], name: str) -> ast.FunctionDef | None:
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
    code = pyfunc.__code__
    a = node.args
    names = [p.arg for p in [*a.posonlyargs, *a.args, *a.kwonlyargs]]
    return names == list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _text(lines: list[str], node: ast.FunctionDef) -> str:
    own = lines[node.lineno - 1 : node.end_lineno]
    indent = len(own[0]) - len(own[0].lstrip())
    return "\n".join(line[indent:] if not line[:indent].strip() else line for line in own) + "\n"
