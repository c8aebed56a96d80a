"""The oracle: a program's source run by Python itself, thread after thread, with ``Wp`` in place of the package.

The syntax tree is rewritten so that operators, comparisons, assignments and loops call the functions below, which give
them the meaning that the documentation says they have in kernels.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tests.fuzz import builtins, plain_tiles, scalars
from tests.fuzz.aggregates import Aggregate, AggregateType, Struct, arithmetic, copied, each
from tests.fuzz.indirect import parameter
from tests.fuzz.memory import Arr, ArrayType, Memory
from tests.fuzz.overloading import Family, Types, chosen
from tests.fuzz.plain_tiles import Tile
from tests.fuzz.scalars import INT32, TYPES, InvalidProgram, ScalarType

MAX_STEPS = 100_000
"""Iterations of loops in one launch; what takes more is no test."""
ATOMIC = {"Add": "add", "Sub": "sub", "BitAnd": "and", "BitOr": "or", "BitXor": "xor"}
MEANINGLESS = (TypeError, NameError, AttributeError, LookupError, ValueError, ArithmeticError)
"""What Python raises for programs that mean nothing."""
WORDS = ("int32", "uint32", "int64", "uint64")


class Ref:
    """The annotation of a parameter that a function gives back: ``wp.ref[T]``."""

    def __class_getitem__(cls, t: Any) -> Any:
        return t


# --- what the rewritten program calls ---------------------------------------------------------------------------


def binary(op: str, a: Any, b: Any) -> Any:
    if isinstance(a, Tile) or isinstance(b, Tile):
        return plain_tiles.binary(op, a, b, binary)
    if isinstance(a, Struct) and isinstance(b, Struct):
        return plain_tiles.added(a, b, op)
    if isinstance(a, Aggregate) or isinstance(b, Aggregate):
        if op == "Mod" or op.startswith("Bit"):
            return each(lambda x, y: scalars.binary(op, x, y), a, b)
        return arithmetic(op, a, b)
    return scalars.binary(op, a, b)


def augmented(op: str, a: Any, b: Any) -> Any:
    """What a variable holds after ``a op= b``: the same tile, which has changed, or another value."""
    if not isinstance(a, Tile):
        return binary(op, a, b)
    if op not in ("Add", "Sub") and len(np.unique(a.where)) < a.where.size:
        raise InvalidProgram("elements of a part are one element of the tile")
    a.change(lambda x, y: binary(op, x, y), b)
    return a


def unary(op: str, x: Any) -> Any:
    if isinstance(x, Tile):
        return plain_tiles.elementwise(lambda y: unary(op, y), x)
    return each(lambda p: scalars.unary(op, p), x) if isinstance(x, Aggregate) else scalars.unary(op, x)


def compare(op: str, a: Any, b: Any) -> Any:
    if isinstance(a, Aggregate) and isinstance(b, Aggregate):
        same = all(scalars.compare("Eq", x, y) for x, y in zip(a.parts, b.parts, strict=True))
        return np.bool_(same == (op == "Eq"))
    return scalars.compare(op, a, b)


def walked(place: Any, steps: Sequence[tuple[str, Any]]) -> Any:
    """What stands at a place."""
    for kind, what in steps:
        place = getattr(place, what) if kind == "." else place[what]
    return place


def assign(root: Any, steps: list[tuple[str, Any]], value: Any) -> None:
    """``root[i].field = value``."""
    for k, (kind, what) in enumerate(steps):
        if isinstance(root, Arr):
            root.store(steps[k:], value)
            return
        if isinstance(root, Tile):
            root.store(steps[k:], value, assign)
            return
        if k < len(steps) - 1:
            root = getattr(root, what) if kind == "." else root[what]
        elif kind == ".":
            setattr(root, what, value)
        else:
            root[what] = value


def update(root: Any, steps: list[tuple[str, Any]], op: str, value: Any) -> None:
    """``root[i] op= value``: an atomic where arrays have one."""
    if isinstance(root, Arr) and op in ATOMIC:
        array, _, _ = root.resolved(steps)
        t = None if isinstance(array.type, type) else array.dtype
        if t is not None and (t.name in WORDS or (t.is_float and op in ("Add", "Sub"))):
            root.update(steps, ATOMIC[op], value)
            return
    assign(root, steps, binary(op, walked(root, steps), value))


class Rewriter(ast.NodeTransformer):
    """Replaces syntax by calls of the functions above."""

    def __init__(self, refs: dict[str, list[int]]) -> None:
        self.refs = refs
        self.given_back: list[str] = []

    def call(self, name: str, *args: ast.expr) -> ast.Call:
        return ast.Call(ast.Name(name, ast.Load()), list(args), [])

    def text(self, x: str) -> ast.Constant:
        return ast.Constant(x)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        return self.call("binary", self.text(type(node.op).__name__), self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        return self.call("unary", self.text(type(node.op).__name__), self.visit(node.operand))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        sides = [self.visit(x) for x in (node.left, *node.comparators)]
        pairs = [
            self.call("compare", self.text(type(op).__name__), a, b)
            for op, (a, b) in zip(node.ops, itertools.pairwise(sides), strict=True)
        ]
        return pairs[0] if len(pairs) == 1 else ast.BoolOp(ast.And(), pairs)

    def visit_While(self, node: ast.While) -> ast.While:
        self.generic_visit(node)
        node.test = ast.BoolOp(ast.And(), [self.call("tick"), node.test])
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        node.iter = self.call("copied", node.iter)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        (target,) = node.targets
        if ast.unparse(node.value) == "wp.tid()":
            count = len(target.elts) if isinstance(target, ast.Tuple) else 0
            value: ast.expr = self.call("tid", ast.Constant(count))
        else:
            value = self.call("copied", self.visit(node.value))
        if isinstance(target, (ast.Name, ast.Tuple)):
            return ast.Assign([target], value)
        return ast.Expr(self.call("assign", *self.place(target), value))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        op, value = self.text(type(node.op).__name__), self.visit(node.value)
        if isinstance(node.target, ast.Name):
            name = node.target.id
            made = self.call("augmented", op, ast.Name(name, ast.Load()), value)
            return ast.Assign([ast.Name(name, ast.Store())], made)
        return ast.Expr(self.call("update", *self.place(node.target), op, value))

    def place(self, node: Any) -> tuple[ast.expr, ast.expr]:
        """The root of a target and the steps from there."""
        steps: list[ast.expr] = []
        while isinstance(node, (ast.Subscript, ast.Attribute)):
            if isinstance(node, ast.Attribute):
                steps.append(ast.Tuple([self.text("."), self.text(node.attr)], ast.Load()))
            else:
                at = self.visit(node.slice)
                if any(isinstance(n, ast.Slice) for n in ast.walk(at)):
                    at = self.sliced(at)
                steps.append(ast.Tuple([self.text("["), at], ast.Load()))
            node = node.value
        return self.visit(node), ast.List(steps[::-1], ast.Load())

    def sliced(self, at: Any) -> ast.expr:
        """An index with slices as an expression of its own."""
        if isinstance(at, ast.Tuple):
            return ast.Tuple([self.sliced(i) for i in at.elts], ast.Load())
        if not isinstance(at, ast.Slice):
            return at
        bounds = [b if b is not None else ast.Constant(None) for b in (at.lower, at.upper, at.step)]
        return self.call("slice", *bounds)

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        call = node.value
        if isinstance(call, ast.Call):
            name = ast.unparse(call.func)
            if name.startswith(("wp.atomic_", "wp.tile_atomic_")):
                self.generic_visit(node)
                call.keywords.append(ast.keyword("used", ast.Constant(False)))
                return node
            if name in self.refs:
                return self.referring(call, self.refs[name])
        self.generic_visit(node)
        return node

    def referring(self, call: ast.Call, positions: list[int]) -> ast.stmt:
        """A call that changes its arguments, as assignments of its results."""
        got = self.call("copied", self.visit(call))
        names = [f"_r{k}" for k in positions]
        first = ast.Assign([ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store())], got)
        rest: list[ast.stmt] = []
        for n, k in zip(names, positions, strict=True):
            target, value = call.args[k], ast.Name(n, ast.Load())
            if isinstance(target, ast.Name):
                rest.append(ast.Assign([ast.Name(target.id, ast.Store())], value))
            else:
                rest.append(ast.Expr(self.call("assign", *self.place(target), value)))
        return ast.If(ast.Constant(True), [first, *rest], [])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        refs = self.refs.get(node.name, [])
        self.given_back = [node.args.args[k].arg for k in refs]
        self.generic_visit(node)
        if refs:
            node.body.append(self.visit_Return(ast.Return(None)))
        self.given_back = []
        return node

    def visit_Return(self, node: ast.Return) -> ast.Return:
        self.generic_visit(node)
        if self.given_back:
            node.value = ast.Tuple([ast.Name(n, ast.Load()) for n in self.given_back], ast.Load())
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return node


def references(tree: ast.Module) -> dict[str, list[int]]:
    """The positions of the parameters ``wp.ref`` of the functions that have some."""
    found = {}
    for f in tree.body:
        if isinstance(f, ast.FunctionDef):
            args = f.args.args
            at = [k for k, a in enumerate(args) if a.annotation and ast.unparse(a.annotation).startswith("wp.ref")]
            if at:
                found[f.name] = at
    return found


# --- the package's names ----------------------------------------------------------------------------------------


class Wp(builtins.Builtins, plain_tiles.TileNames):
    """What programs use of the package."""

    ref, Function = Ref, None
    Scalar, Int, Float = (Family(name) for name in ("Scalar", "Int", "Float"))

    def __init__(self, exact: bool, unordered: Sequence[tuple[np.ndarray, str]]) -> None:
        self.overloads: dict[str, list[tuple[Any, list[Any]]]] = {}
        self.types = Types()
        self.names: dict[str, Any] = {}
        self.memory = Memory(exact, unordered)
        self.thread: tuple[int, ...] = (0,)
        self.steps = 0

    def __getattr__(self, name: str) -> Any:
        if name in TYPES:
            return TYPES[name]
        t = builtins.aggregate_named(name)
        if t is None:
            raise InvalidProgram(f"wp.{name}")
        return t

    def tick(self) -> bool:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise InvalidProgram("too many iterations")
        return True

    def tid(self, count: int) -> Any:
        if count > 1:
            return tuple(INT32(k) for k in self.thread[:count])
        return INT32(self.thread[0])

    def range(self, *bounds: Any) -> Iterator[Any]:
        known = next((t for t in map(scalars.type_of, bounds) if t is not None), INT32)
        whole = [int(scalars.alike(b, known(0))[0]) for b in bounds]
        low, high, step = ([0, *whole, 1] if len(whole) == 1 else [*whole, 1])[:3]
        if not step:
            raise InvalidProgram("a step of 0")
        for k in range(low, high, step):
            self.tick()
            yield known(k)

    def kernel(self, f: Any = None, **_: Any) -> Any:
        return f if f is not None else lambda g: g

    def func(self, f: Any) -> Any:
        """A function; of several with one name, a call takes the most special that fits."""
        types = [f.__annotations__.get(n) for n in f.__code__.co_varnames[: f.__code__.co_argcount]]
        known = self.overloads.setdefault(f.__name__, [])
        known[:] = [(g, ts) for g, ts in known if ts != types] + [(f, types)]

        @functools.wraps(f)
        def call(*args: Any) -> Any:
            self.tick()
            g, wanted = chosen(known, args)
            return _returned(g(*(_argument(a, t) for a, t in zip(args, wanted, strict=True))))

        return call

    def func_native(self, *_: Any, **__: Any) -> Any:
        """The oracle is given Python in place of the function."""
        return lambda f: f

    def grad(self, f: Any) -> Any:
        """The gradient of a function, which the oracle is given under another name."""
        return self.names[f"slopes_{f.__name__}"]

    def struct(self, cls: type) -> type:
        return type(cls.__name__, (Struct,), {"fields": dict(cls.__annotations__)})

    def static(self, x: Any) -> Any:
        return x

    def array(self, dtype: Any, ndim: int = 1) -> ArrayType:
        return ArrayType(dtype, ndim)

    def indexedarray(self, dtype: Any, ndim: int = 1) -> ArrayType:
        return ArrayType(dtype, ndim)

    def indexedarray2d(self, dtype: Any) -> ArrayType:
        return ArrayType(dtype, 2)

    def array2d(self, dtype: Any) -> ArrayType:
        return ArrayType(dtype, 2)

    def array3d(self, dtype: Any) -> ArrayType:
        return ArrayType(dtype, 3)

    def array4d(self, dtype: Any) -> ArrayType:
        return ArrayType(dtype, 4)

    def zeros(self, shape: Any, dtype: Any) -> Arr:
        shape = shape if isinstance(shape, tuple) else (shape,)
        return Arr(np.zeros(tuple(map(int, shape)), element_dtype(dtype)), dtype, None)

    def _updated(self, kind: str, a: Arr, rest: tuple[Any, ...], used: bool) -> Any:
        return a.update([("[", rest[:-1])], kind, rest[-1], used)

    def atomic_cas(self, a: Arr, *rest: Any, used: bool = True) -> Any:
        *at, compare_to, value = rest
        old = a.update([("[", tuple(at))], "exch", a.a[a.indices(tuple(at))], True)
        if a.memory is not None:  # in another order of the threads it is this one that stores
            a.memory.attempt(a.place(tuple(at)), value)
        if old == scalars.alike(compare_to, old)[0]:
            a.update([("[", tuple(at))], "exch", value, True)
        return old


def _atomic(kind: str) -> Callable[..., Any]:
    return lambda self, a, *rest, used=True: self._updated(kind, a, rest, used)


for _kind in ("add", "sub", "min", "max", "and", "or", "xor", "exch"):
    setattr(Wp, f"atomic_{_kind}", _atomic(_kind))


def _returned(x: Any) -> Any:
    if isinstance(x, Tile):
        return x.value()
    return tuple(map(_returned, x)) if isinstance(x, tuple) else copied(x)


def _argument(a: Any, t: Any) -> Any:
    if isinstance(a, Tile):
        return a.given()
    if isinstance(t, ScalarType):
        return scalars.alike(a, t(0))[0]
    return copied(a)


def element_dtype(t: Any) -> np.dtype[Any]:
    """NumPy's dtype of elements of a type, vectors as further axes."""
    if isinstance(t, ScalarType):
        return np.dtype(t.numpy)
    if isinstance(t, AggregateType):
        return np.dtype((t.dtype.numpy, t.shape))
    return np.dtype([(name, element_dtype(f)) for name, f in t.fields.items()], align=True)


def run(
    source: str,
    args: Sequence[Any],
    dims: tuple[int, ...],
    name: str = "k",
    exact: bool = True,
    unordered: Sequence[tuple[np.ndarray, str]] = (),
) -> dict[int, list[Any]]:
    """Launch the kernel ``name``; arrays in ``args`` change in place.

    Returns:
        By address, the values of which any may stay, for arrays of ``unordered`` that say so.

    Raises:
        InvalidProgram: What it computes is not defined, or depends on the order of threads.
    """
    wp = Wp(exact, unordered)
    code = _compiled(source)
    space: dict[str, Any] = {"wp": wp, "binary": binary, "unary": unary, "compare": compare, "copied": copied}
    space["augmented"] = augmented
    space |= {"assign": assign, "update": update, "tick": wp.tick, "tid": wp.tid, "range": wp.range, "slice": slice}
    space |= {"int": INT32, "float": TYPES["float32"], "bool": TYPES["bool"], "__name__": "plain", "Any": Any}
    space |= {"len": lambda a: INT32(len(a)), "type": lambda x: scalars.type_of(x) or x.type, "reversed": _reversed}
    wp.names = space
    with np.errstate(all="ignore"):
        try:
            exec(code, space)
            f = space[name]
            types = [f.__annotations__[n] for n in f.__code__.co_varnames[: f.__code__.co_argcount]]
            given = [_parameter(a, t, wp.memory) for a, t in zip(args, types, strict=True)]
            for number, thread in enumerate(itertools.product(*map(range, dims))):
                wp.memory.thread, wp.thread = number, thread
                f(*map(copied, given))
        except MEANINGLESS as e:
            raise InvalidProgram(f"{type(e).__name__}: {e}") from e
    return wp.memory.choices()


def _reversed(items: Any) -> Any:
    return list(items)[::-1]


def _parameter(a: Any, t: Any, memory: Memory) -> Any:
    if isinstance(t, ArrayType):
        return parameter(a, t, memory)
    return scalars.cast(a, t) if isinstance(t, ScalarType) else t(*a)


@functools.lru_cache(maxsize=8)
def _compiled(source: str) -> Any:
    tree = ast.parse(source)
    tree = ast.fix_missing_locations(Rewriter(references(tree)).visit(tree))
    return compile(tree, "<program>", "exec", dont_inherit=True)
