"""One way to call NumPy, JAX and PyTorch in functions of whole arrays, those of ``programs/`` and ``gradients/``.

An object here has the names of the module, and these methods:

- ``loop(steps, body, *state)``: ``state = body(*state)`` repeated. The body uses no array from outside its state.
- ``scatter(into, where, what)``: ``into`` with ``what[k]`` added at ``where[k]``.
- ``counts(values, bins)``: how often each number below ``bins`` occurs.
- ``inside(u, inner)``: ``u`` with all but its border replaced.
- ``copy(x)``, and ``integers(x)``: zeros of the shape of ``x``.
- ``indices(a)``: constant indices from NumPy's array ``a``.
"""

from types import ModuleType
from typing import Any

import numpy as np


class _Module:
    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)


def _interior(u: Any) -> tuple[slice, ...]:
    return (slice(1, -1),) * u.ndim


class NumpyArrays(_Module):
    def __init__(self) -> None:
        super().__init__(np)

    def loop(self, steps, body, *state):
        for _ in range(steps):
            state = body(*state)
        return state

    def scatter(self, into, where, what):
        out = into.copy()
        np.add.at(out, where, what)
        return out

    def counts(self, values, bins):
        return np.bincount(values, minlength=bins)

    def inside(self, u, inner):
        out = u.copy()
        out[_interior(u)] = inner
        return out

    def integers(self, x):
        return np.zeros(x.shape, np.int32)

    def indices(self, a):
        return a


class JaxArrays(_Module):
    def __init__(self, jax: ModuleType) -> None:
        super().__init__(jax.numpy)
        self.jax = jax

    def loop(self, steps, body, *state):
        return self.jax.lax.fori_loop(0, steps, lambda _, state: body(*state), state)

    def scatter(self, into, where, what):
        return into.at[where].add(what)

    def counts(self, values, bins):
        return self.module.bincount(values, length=bins)

    def inside(self, u, inner):
        return u.at[_interior(u)].set(inner)

    def integers(self, x):
        return self.module.zeros(x.shape, "int32")

    def indices(self, a):
        return self.module.asarray(a)


class TorchArrays(_Module):
    """PyTorch's names; ``compiled`` says whether the bodies of loops are compiled."""

    def __init__(self, torch: ModuleType, compiled: bool) -> None:
        super().__init__(torch)
        self.compiled = compiled
        self.bodies: dict[Any, Any] = {}

    def loop(self, steps, body, *state):
        """Call the body from Python: a graph of all steps would take minutes to compile."""
        run = self.compile_once(body) if self.compiled else body
        for _ in range(steps):
            state = run(*state)
        return state

    def compile_once(self, body):
        """Return the body compiled; one that is made again by the same text has been compiled before."""
        if body.__code__ not in self.bodies:
            self.bodies[body.__code__] = self.module.compile(body, dynamic=False)
        return self.bodies[body.__code__]

    def scatter(self, into, where, what):
        return into.index_add(0, where, what)

    def counts(self, values, bins):
        return self.module.bincount(values, minlength=bins)

    def copy(self, x):
        return x.clone()

    def inside(self, u, inner):
        out = u.clone()
        out[_interior(u)] = inner
        return out

    def integers(self, x):
        return self.module.zeros(x.shape, dtype=self.module.int32)

    def indices(self, a):
        return self.module.from_numpy(a.astype(np.int64))
