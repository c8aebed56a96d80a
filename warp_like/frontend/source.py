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
import operator
import re
import sys
import tokenize
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from warp_like.base.errors import WarpCodegenError
from warp_like.base.loc import Loc
from warp_like.frontend.builtin import Builtin
from warp_like.frontend.lambdas import LAMBDA, find_lambda, lambda_text
from warp_like.frontend.names import CELL, MISSING, NOW, Names, dotted, follow

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
        statics: What expressions of ``wp.static`` have given, which are evaluated once (``frontend.statics``).
        mentioned: The names in it (``frontend.closure.References``), once they are known.
        around: How names around the function are looked up: as they are now, or as they were captured.
    """

    def __init__(
        self, pyfunc: types.FunctionType, role: str, names: Mapping[str, Any] | None, whole: tuple[str, ...]
    ) -> None:
        self.pyfunc = pyfunc
        self.role = role
        self.names: Mapping[str, Any] = names or {}
        self.statics: dict[Any, Any] = {}  # shared by copies for other types
        self.mentioned: Any = None
        self.around: Names = NOW
        self.file = pyfunc.__code__.co_filename
        self.first_line = 1 if self.is_lambda else pyfunc.__code__.co_firstlineno
        self._whole = whole
        if not whole:
            raise WarpCodegenError(
                f"the source of {role} `{self.name}` can't be found: its file is given as {self.file!r}",
                help="define it in a file or a notebook cell; code that runs through exec() or at a prompt leaves its "
                "source behind only if its text is put into linecache.cache under the file name it was compiled with",
            )
        found = whole if self.is_lambda else _block(pyfunc, whole) or _inspected(pyfunc, whole)
        self.lines = _bare(found)

    @property
    def name(self) -> str:
        """The function's name."""
        return self.pyfunc.__name__

    @property
    def written_name(self) -> str:
        """The name in its text; ``name`` is another one where ``__name__`` was set before it was declared."""
        return self.pyfunc.__code__.co_name

    @property
    def is_lambda(self) -> bool:
        """Whether it is a lambda; ``lines`` are then those of its whole file."""
        return self.written_name == LAMBDA

    @functools.cached_property
    def text(self) -> str:
        """The definition without common indentation: equal texts mean equal code, given the same surroundings."""
        renamed = "" if self.name == self.written_name else f"# named {self.name!r}\n"
        if self.is_lambda:
            return lambda_text(self.node) + renamed
        if not self.lines:
            raise self._changed()
        indent = len(self.lines[0]) - len(self.lines[0].lstrip())
        return "\n".join(line[indent:] if not line[:indent].strip() else line for line in self.lines) + "\n" + renamed

    @functools.cached_property
    def node(self) -> ast.FunctionDef:
        """The definition, whose line 1 is ``first_line`` of the file.

        Raises:
            WarpCodegenError: The text is not that of the function.
        """
        if self.is_lambda:
            return find_lambda(self.pyfunc, self._whole)
        node = _find(self.lines, self.written_name)
        if node is None:
            self.lines = _bare(_inspected(self.pyfunc, self._whole))
            node = _find(self.lines, self.written_name)
        if node is None or not _same_parameters(node, self.pyfunc):
            raise self._changed()
        return node

    def _changed(self) -> WarpCodegenError:
        if self.pyfunc.__code__.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            at = next((i for i, line in enumerate(self.lines) if re.match(r"\s*async\b", line)), 0)
            line = self.first_line + at
            loc = Loc(self.file, line, 0, line, len(self.lines[at]), self.role, self.name)
            reason = f"{self.role} `{self.name}` is async, and a thread has nothing to wait for"
            return WarpCodegenError(reason, loc, help="leave out `async`")
        return WarpCodegenError(
            f"the source of {self.role} `{self.name}` is not what was run: {self.file} has changed",
            help="restart Python or reload the module",
        )

    def with_node(self, node: ast.FunctionDef) -> Source:
        """Return the source with another syntax tree."""
        other = copy.copy(self)
        other.node = node
        return other

    def within(self, around: Names) -> Source:
        """Return the source with the names around it looked up in another way."""
        if around is self.around:
            return self
        other = copy.copy(self)
        other.around = around
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
        start, stop = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
        if not self._is_ascii:
            start, stop = self._column(line, start), self._column(end, stop)
        before = self.first_line - 1
        return Loc(self.file, line + before, start, end + before, stop, self.role, self.name, None, before + 1)

    @functools.cached_property
    def _is_ascii(self) -> bool:
        return all(map(str.isascii, self.lines))

    @functools.cached_property
    def header(self) -> Loc:
        """The place of the function's name."""
        if self.is_lambda:
            return self.loc(self.node)
        line = self.node.lineno
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        found = re.search(rf"\bdef\s+({re.escape(self.written_name)})\b", text)
        col = found.start(1) if found is not None else 0
        at = line + self.first_line - 1
        return Loc(self.file, at, col, at, col + len(self.written_name), self.role, self.name)

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
            return self.around.look_up(cell, CELL)
        found = self.around.look_up(self.pyfunc.__globals__, name)
        if found is MISSING and name == "static":
            return Builtin(name)  # the one builtin whose plain name the cache key has to know: its arguments count
        return getattr(builtins, name, MISSING) if found is MISSING else found

    def meaning(self, node: ast.AST) -> Any:
        """Return what a name with attributes, as in ``a.b.c``, means around the function, or ``MISSING``."""
        parts = dotted(node)
        if parts is None:
            return MISSING
        obj, used = follow(self.around, self.resolve(parts[0]), parts[1:])
        return obj if 1 + used == len(parts) else MISSING

    def defined(self, names: Iterable[str]) -> list[str]:
        """Return those of ``names`` that mean something around the function, builtins of Python's aside."""
        return [n for n in names if n in self.pyfunc.__globals__ or n in self.names or n in self.closure]

    def environment(self) -> dict[str, Any]:
        """Return all names around the function with their values, for evaluating an expression."""
        module = self.pyfunc.__globals__
        names = {**module, **self.around.held(module), **self.names}
        for name, cell in self.closure.items():
            value = self.around.held(cell).get(CELL, NOW.look_up(cell, CELL))
            if name not in self.names and value is not MISSING:
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

    def with_types(self, types: Mapping[str, Any]) -> Source:
        """Return the source of an instance of a generic definition: with types in place of annotations."""
        other = copy.copy(self)
        other.text = f"{self.text}# {types!r}\n"
        other.annotations = {**self.annotations, **types}
        return other

    def _evaluate(self, name: str, annotation: str) -> Any:
        meaning: Any = annotation
        try:
            for _ in range(2):  # twice where the text itself stands in quotes
                meaning = eval(meaning, self.environment()) if isinstance(meaning, str) else meaning
            return meaning
        except Exception as error:
            what = "the result" if name == "return" else f"argument `{name}`"
            raise WarpCodegenError(
                f"the annotation of {what} of {self.role} `{self.name}` can't be evaluated: {error}",
                self.header,
                help="an annotation that is text, or under `from __future__ import annotations`, sees the names that "
                "are there when the function is declared",
            ) from None

    def parameter_loc(self, name: str) -> Loc:
        """Return where parameter ``name`` is declared."""
        a = self.node.args
        found = next((p for p in [*a.posonlyargs, *a.args, *a.kwonlyargs] if p.arg == name), None)
        return self.header if found is None else self.loc(found)


def file_lines(pyfunc: Any) -> tuple[str, ...]:
    """Return the lines of the file that defines ``pyfunc`` as they are now; none where they can't be found.

    A definition keeps what this returned when it was declared: the file may be edited before its code is needed.
    """
    code = getattr(pyfunc, "__code__", None)
    if code is None:
        return ()
    linecache.checkcache(code.co_filename)
    return tuple(linecache.getlines(code.co_filename, pyfunc.__globals__))


def annotation_names(pyfunc: Any) -> dict[str, Any]:
    """Return what names in annotations that are text mean in the function around ``pyfunc``, which is being declared.

    Names that the body does not use are not captured by Python, so that nobody could tell later.
    """
    written = [a for a in getattr(pyfunc, "__annotations__", {}).values() if isinstance(a, str)]
    if not written:
        return {}
    scope = defining_scope(pyfunc)
    if scope is pyfunc.__globals__:
        return {}
    known = set(pyfunc.__code__.co_freevars)
    names = {name for text in written for name in re.findall(r"[^\W\d]\w*", text)} - known
    return {name: scope[name] for name in names if name in scope}


def host_annotations(pyfunc: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function that is being declared and stays Python, those that are text evaluated.

    Text may name variables of the functions around it.

    Raises:
        NameError: It names something that is not there.
    """
    function: Any = inspect.unwrap(pyfunc)
    function = getattr(function, "__func__", function)
    if not any(isinstance(a, str) for a in getattr(function, "__annotations__", {}).values()):
        return dict(inspect.get_annotations(function))
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    held = {name: NOW.look_up(cell, CELL) for name, cell in cells.items()}
    names = {**annotation_names(function), **{k: v for k, v in held.items() if v is not MISSING}}
    return dict(inspect.get_annotations(function, locals=names, eval_str=True))


def defining_scope(pyfunc: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the names of the innermost frame that runs code of the function's own module, else its globals."""
    module_globals: dict[str, Any] = getattr(pyfunc, "__globals__", {})
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is module_globals:
            return frame.f_locals
        frame = frame.f_back
    return module_globals


def read(
    pyfunc: Callable[..., Any],
    role: str,
    names: Mapping[str, Any] | None = None,
    lines: tuple[str, ...] | None = None,
) -> Source:
    """Return the source of a Python function, not parsed yet.

    Args:
        pyfunc: A function made by ``def``; for a ``func`` also a lambda.
        role: ``kernel`` or ``func``, for messages.
        names: Names that come before those around the function.
        lines: What ``file_lines`` gave when the function was declared; the file is read now when left out.

    Raises:
        WarpCodegenError: It is no such function, or its source can't be found.
    """
    if not isinstance(pyfunc, types.FunctionType):
        raise WarpCodegenError(f"a {role} is made from a function, got {type(pyfunc).__name__}")
    if pyfunc.__code__.co_name == LAMBDA and role != "func":
        raise WarpCodegenError(f"a {role} can't be a lambda", help="write it with def")
    return Source(pyfunc, role, names, file_lines(pyfunc) if lines is None else lines)


def parse(
    pyfunc: Callable[..., Any],
    role: str,
    names: Mapping[str, Any] | None = None,
    lines: tuple[str, ...] | None = None,
) -> Source:
    """Read and parse the source of a Python function; as ``read``.

    Raises:
        WarpCodegenError: As ``read``; or the text that is found is not that of the function.
    """
    source = read(pyfunc, role, names, lines)
    assert source.node is not None
    return source


def parameter_names(pyfunc: types.FunctionType) -> tuple[str, ...]:
    """Return the names of a function's parameters, without those that take any number of arguments."""
    code = pyfunc.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _block(pyfunc: types.FunctionType, whole: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the lines of a definition in those of its file; None where only ``inspect`` finds them.

    ``inspect`` reads tokens to find the last line. Here the code says where its last instruction stands; what follows
    belongs to the definition as long as it is indented deeper.
    """
    code = pyfunc.__code__
    first, last = code.co_firstlineno, _last_line(code)
    if last is None or not 1 <= first <= last <= len(whole):
        return None
    head = whole[first - 1]
    indent = len(head) - len(head.lstrip())
    end = last
    for number in range(last, len(whole)):
        line = whole[number]
        bare = line.lstrip()
        if bare and not bare.startswith("#"):
            if len(line) - len(bare) <= indent:
                break
            end = number + 1
    return whole[first - 1 : end]


_END_LINE = operator.itemgetter(1)  # of an instruction's position


def _last_line(code: types.CodeType) -> int | None:
    """The last line that an instruction of ``code`` comes from; None where Python does not say (before 3.11)."""
    positions = getattr(code, "co_positions", None)
    if positions is None:
        return None
    inner = [_last_line(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return max(filter(None, [*inner, *map(_END_LINE, positions())]), default=None)


def _inspected(pyfunc: types.FunctionType, whole: tuple[str, ...]) -> tuple[str, ...]:
    """The lines of a definition in those of its file, as ``inspect`` finds them; none where it does not."""
    try:
        return tuple(inspect.getblock(whole[pyfunc.__code__.co_firstlineno - 1 :]))
    except (IndexError, SyntaxError, tokenize.TokenError):
        return ()


def _bare(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line.rstrip("\r\n") for line in lines)


def _find(lines: Sequence[str], name: str) -> ast.FunctionDef | None:
    """Parse ``lines`` as they stand: an indented definition goes under an ``if``, to keep its columns."""
    if not lines:
        return None
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
