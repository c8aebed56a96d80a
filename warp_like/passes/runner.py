"""Runs passes by their names: verifies functions between them, and shows them where the user asks for that.

Many passes find nothing to do. A function that they leave as it was is not verified again: see ``_shape``. Nor does a
pass of ``_IDEMPOTENT`` run once more on a function that nothing has changed since: see ``Function.settled``.
"""

from __future__ import annotations

from collections.abc import Callable

from warp_like.base.frozen import Frozen
from warp_like.base.passes import ROUTE
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.rewrite import blocks
from warp_like.ir.rules import Rule
from warp_like.passes import stages


class Options(Frozen):
    """What passes take from the settings, and the threads of a block on the CPU.

    ``block_axis`` is the axis of the grid on which a block's threads lie; -1 where they ask for their number alone. The
    last block along it has ``block_rest`` threads, where that is not 0. ``team`` threads of a CUDA block run one of the
    grid together; ``apart`` says that no argument overlaps another, ``contiguous`` that all are contiguous.

    The target's warps have matrix ``units`` for factors of these types, and threads can let memory be copied
    (``async_copies``). On the CPU, ``sums_pairs`` says that products of bfloat16 are best summed in pairs.

    ``native_searches`` lets functions of the extension search objects.

    ``verify`` is as in ``base.settings``: True verifies after each pass, ``stages`` after each stage.

    ``dump(moment, function)`` is called before and after each pass, with ``before:NAME`` and ``after:NAME``.
    """

    max_unroll: int = 16
    max_unrolled_ops: int = 512
    checkpoint_loops: bool = False
    debug: bool = False
    verify_fp: bool = False
    block_dim: int = 1
    block_axis: int = -1
    block_rest: int = 0
    team: int = 1
    units: tuple[str, ...] = ()
    async_copies: bool = False
    sums_pairs: bool = False
    apart: bool = False
    contiguous: bool = False
    native_searches: bool = False
    verify: bool | str = False
    dump: Callable[[str, Function], None] | None = None


DEFAULT = Options()

_IDEMPOTENT = {"fold": (), "cse": (), "licm": (), "dce": ("fold", "cse", "licm")}
"""The passes that change nothing when they run twice, and those that would still find nothing after each has run.

To remove what nobody uses makes nothing else equal, constant or the same in all iterations.
"""

_REPLACING = ("unroll", "keep_nested_arrays", "lower_local_atomics", "expand")
"""Other passes that often find nothing. When they change something, ops come and go, which ``_shape`` shows."""


class Runner:
    """Applies the passes of one ``stage`` of ``base.passes.ROUTE`` to ``function``.

    ``rules`` hold from the start, those of ``stages.ESTABLISHED`` from their pass on. A pass changes the function in
    place, or gives another one. ``end`` gives what the last one has left.
    """

    def __init__(self, stage: str, f: Function, options: Options, rules: tuple[Rule, ...] = ()) -> None:
        self.stage = stage
        self.names = ROUTE[stage]
        self.function = f
        self.options = options
        self.rules = rules
        self.verified: Shape | None = None  # of the function when it obeyed all of ``rules``
        self.shape: Shape | None = None  # of the function as the last pass left it, where that is known

    def __call__(self, name: str, apply: Callable[[Function], Function | bool]) -> bool:
        """Run one pass; returns False where the pass says that it changed nothing."""
        assert name in self.names, f"ROUTE does not list {name}"
        self.dump("before", name)
        result = False if name in self.function.settled else self.apply(name, apply)
        established = stages.ESTABLISHED.get(name, ())
        if established:
            self.rules += established
            self.verified = None
        if self.options.verify is True:
            self.verify(name)
        self.dump("after", name)
        return result is not False

    def apply(self, name: str, apply: Callable[[Function], Function | bool]) -> Function | bool:
        """Run a pass, and note which passes now need not run."""
        f = self.function
        before, self.shape = self.shape, None
        if not (f.settled or name in _IDEMPOTENT):
            result = apply(f)
            self.function = result if isinstance(result, Function) else f
            return result
        before = before or _shape(f)
        result = apply(f)
        if isinstance(result, Function) and result is not f:
            self.function = result
            return result
        self.shape = before if result is False else _shape(f)
        if self.shape != before or not (result is False or name in _IDEMPOTENT or name in _REPLACING):
            f.settled = f.settled.intersection(_IDEMPOTENT.get(name, ()))
        if name in _IDEMPOTENT:
            f.settled |= {name}
        return result

    def end(self) -> Function:
        """Return the function as the stage leaves it."""
        if self.options.verify == "stages":
            self.verify(f"stage {self.stage}")
        return self.function

    def dump(self, when: str, name: str) -> None:
        """Show the function as it is before or after the pass ``name``."""
        if self.options.dump is not None:
            self.options.dump(f"{when}:{name}", self.function)

    def verify(self, name: str) -> None:
        """Check the function as the pass or the stage ``name`` has left it."""
        shape = _shape(self.function)
        if shape == self.verified:
            return
        from warp_like.ir.verify import InvalidIR, verify  # users' kernels are not verified

        try:
            verify(self.function, self.rules)
        except InvalidIR as error:
            raise InvalidIR(f"after {name}: {error}") from None
        self.verified = shape


Shape = list[tuple[list[Value], list[Op], tuple[Value, ...]]]
"""The parameters, ops and yielded values of each block."""


def _shape(f: Function) -> Shape:
    """Return what differs after a pass that has changed ``f``.

    Passes replace, move and remove ops, and drop carried values. One that alone exchanged the operands of ops in place
    would be seen by the next verification.
    """
    return [(list(b.params), list(b.ops), b.yielded if b.ops else ()) for b in blocks(f.body)]
