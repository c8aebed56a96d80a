"""Values, ops, blocks and functions: what all IR is made of.

An op is data: operands, attributes and nested blocks, told apart by the markers ``operand()``, ``attr()`` and
``region()`` on its fields. What is done to ops lives in tables by stage, never on the op classes.
Every block ends in one ``Yield``. A value is defined once, before its uses, in the same or an enclosing block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from warp_like.base.frozen import Frozen
from warp_like.base.loc import Loc
from warp_like.ir.types import Type

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """Stand in for the marker that only type checkers read."""
        return lambda decorator: decorator


class Value:
    """The result of an op or the parameter of a block. Compared by identity."""

    __slots__ = ("hint", "op", "type")

    def __init__(self, type: Type, hint: str = "", op: Op | None = None) -> None:
        self.type = type
        self.hint = hint  # a user's name for it, for readable text
        self.op = op  # None for a block parameter

    def __repr__(self) -> str:
        return f"<Value {self.hint or hex(id(self))}: {self.type}>"


_REQUIRED: Any = object()


class _Field:
    """A class's placeholder for a field until ``op`` has read it."""

    def __init__(self, role: str, default: Any = _REQUIRED) -> None:
        self.role = role
        self.default = default


def operand(*, default: Any = _REQUIRED) -> Any:
    """Mark a field that holds a ``Value`` or a tuple of them."""
    return _Field("operand", default)


def attr(default: Any = _REQUIRED) -> Any:
    """Mark a field that holds compile-time data."""
    return _Field("attr", default)


def region() -> Any:
    """Mark a field that holds a ``Block``."""
    return _Field("region")


class Op:
    """Base of all ops. ``results`` and ``loc`` are set when a builder inserts the op."""

    NAME: ClassVar[str] = ""
    PURE: ClassVar[bool] = True
    _OPERANDS: ClassVar[tuple[str, ...]] = ()
    _ATTRS: ClassVar[tuple[str, ...]] = ()
    _REGIONS: ClassVar[tuple[str, ...]] = ()

    _FIELDS: ClassVar[dict[str, Any]] = {}
    """The fields that it is made from, in order, with their defaults."""

    results: tuple[Value, ...] = ()
    loc: Loc | None = None

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def operands(self) -> list[Value]:
        """Return all operands in order, tuples flattened."""
        found: list[Value] = []
        fields = self.__dict__
        for name in self._OPERANDS:
            got = fields[name]
            if type(got) is Value:
                found.append(got)
            else:
                found += got
        return found

    def map_operands(self, fn: Callable[[Value], Value]) -> None:
        """Replace each operand ``v`` by ``fn(v)`` in place."""
        fields = self.__dict__
        for name in self._OPERANDS:
            got = fields[name]
            fields[name] = fn(got) if type(got) is Value else tuple(map(fn, got))

    def replace_operands(self, by: Mapping[Value, Value]) -> None:
        """Replace those operands that ``by`` has something for, in place: ``map_operands`` for what is mostly none."""
        fields = self.__dict__
        for name in self._OPERANDS:
            got = fields[name]
            if type(got) is Value:
                if got in by:
                    fields[name] = by[got]
            elif got and not by.keys().isdisjoint(got):
                fields[name] = tuple([by.get(v, v) for v in got])

    def regions(self) -> list[Block]:
        """Return the nested blocks in order."""
        return [getattr(self, name) for name in self._REGIONS]

    def attributes(self) -> dict[str, Any]:
        """Return the compile-time fields by name."""
        return {name: getattr(self, name) for name in self._ATTRS}

    def __repr__(self) -> str:
        fields = (*self._OPERANDS, *self._ATTRS, *self._REGIONS)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in fields)})"


_OpClass = TypeVar("_OpClass", bound=type[Op])


@dataclass_transform(eq_default=False, field_specifiers=(operand, attr, region))
def op(name: str, *, pure: bool = True) -> Callable[[_OpClass], _OpClass]:
    """Make a class an op named ``name``; ``pure`` means it may be removed, repeated or moved freely."""

    def decorate(cls: _OpClass) -> _OpClass:
        found = {key: value for key, value in vars(cls).items() if isinstance(value, _Field)}
        for key, marked in found.items():
            if marked.default is _REQUIRED:
                delattr(cls, key)
            else:
                setattr(cls, key, marked.default)
        cls.NAME = name
        cls.PURE = pure
        cls._FIELDS = {key: marked.default for key, marked in found.items()}
        cls._OPERANDS = tuple([key for key, marked in found.items() if marked.role == "operand"])
        cls._ATTRS = tuple([key for key, marked in found.items() if marked.role == "attr"])
        cls._REGIONS = tuple([key for key, marked in found.items() if marked.role == "region"])
        cls.__match_args__ = tuple(found)  # type: ignore[misc, attr-defined]
        cls.__init__ = _first_construction  # type: ignore[assignment]
        return cls

    return decorate


def _first_construction(self: Op, *args: Any, **given: Any) -> None:
    """The ``__init__`` of an op until one is made: compiling one takes time, and most processes use few kinds of op."""
    cls = type(self)
    cls.__init__ = _constructor(cls._FIELDS)  # type: ignore[method-assign]
    cls.__init__(self, *args, **given)


def _constructor(fields: dict[str, Any]) -> Callable[..., None]:
    """Return an ``__init__`` that takes ``fields`` by position or by name."""
    defaults = ("" if default is _REQUIRED else f"=_defaults[{name!r}]" for name, default in fields.items())
    takes = "".join([f", {name}{default}" for name, default in zip(fields, defaults, strict=True)])
    sets = "\n".join([f"    self.{name} = {name}" for name in fields]) or "    pass"
    space: dict[str, Any] = {"_defaults": fields}
    exec(f"def __init__(self{takes}):\n{sets}", space)
    made: Callable[..., None] = space["__init__"]
    return made


class Block:
    """A straight list of ops with parameters; the last op is its ``Yield`` once it is complete."""

    __slots__ = ("ops", "params")

    def __init__(self, params: list[Value] | None = None) -> None:
        self.params: list[Value] = params or []
        self.ops: list[Op] = []

    @property
    def yielded(self) -> tuple[Value, ...]:
        """The operands of the terminating ``Yield``."""
        return tuple(self.ops[-1].operands())

    def walk(self) -> Iterator[Op]:
        """Iterate over all ops, nested ones after the op that holds them."""
        waiting = [iter(self.ops)]  # no recursion: its cost for each op would grow with the depth of the nest
        while waiting:
            for o in waiting[-1]:
                yield o
                if o._REGIONS:
                    waiting.extend(iter(r.ops) for r in reversed(o.regions()))
                    break
            else:
                waiting.pop()


class Schedule(Frozen):
    """How many threads of the grid one run of a function's body is.

    Attributes:
        lanes: How many neighbours along the last dimension of the grid run side by side in vector registers.
        rows: How many neighbours along the last but one dimension run with each of them.
        remainder: Where there are lanes, the same function in fewer lanes, for the threads that are left of a row. None
            where the function itself runs them, under a mask.
        coarsened: The same function for several rows at once, for the rows of a chunk that are whole.
        alone: Where there are lanes, the same function one thread at a time, for grids whose rows are shorter than
            ``fewest``: most lanes would have no thread.
        fewest: The fewest threads of a row that are run in lanes where there is ``alone``.
        scalar: Whether LLVM is to leave threads apart, too: they gather more than they compute.
    """

    lanes: int = 1
    rows: int = 1
    remainder: Function | None = None
    coarsened: Function | None = None
    alone: Function | None = None
    fewest: int = 0
    scalar: bool = False


ONE_THREAD = Schedule()
"""The schedule of a body that is one thread's."""


class Function:
    """A kernel or a function: named parameters, one body, result types.

    ``role`` is ``kernel``, ``func``, ``adjoint`` or ``tangent``. A kernel yields nothing. The last parameters of an
    adjoint are copies, from before the launch, of the parameters at the positions ``prelaunch_copies``.

    A func may have a ``gradient`` of its own: a function that takes the arguments, the adjoint of each result, and the
    adjoint of each differentiable argument (zero where that is no array), and returns the adjoints of those that are
    no arrays. It may have a ``replay``: a function of the same type that gives its results in the reverse sweep.

    ``schedule`` says how many threads a run of the body is: one, until ``passes.spmd`` has widened it.

    A func with a ``primal`` is the gradient of that function and has no body yet; ``passes.ad`` makes it.

    ``is_tiled`` says that it works on tiles, ``had_tiles`` that it did before passes left none of them: a block is one
    thread then. ``is_joined`` says that it is a block of several threads, whose code was joined. ``team`` threads of a
    CUDA block run one thread together.

    ``tid_ndim`` says how many thread indices a kernel asks for, also where it uses none of them; 0: it does not ask.

    ``settled`` names passes that would leave the function as it is; ``passes.runner`` keeps it.
    """

    def __init__(
        self,
        name: str,
        params: list[Value],
        results: tuple[Type, ...] = (),
        role: str = "kernel",
        loc: Loc | None = None,
    ) -> None:
        self.name = name
        self.body = Block(params)
        self.results = results
        self.role = role
        self.loc = loc
        self.prelaunch_copies: tuple[int, ...] = ()
        self.gradient: Function | None = None
        self.replay: Function | None = None
        self.schedule = ONE_THREAD
        self.primal: Function | None = None
        self.tid_ndim = 0
        self.is_tiled = self.had_tiles = False
        self.is_joined = False
        self.team = 1
        self.settled: frozenset[str] = frozenset()

    @property
    def params(self) -> list[Value]:
        return self.body.params
