"""One row of the builtin tables: its lowering, its adjoint, and how its signature meets the types of a call.

The lowering forms, in order of preference:

* ``Expand``: the body, written with an IR emitter.
* ``Inline``: the body, written as a function in the kernel language.
* ``Elementwise``: the scalar overload of a builtin, for each component.
* ``Symbol``: data, the name of an LLVM intrinsic, a libm and a libdevice function.
* ``Target``: written by hand in the backend's table of instructions, under the builtin's name.
* ``Cooperative``: what a thread asks of its warp or block; on CUDA written by hand, elsewhere a block is one thread.
* ``Special``: the frontend builds the ops itself, since the call takes compile-time arguments or arrays.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from warp_like.base.frozen import Frozen
from warp_like.builtins.patterns import Argument, Env, Literal, Pattern, settle, substitute, unify
from warp_like.ir import types as ir
from warp_like.ir.core import Value


class Expand(Frozen):
    """``body(b, *args)`` builds the result with the emitter ``b``."""

    body: Callable[..., Any]


class Inline(Frozen):
    """``function`` is a Python function in the kernel language; its globals are the builtins.

    One that is ``called`` takes or gives structs, or reads memory through an id: its body is put where the call stands
    before anything else is done, and its derivative is that of the body.

    One that is ``outlined`` is large: code for a kernel has it once, as a function that the kernel calls
    (``ops.Outlined``). It reads nothing but memory of objects that no kernel writes, nothing for the id 0, and its row
    has a rule for the derivative.

    ``native`` names a function of the extension that takes the body's place in code for x86-64 with AVX2. Both read
    nothing but memory of objects that no kernel writes, and are harmless for the arguments of a thread that is not
    there: all of them 0. A vector is given component by component.

    ``lanes`` names one that does so for many threads at once, which it searches for side by side. It is called where
    the arguments that are integers are the same for all of them, and is given these; then the floats, a row of
    ``width`` for each; this width; the lanes of the mask, an int64; and where the results go.
    """

    function: Callable[..., Any]
    called: bool = False
    outlined: bool = False
    native: str = ""
    lanes: str = ""


class Elementwise(Frozen):
    """Apply the scalar overload of builtin ``scalar`` to each component; a scalar argument is repeated."""

    scalar: str


class Symbol(Frozen):
    """An external function of the scalar arguments, all of one float type.

    ``llvm`` is an intrinsic without its type suffix (``llvm.floor``) that both targets lower natively, or empty;
    ``libm`` the double-precision C name (``sin``; float32 appends ``f``); ``nvptx`` the double-precision libdevice
    name (``__nv_sin``; float32 appends ``f``). ``vector`` says that the platform's vector math library has it. Half
    types compute in float32.
    """

    libm: str
    nvptx: str
    llvm: str = ""
    vector: bool = False


class Target(Frozen):
    """Lowered by the backend's instruction table under the builtin's name."""


class Cooperative(Frozen):
    """Of the threads of a warp or block on CUDA, lowered by the backend's table ``block`` under the builtin's name.

    Attributes:
        alone: ``alone(b, *args)`` builds what it is where a block is one thread, as on the CPU.
        meets: Whose threads have to come by together: those of a ``block``, of a ``warp``, or nobody's.
        agrees: Whose threads all get the same result.
        tangent: ``tangent(b, t, out, *args)`` gives the result's tangent, given that of the first argument.
    """

    alone: Callable[..., Any]
    meets: str = ""
    agrees: str = ""
    tangent: Callable[..., Value] | None = None


class Special(Frozen):
    """Built by the frontend. ``gradient`` says for the reference what its derivative is, where it has one."""

    gradient: str = ""


Lowering = Expand | Inline | Elementwise | Symbol | Target | Cooperative | Special


class NoGradient(Frozen):
    """Says why there is no adjoint. ``zero`` means the derivative is 0 wherever it exists, so nothing is refused."""

    reason: str
    zero: bool = True


Adjoints = Value | tuple[Value | None, ...]
"""The result of a rule: one adjoint for each argument, None where there is none; a single one needs no tuple."""

Rule = Callable[..., Adjoints]
Adjoint = Rule | NoGradient | None
"""``rule(b, g, out, *args)`` returns the adjoints of the arguments; for several results ``g`` and ``out`` are tuples.
None stands for: differentiate the body (``Expand``, ``Inline``) or the scalar rule (``Elementwise``)."""


class Overload(Frozen):
    """One row: a signature of a builtin with all that is known of it.

    ``assigns`` names parameters that a call changes: the last results are the new values of the variables given there.
    ``to_memory`` names the row that sends the result's adjoint to the memory of objects which the body reads. It takes
    the arguments of this one, but for the last, and the adjoint.
    ``example`` is code for the reference page, for builtins that the host can't call. ``text`` is the docstring as it
    stands in the source.
    """

    name: str
    group: str
    params: tuple[str, ...]
    patterns: tuple[Pattern, ...]
    result: Pattern | tuple[Pattern, ...] | None
    text: str
    lower: Lowering
    adjoint: Adjoint
    ref: Callable[..., Any] | None
    defaults: tuple[Any, ...] = ()
    assigns: tuple[str, ...] = ()

    __eq__ = object.__eq__  # a row is itself alone
    __hash__ = object.__hash__
    example: str = ""
    to_memory: str = ""

    @functools.cached_property
    def doc(self) -> str:
        """The documentation. Cleaning that of all rows would be a tenth of what loading the tables takes."""
        return inspect.cleandoc(self.text)

    def match(self, args: Sequence[Argument]) -> Resolved | int:
        """Return the types of a call with ``args``, or the position of the first argument that does not fit."""
        env: Env = {}
        order = sorted(range(len(args)), key=lambda i: _turn(args[i]))
        for i in order:
            arg, pattern = args[i], self.patterns[i]
            fits = settle(pattern, arg, env) if isinstance(arg, Literal) else unify(pattern, arg, env)
            if not fits:
                return i
        types = tuple(substitute(p, env) for p in self.patterns)
        if self.result is None:
            return Resolved(self, types, ())
        results = self.result if isinstance(self.result, tuple) else (self.result,)
        return Resolved(self, types, tuple(substitute(r, env) for r in results))

    def signature(self) -> str:
        """Return the call as a user writes it: ``wp.clamp(x, low, high)``."""
        first = len(self.params) - len(self.defaults)
        shown = [p if i < first else f"{p}={self.defaults[i - first]}" for i, p in enumerate(self.params)]
        return f"wp.{self.name}({', '.join(shown)})"


def _turn(arg: Argument) -> int:
    """When an argument has its say about the types: typed ones first, then float literals, then the others."""
    if not isinstance(arg, Literal):
        return 0
    return 1 if isinstance(arg.value, float) else 2


class Resolved(Frozen):
    """An overload with concrete types."""

    overload: Overload
    args: tuple[ir.Type, ...]
    results: tuple[ir.Type, ...]

    @functools.cached_property
    def takes_nothing(self) -> bool:
        """Whether an argument is a vector or matrix without components."""
        return any(map(ir.is_empty, self.args))


class NoMatch(TypeError, RuntimeError):
    """No overload takes the arguments; the message says which argument of the nearest one does not fit.

    Both a TypeError, as for other functions of Python, and the RuntimeError that programs written for Warp expect.

    ``help`` holds a suggestion, or None; ``position`` the index of the argument to blame, or None.
    """

    def __init__(self, message: str, help: str | None = None, position: int | None = None) -> None:
        super().__init__(message)
        self.help = help
        self.position = position

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.args[0], self.help, self.position)
