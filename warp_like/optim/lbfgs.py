"""L-BFGS: steps along an estimate of Newton's direction.

Source: J. Nocedal, S. Wright, "Numerical Optimization", 2nd edition, algorithms 7.4 and 7.5. The steps without a line
search, and the reasons to end, are PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import warp_like as wp
from warp_like.optim import arguments
from warp_like.optim.launches import Kernels, Launches
from warp_like.optim.line_search import Point, search
from warp_like.optim.rates import require_in
from warp_like.runtime.arrays import float_fields
from warp_like.runtime.memory.recorder import refuse_capture

SEARCHES = ("strong_wolfe",)
TRIES = 25
"""How often a line search evaluates the loss at most."""
NUMBERS = ("lr", "max_iter", "max_eval", "tolerance_grad", "tolerance_change", "history_size", "line_search_fn")
"""The attributes that hold the settings."""
VECTORS = ("_direction", "_before")
"""Those that hold the last direction, and the gradient where it was chosen."""
ROUNDING = 2.2e-16
"""A pair whose curvature is less than this, relative to the gradient's change, tells nothing."""


@wp.kernel(enable_backward=False)
def _load_line(a: wp.array[Any], x: wp.array[Any]) -> None:
    i = wp.tid()
    x[i] = x.dtype(a[i])


@wp.kernel(enable_backward=False)
def _load_block(a: wp.array4d[Any], x: wp.array4d[Any]) -> None:
    i, j, k, m = wp.tid()
    x[i, j, k, m] = x.dtype(a[i, j, k, m])


@wp.kernel(enable_backward=False)
def _store_line(a: wp.array[Any], x: wp.array[Any]) -> None:
    i = wp.tid()
    a[i] = a.dtype(x[i])


@wp.kernel(enable_backward=False)
def _store_block(a: wp.array4d[Any], x: wp.array4d[Any]) -> None:
    i, j, k, m = wp.tid()
    a[i, j, k, m] = a.dtype(x[i, j, k, m])


@wp.kernel(enable_backward=False)
def _combine(a: wp.float64, x: wp.array[Any], b: wp.float64, y: wp.array[Any], out: wp.array[Any]) -> None:
    i = wp.tid()
    out[i] = out.dtype(a) * x[i] + out.dtype(b) * y[i]


@wp.kernel(enable_backward=False)
def _measure(x: wp.array[Any], size: wp.array[Any], largest: wp.array[Any]) -> None:
    i = wp.tid()
    size[i] = wp.abs(x[i])
    wp.atomic_max(largest, 0, size[i])


LOAD = Kernels(_load_line, _load_block)
STORE = Kernels(_store_line, _store_block)


class Pair(NamedTuple):
    """A step of the parameters, the change of the gradient along it, and 1 over their product."""

    s: wp.array
    y: wp.array
    rho: float


class Vectors:
    """The parameters as one vector, and the work on such vectors."""

    def __init__(self, arrays: list[wp.array]) -> None:
        devices = {a.device for a in arrays}
        if len(devices) > 1:
            raise ValueError(f"LBFGS takes parameters on one device, got {', '.join(sorted(map(str, devices)))}")
        self.device = next(iter(devices), None)
        self.parts = [(i, field) for i, a in enumerate(arrays) if a.size for field in float_fields.of_array(a)]
        self.arrays = arrays
        wide = any(field.scalar is wp.float64 for _, field in self.parts)
        self.dtype = wp.float64 if wide else wp.float32
        self.size = sum(math.prod(field.of(arrays[i]).shape) for i, field in self.parts)
        self._sizes, self._largest = self.new(), wp.zeros(1, dtype=self.dtype, device=self.device)

    def new(self) -> wp.array:
        """Return a new vector."""
        return wp.zeros(self.size, dtype=self.dtype, device=self.device)

    def bind(self, kernels: Kernels, arrays: list[wp.array], x: wp.array) -> Launches:
        """Return launches that copy between arrays like the parameters and a vector."""
        found = Launches()
        begin = 0
        for i, field in self.parts:
            values = field.of(arrays[i])
            part = x[begin : begin + values.size].reshape(values.shape)
            found.add(kernels, [values, part])
            begin += values.size
        return found

    def dot(self, x: wp.array, y: wp.array) -> float:
        """Return the inner product, which is computed in float64."""
        return float(wp.utils.array_inner(x, y)) if self.size else 0.0

    def combine(self, a: float, x: wp.array, b: float, y: wp.array, out: wp.array) -> None:
        """Set ``out`` to ``a x + b y``."""
        wp.launch(_combine, dim=self.size, inputs=[a, x, b, y, out], device=self.device, record_tape=False)

    def norms(self, x: wp.array) -> tuple[float, float]:
        """Return the sum of the components' sizes, and the largest."""
        if not self.size:
            return 0.0, 0.0
        self._largest.zero_()
        inputs = [x, self._sizes, self._largest]
        wp.launch(_measure, dim=self.size, inputs=inputs, device=self.device, record_tape=False)
        return float(wp.utils.array_sum(self._sizes)), float(self._largest.numpy()[0])


class LBFGS:
    """L-BFGS: a quasi-Newton method that remembers the last steps, for losses without noise.

    Each call of ``step`` makes up to ``max_iter`` iterations. The parameters are one vector: of float64 if one of them
    has floats of this type, else of float32; inner products are computed in float64. Decisions are made on the host, so
    a capture can't hold a step.

    Args:
        params: A list of arrays of floats, of vectors and matrices, or of structs, of any library and on one device.
            None to set them later.
        lr: The first step length that is tried in each iteration.
        max_iter: How many iterations a step makes at most.
        max_eval: How often a step evaluates the loss at most; 5 / 4 of ``max_iter`` when left out.
        tolerance_grad: A step ends where no component of the gradient is larger.
        tolerance_change: A step ends after an iteration that changes the loss, or every parameter, by less.
        history_size: How many iterations are remembered.
        line_search_fn: ``"strong_wolfe"``, or None for steps of length ``lr``.

    Attributes:
        status: Why the last step ended: ``"gradient"``, ``"change"``, ``"iterations"``, ``"evaluations"``, or
            ``"not finite"`` where the loss or its gradient is no number.

    Raises:
        TypeError: A parameter is no array of floats.
        ValueError: A number is out of its range, or a parameter is read-only.

    Example:
        >>> p = wp.array([3.0], dtype=float, requires_grad=True)
        >>> def loss():
        ...     p.grad.assign(2.0 * (p.numpy() - 1.0))
        ...     return float((p.numpy()[0] - 1.0) ** 2)
        >>> optimizer = wp.optim.LBFGS([p], line_search_fn="strong_wolfe")
        >>> optimizer.step(loss)
        4.0
        >>> p.numpy().round(5), optimizer.status
        (array([1.], dtype=float32), 'gradient')
    """

    def __init__(
        self,
        params: Any = None,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        self.lr = lr
        self.max_iter = max_iter
        self.max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        self.tolerance_grad = tolerance_grad
        self.tolerance_change = tolerance_change
        self.history_size = history_size
        self.line_search_fn = line_search_fn
        for name in ("lr", "tolerance_grad", "tolerance_change", "history_size"):
            require_in("LBFGS", name, getattr(self, name))
        if line_search_fn is not None and line_search_fn not in SEARCHES:
            raise ValueError(f"LBFGS `line_search_fn` is 'strong_wolfe' or None, got {line_search_fn!r}")
        self.set_params(params)

    def set_params(self, params: Any) -> None:
        """Set the arrays to optimize, and forget earlier steps.

        Raises:
            TypeError: It is no list, or an element is no array of floats.
            ValueError: An array is read-only, stands there twice, or lies on another device.
        """
        self._arrays = [] if params is None else arguments.parameters(params, "LBFGS")
        self.params = params
        self._vectors = of = Vectors(self._arrays)
        self._x, self._start, self._g, self._before = of.new(), of.new(), of.new(), of.new()
        self._direction, self._s, self._y = of.new(), of.new(), of.new()
        self._load = of.bind(LOAD, self._arrays, self._x)
        self._store = of.bind(STORE, self._arrays, self._x)
        self._bound: tuple[list[Any], Launches] | None = None
        self.reset_internal_state()

    def reset_internal_state(self) -> None:
        """Forget earlier steps."""
        self.t = 0
        self.status = ""
        self._length = 0.0
        self._scale = 1.0
        self._pairs: list[Pair] = []

    def step(self, closure: Callable[[], Any]) -> float:
        """Make up to ``max_iter`` iterations, and return the loss before them.

        Args:
            closure: Computes the loss, a number or an array of one element, and leaves its gradient in the parameters'
                ``grad``, which it sets to zero first.

        Raises:
            RuntimeError: There are no parameters, one has no gradient, or a capture is running.
        """
        refuse_capture("LBFGS.step()")
        if self.params is None:
            raise RuntimeError("LBFGS parameters must be set before calling step(), got None")
        self._closure, self._calls = closure, 0
        self._load.run()
        first = loss = self._evaluate()
        self.status = self._ended(loss, math.inf, math.inf)
        for iteration in range(self.max_iter):
            if self.status:
                break
            slope = self._turn()
            if not slope < 0.0 or slope > -self.tolerance_change:
                self.status = "change" if math.isfinite(slope) else "not finite"
                break
            before = loss
            last = iteration + 1 == self.max_iter
            loss = self._go(Point(0.0, loss, slope), last)
            moved = self._length * self._vectors.norms(self._direction)[1]
            if not (last and self.line_search_fn is None):  # PyTorch does not evaluate the loss there
                self.status = self._ended(loss, abs(loss - before), moved)
        self.status = self.status or "iterations"
        return first

    def _evaluate(self) -> float:
        """Return the loss of the parameters as they are, and put its gradient in ``_g``."""
        loss = float(self._closure())
        self._calls += 1
        given = arguments.gradients(None, self.params, "LBFGS")
        if self._bound is None or any(a is not b for a, b in zip(given, self._bound[0], strict=True)):
            checked = [arguments.require_like(g, p, "LBFGS") for g, p in zip(given, self._arrays, strict=True)]
            self._bound = given, self._vectors.bind(LOAD, checked, self._g)
        self._bound[1].run()
        return loss

    def _ended(self, loss: float, change: float, moved: float) -> str:
        """Return why a step ends here, or nothing."""
        total, largest = self._vectors.norms(self._g)
        if not (math.isfinite(loss) and math.isfinite(total)):
            return "not finite"
        if largest <= self.tolerance_grad:
            return "gradient"
        if moved <= self.tolerance_change or change < self.tolerance_change:
            return "change"
        return "evaluations" if self._calls >= self.max_eval else ""

    def _turn(self) -> float:
        """Choose the direction, and return the loss's slope along it."""
        v = self._vectors
        if self.t:
            self._remember()
        self.t += 1
        d = self._direction
        v.combine(-1.0, self._g, 0.0, self._g, d)
        shares = []
        for s, y, rho in reversed(self._pairs):
            shares.append(rho * v.dot(s, d))
            v.combine(-shares[-1], y, 1.0, d, d)
        v.combine(self._scale, d, 0.0, d, d)
        for s, y, rho in self._pairs:
            v.combine(shares.pop() - rho * v.dot(y, d), s, 1.0, d, d)
        v.combine(1.0, self._g, 0.0, self._g, self._before)
        return v.dot(self._g, d)

    def _remember(self) -> None:
        """Keep the last step and the change of the gradient along it, if they tell the curvature."""
        v, s, y = self._vectors, self._s, self._y
        v.combine(1.0, self._g, -1.0, self._before, y)
        v.combine(self._length, self._direction, 0.0, self._direction, s)
        product, size = v.dot(s, y), v.dot(y, y)
        if not product > ROUNDING * size:
            return
        self._scale = product / size
        if not self.history_size:
            return
        self._pairs.append(Pair(s, y, 1.0 / product))
        if len(self._pairs) > self.history_size:
            self._s, self._y, _ = self._pairs.pop(0)
        else:
            self._s, self._y = v.new(), v.new()

    def _go(self, start: Point, last: bool) -> float:
        """Move along the direction, and return the loss there."""
        v = self._vectors
        total, _ = v.norms(self._g)
        length = self.lr if self.t > 1 else min(1.0, 1.0 / total) * self.lr
        v.combine(1.0, self._x, 0.0, self._x, self._start)
        if self.line_search_fn is None:
            self._move(length)
            return start.loss if last else self._evaluate()
        smallest = self.tolerance_change / v.norms(self._direction)[1]
        found = search(self._at, start, length, smallest, TRIES)
        if found.t != self._length:
            return self._at(found.t).loss
        return found.loss

    def _move(self, length: float) -> None:
        self._length = length
        self._vectors.combine(length, self._direction, 1.0, self._start, self._x)
        self._store.run()

    def _at(self, length: float) -> Point:
        """Return the loss and its slope at a step length."""
        self._move(length)
        return Point(length, self._evaluate(), self._vectors.dot(self._g, self._direction))

    # --- saving ---

    def state_dict(self) -> dict[str, Any]:
        """Return settings and memory as numbers and NumPy arrays, which ``pickle`` and others save.

        The parameters themselves are not among them. The arrays are copies.
        """
        state: dict[str, Any] = {"optimizer": "LBFGS", **{name: getattr(self, name) for name in NUMBERS}}
        for name in VECTORS:
            state[name.lstrip("_")] = getattr(self, name).numpy().copy()
        state |= {"t": self.t, "length": self._length, "scale": self._scale}
        state["pairs"] = [(s.numpy().copy(), y.numpy().copy(), rho) for s, y, rho in self._pairs]
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict()`` returned, for parameters of the same shapes and dtypes.

        Raises:
            KeyError: Something is missing.
            ValueError: It is of another optimizer, or of other parameters; then nothing has changed.
        """
        if state["optimizer"] != "LBFGS":
            raise ValueError(f"this is the state of {state['optimizer']}, not of LBFGS")
        size = len(state["before"])
        if size != self._vectors.size:
            raise ValueError(f"LBFGS has parameters of {self._vectors.size} numbers, the state is of {size}")
        here: Any = {"dtype": self._vectors.dtype, "device": self._vectors.device}
        pairs = [Pair(wp.array(s, **here), wp.array(y, **here), rho) for s, y, rho in state["pairs"]]
        settings = {name: state[name] for name in NUMBERS}
        self.t, self._length, self._scale = state["t"], state["length"], state["scale"]
        for name in VECTORS:
            getattr(self, name).assign(state[name.lstrip("_")])
        self._pairs = pairs
        for name, value in settings.items():
            setattr(self, name, value)
