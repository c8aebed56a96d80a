"""A kernel with everything settled that JAX knows when it traces a call: types, shapes, grid, constants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warp_like import _native
from warp_like.base.contract import MAX_NARROW
from warp_like.interop.jaxffi.call import Buffer, Call, View, jax_dtype
from warp_like.interop.jaxffi.partitioning import run
from warp_like.interop.jaxffi.target import Code, compiled, jax_module
from warp_like.interop.operation import Held, Operation, Place, Storage
from warp_like.ir.layout import size_of
from warp_like.ir.types import Array
from warp_like.runtime.kernels.extents import require_extents
from warp_like.runtime.memory.allocation import contiguous_strides

_COPIES = 1 << 20  # bytes of copies, for other threads to add to, that never matter
_COPIES_PER_THREAD = 16  # beyond that: what the atomics of a kernel thread would cost
_LARGE = 1 << 18  # bytes of an output from which on finding out whether it needs to be zeroed pays


class JaxStorage(Storage):
    """The memory of one JAX array."""

    def zeros(self) -> Any:
        """A JAX array of zeros."""
        return jax_module().numpy.zeros(self.full_shape, jax_dtype(self.element))


@dataclass(frozen=True, eq=False)
class TracedOperation(Operation):
    """One traced call; ``constants`` holds the bytes of the scalars that JAX does not pass.

    Attributes:
        zero_outputs: Whether ``outputs`` hold zeros before the kernel runs.
        vmap_method: As for ``jax.ffi.ffi_call``.
        has_side_effect: Whether the call stays when its results are not used.
        block_dim: On CUDA, the threads of a block; 0 for what the kernel's options say.
    """

    zero_outputs: bool
    vmap_method: str
    has_side_effect: bool
    block_dim: int = 0
    _codes: dict[Any, Code] = field(default_factory=dict)

    storage_class = JaxStorage
    to_stop = "put jax.lax.stop_gradient around what must not be differentiated again"
    to_reverse = "jax.grad, jax.jacrev"

    def code(
        self,
        wrt: tuple[int, ...] | None = None,
        same: tuple[tuple[int, int], ...] = (),
        tangent: tuple[int, ...] | None = None,
        again: tuple[int, ...] | None = None,
        *,
        sums: bool = True,
        shares: bool = False,
    ) -> Code:
        """Return the compiled kernel, or a derivative of it; see ``Signature`` for which.

        With ``sums``, additions are not atomic where they need not be if arrays do not overlap. With ``shares``,
        threads share elements of which the code alone would let no two of them touch one.

        Raises:
            WarpCodegenError: It can't be compiled, or not differentiated.
        """
        variant = (wrt, same, tangent, again, sums, shares)
        if variant not in self._codes:
            forward = self.kernel.program(self.types).over(self.dims)
            contiguous = all(self._is_contiguous(i) for i in self.places)
            self._codes[variant] = compiled(
                self.kernel,
                self.types,
                wrt=wrt,
                same=same,
                tangent=tangent,
                again=again,
                wide=forward.is_wide(self.dims),
                contiguous=contiguous,
                sums=sums and contiguous,
                alone=wrt is not None and forward.in_order(self.dims, same),
                shares_indices=forward.shares_indices,
                shares_elements=shares,
                spares_objects=wrt is not None and bool(forward.effects.objects),
            )
        return self._codes[variant]

    def require_results(self) -> None:
        """Refuse a kernel that writes something that is no result.

        Raises:
            ValueError: It does.
        """
        for i in self.code().effects.writes:
            if self.places[i].storage not in self.results:
                name = self.kernel.parameter_names[i]
                raise ValueError(
                    f"kernel `{self.kernel.key}` writes its argument `{name}`, and JAX arrays don't change; "
                    f'name it in in_out_argnames=["{name}"] to get it as a result'
                )

    def zero_where(self, condition: Any, x: Any) -> Any:
        """Put it into the program that JAX traces."""
        return jax_module().numpy.where(condition, x, 0)

    def before(self, given: Mapping[int, Any]) -> dict[int, Held]:
        """Return what each storage holds before the kernel runs."""
        return {k: Held(s, given.get(k), fill=k in given or self._must_zero(k)) for k, s in self.storages.items()}

    def forward(self, values: Sequence[Any]) -> list[Any]:
        """Put the kernel into the program that JAX traces; ``values`` are the dynamic arguments."""
        given = self.given(values)
        held = {("value", k): h for k, h in self.before(given).items()}
        for k in self.results:
            held["value", k].keep = True
        self.launch(self.code(), {("value", i): x for i, x in given.items()}, held)
        return [held["value", k].value for k in self.results]

    def launch(self, code: Code, scalars: Mapping[tuple[str, int], Any], held: dict[tuple[str, int], Held]) -> None:
        """Run compiled code, and let the storages that it writes hold what it leaves there.

        Args:
            code: The kernel or a derivative of it.
            scalars: The scalars that JAX passes, by role and position; see ``Code.roles``.
            held: The storages, by role and name. Those that are missing are added, and hold zeros.
        """
        writes, reads = set(code.effects.writes), set(code.effects.reads)
        places = {n: self.places.get(i, Place(i, (1,))) for n, (_, i) in enumerate(code.roles)}
        arrays: dict[int, Held] = {}
        for n, t in enumerate(code.params):
            if isinstance(t, Array):
                k = places[n].storage
                arrays[n] = held.setdefault((code.roles[n][0], k), Held(self.storage(k)))
        s = code.signature
        sums, shares = s.sums and self._may_add_plainly(code, places, arrays), self._shares_elements(code, arrays)
        if shares or sums != s.sums:
            code = self.code(s.wrt, s.same, s.tangent, s.again, sums=sums, shares=shares)
        shapes = [places[n].shape if n in arrays else None for n in places]
        require_extents(self.kernel, code.effects.reaches, self.dims, code.roles, shapes)
        call = Call(code, self.dims, self.vmap_method, self.has_side_effect, self.block_dim)
        call.sums = code.effects.sums if code.signature.sums else ()
        written = {id(h) for n, h in arrays.items() if n in writes or h.keep}
        used = {id(h) for n, h in arrays.items() if n in reads} | written
        buffers: dict[int, Buffer] = {}
        results: list[Held] = []
        for n, (role, i) in enumerate(code.roles):
            if n not in arrays:
                call.value(n, self.constants[i] if role == "value" and i in self.constants else scalars[role, i])
                continue
            h, place = arrays[n], places[n]
            if id(h) not in used:
                call.views[n] = View(None, place.shape, place.strides)
                continue
            if id(h) not in buffers and id(h) in written:
                buffers[id(h)] = call.result(h.storage.shape, h.storage.element, h.value, zero=h.fill)
                results.append(h)
            elif id(h) not in buffers:
                buffers[id(h)] = call.operand(h.start(), h.storage.element)
            call.views[n] = View(buffers[id(h)], place.shape, place.strides, place.shift)
        for h, value in zip(results, run(call), strict=True):
            h.value = value

    def _may_add_plainly(self, code: Code, places: Mapping[int, Place], arrays: Mapping[int, Held]) -> bool:
        """Return whether arrays that the code needs for itself are seen by no other parameter, and small where copied.

        No array is so large that code on CUDA could not count its elements in 32 bits.
        """
        if any(math.prod(places[n].shape) > MAX_NARROW or max(places[n].shape, default=0) > MAX_NARROW for n in arrays):
            return False
        copied = 0
        effects = code.effects
        for n in (*effects.sums, *effects.thread_private, *effects.reduced, *effects.apart):
            held, place = arrays[n], places[n]
            if any(m != n and other is held for m, other in arrays.items()):
                return False
            if n in code.effects.sums:
                copied += held.storage.nbytes
                if code.params[n].dtype != held.storage.element or place.shape != held.storage.shape:  # type: ignore[attr-defined]
                    return False
        most = max(_COPIES, _COPIES_PER_THREAD * math.prod(self.dims))
        return copied * (_native.num_threads() - 1) <= most

    def _shares_elements(self, code: Code, arrays: Mapping[int, Held]) -> bool:
        """Return whether threads share elements of which the code lets no two of them touch one.

        So it is where arrays overlap, unless they are one, of which a thread touches the elements at its own index
        alone.
        """

        def may_share(n: int, m: int) -> bool:
            if m == n or arrays[m] is not arrays[n]:
                return False
            i, j = code.roles[n][1], code.roles[m][1]
            if n in code.effects.own and m in code.effects.own and self.places.get(i) == self.places.get(j):
                return False
            return i not in self.places or j not in self.places or self.overlap(i, j)

        return any(may_share(n, m) for n in code.effects.thread_private for m in arrays)

    def _must_zero(self, k: int) -> bool:
        if not self.zero_outputs:
            return False
        shape = self.storages[k].shape
        large = math.prod(shape) * size_of(self.storages[k].element) >= _LARGE
        return not (large and self.places[k] == Place(k, shape) and shape == self.dims and k in self.code().covers)

    def _is_contiguous(self, i: int) -> bool:
        place = self.places[i]
        usual = contiguous_strides(place.shape, size_of(self.element(i)))
        return place.strides is None or place.strides == usual or 0 in place.shape
