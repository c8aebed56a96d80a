"""The older form of ``jax_kernel``: its call says how many outputs there are, by the arguments that it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warp_like.base import log
from warp_like.interop.jaxffi.kernel import JaxKernel
from warp_like.interop.jaxffi.kernel import jax_kernel as newer
from warp_like.runtime.kernels.kernel import Kernel


def jax_kernel(kernel: Kernel, launch_dims: int | Sequence[int] | None = None, quiet: bool = False) -> OlderJaxKernel:
    """Make a kernel a function of JAX arrays, whose outputs are the parameters beyond the arguments of a call.

    ``wp.jax_kernel`` is the newer form, which has gradients, in-out arguments and outputs of other shapes as well.

    Args:
        kernel: A function decorated with ``wp.kernel``.
        launch_dims: The grid, and the shape of the outputs; as for ``wp.jax_kernel`` when left out.
        quiet: Do not log that there is a newer form.

    Example:
        >>> (y,) = jax_kernel(triple_kernel)(jnp.arange(4.0))
    """
    if not quiet:
        name = getattr(kernel, "key", kernel)
        log.info(f"kernel `{name}`: wp.jax_kernel is the newer form of this function")
    newer(kernel)
    return OlderJaxKernel(kernel, launch_dims)


class OlderJaxKernel:
    """A kernel as a function of JAX arrays, made by the older ``jax_kernel``."""

    def __init__(self, kernel: Kernel, launch_dims: Any) -> None:
        self.kernel = kernel
        self.launch_dims = launch_dims
        self._by_outputs: dict[int, JaxKernel] = {}

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        """Run the kernel and return its outputs."""
        names = self.kernel.parameter_names
        outputs = len(names) - len(args)
        if outputs < 1:
            raise ValueError(
                f"kernel `{self.kernel.key}` takes {len(names)} arguments ({', '.join(names)}), of which the last are "
                f"outputs and not given; got {len(args)}"
            )
        call = self._by_outputs.get(outputs)
        if call is None:
            call = newer(self.kernel, num_outputs=outputs, launch_dims=self.launch_dims)
            self._by_outputs[outputs] = call
        return tuple(call(*args))
