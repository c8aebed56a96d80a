"""What functions of whole arrays may use of NumPy, JAX and PyTorch: their common names, and what they call differently.

An object here is the module, with these methods besides:

- ``loop(steps, body, *state)``: ``state = body(*state)`` repeated. The body uses no array from outside its state.
- ``scatter(into, where, what)``: ``into`` with ``what[k]`` added at ``where[k]``.
- ``counts(values, bins)``: how often each number below ``bins`` occurs.
- ``inside(u, inner)``: ``u`` with all but its border replaced.
- ``copy(x)``, and ``integers(x)``: zeros of the shape of ``x``.
"""

import numpy as np


class _Module:
    def __init__(self, module) -> None:
        self.module = module

    def __getattr__(self, name: str):
        return getattr(self.module, name)


def _interior(u) -> tuple[slice, ...]:
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


class JaxArrays(_Module):
    def __init__(self, jax) -> None:
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


class TorchArrays(_Module):
    def __init__(self, torch) -> None:
        super().__init__(torch)
        self.bodies: dict = {}

    def loop(self, steps, body, *state):
        """Call the compiled body from Python: a graph of all steps would take minutes to compile."""
        if body.__code__ not in self.bodies:
            self.bodies[body.__code__] = self.module.compile(body, dynamic=False)
        compiled = self.bodies[body.__code__]
        for _ in range(steps):
            state = compiled(*state)
        return state

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
