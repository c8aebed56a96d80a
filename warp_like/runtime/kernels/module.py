"""Modules: the kernels, functions and structs of one Python module, with options of their own.

A kernel belongs to the module that defines it unless ``wp.kernel(module=...)`` says otherwise. Kernels are compiled one
by one; a module is what options, loading and ahead-of-time compilation are said of.
"""

from __future__ import annotations

import itertools
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warp_like.base.hashing import digest
from warp_like.base.settings import settings
from warp_like.base.weak import WeakObjects
from warp_like.frontend.function import Function
from warp_like.runtime.kernels.options import ModuleOptions, checked_block_dim
from warp_like.runtime.memory.device import Device, get_device
from warp_like.values.classes import STRUCT_CLASSES

if TYPE_CHECKING:
    from warp_like.runtime.kernels.kernel import Kernel

_modules: dict[str, Module] = {}
_numbers = itertools.count(1)


class Module:
    """The kernels, functions and structs of a Python module. Made by ``wp.get_module``.

    Attributes:
        name: The name of the Python module, or the one given to ``wp.kernel(module=...)``.
        kernels: Its kernels by name; of several with one name the one declared last.
        functions: Its functions by name.
        options: What its kernels are compiled with; those not set here are those of ``wp.config``.

    Example:
        >>> module = wp.get_module(__name__)
        >>> module.options["fast_math"] = True
        >>> module.load("cpu")
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.kernels: dict[str, Kernel] = {}
        self.functions: dict[str, Function] = {}
        self.options = ModuleOptions(name, self._options_changed)
        self._live: WeakObjects[Kernel] = WeakObjects()
        self._replaced: WeakObjects[Kernel] = WeakObjects()  # by kernels of their name

    @property
    def structs(self) -> dict[str, type]:
        """Its structs by name."""
        return {c.__name__: c for c in STRUCT_CLASSES.values() if c.__module__ == self.name}

    def register(self, kernel: Kernel) -> None:
        """Add a kernel, in place of an earlier one of its name."""
        if (earlier := self.kernels.get(kernel.key)) is not None:
            self._replaced.add(earlier)
        self.kernels[kernel.key] = kernel
        self.attach(kernel)

    def attach(self, kernel: Kernel) -> None:
        """Let changes of the options reach a kernel, or an instance of a generic one."""
        self._live.add(kernel)

    def load(self, device: Device | str | None = None, block_dim: int | None = None) -> None:
        """Compile the kernels for contiguous arrays, so that their first launch does not have to.

        Of several kernels with one name all are compiled that the program still holds. Of generic kernels those
        instances are compiled that ``wp.overload`` has declared.

        Args:
            device: The device; the current one when left out.
            block_dim: As for ``wp.launch``; on CUDA, code for tiles is compiled when it is launched with blocks.

        Raises:
            ValueError: A block has more than 1024 threads.
            WarpCodegenError: A kernel can't be compiled; those before it stay usable.
        """
        where = get_device(device)
        threads = checked_block_dim(f"module `{self.name}`", block_dim) or 1
        for kernel in (*self.instances(), *_concrete(self._replaced)):
            together = kernel.works_in_blocks  # then their code depends on how many dimensions the grid has, too
            made = kernel.in_blocks(threads) if where.is_cpu and settings.enable_cpu_blocks and not together else kernel
            made.current().program(kernel.types, device=where).require(contiguous=True, wide=False, sums=True)

    def instances(self) -> list[Kernel]:
        """Return the kernels that have concrete types: of a generic one its declared overloads."""
        return _concrete(self.kernels.values())

    def get_module_hash(self, block_dim: int | None = None) -> bytes:
        """Return a hash of the kernels' texts, of all that these reach, and of the options, for any ``block_dim``."""
        kernels = sorted(kernel.hash.hex() for kernel in self.kernels.values())
        return bytes.fromhex(digest(*kernels, repr(sorted(self.options.items(), key=str))))

    def mark_modified(self) -> None:
        """Forget what has been compiled for its kernels."""
        self._options_changed()

    def unload(self) -> None:
        """Forget what has been compiled for its kernels; the next launch finds it in the cache on disk."""
        self._options_changed()

    def _options_changed(self) -> None:
        for kernel in list(self._live):
            kernel.forget_programs()

    def __repr__(self) -> str:
        return f"<warp_like module {self.name}>"


def _concrete(kernels: Iterable[Kernel]) -> list[Kernel]:
    found: list[Kernel] = []
    for kernel in kernels:
        found += kernel.overloads.values() if kernel.is_generic else [kernel]
    return found


def get_module(name: str) -> Module:
    """Return the module of that name; an empty one where nothing has been declared in it yet.

    Example:
        >>> wp.get_module(square.module.name) is square.module
        True
    """
    if not isinstance(name, str):
        raise TypeError(f"get_module() takes the name of a module, got {type(name).__name__}")
    found = _modules.get(name)
    if found is None:
        found = _modules[name] = Module(name)
    return found


def module_for(given: Module | types.ModuleType | str | None, defined_in: str | None, key: str) -> Module:
    """Return the module that ``wp.kernel(module=given)`` means for a kernel ``key`` of a Python module."""
    defined_in = defined_in or "__main__"
    if given is None:
        return get_module(defined_in)
    if given == "unique":
        return Module(f"{defined_in}.{key}_{next(_numbers)}")
    return named_module(given)


def named_module(given: Any) -> Module:
    """Return the module that a ``Module``, a Python module or a name stands for."""
    if isinstance(given, Module):
        return given
    if isinstance(given, types.ModuleType):
        return get_module(given.__name__)
    if isinstance(given, str):
        return get_module(given)
    raise TypeError(f"a module is given as a Python module, its name or a wp.Module, got {type(given).__name__}")


def _caller(depth: int = 2) -> str:
    """The name of the module whose code calls the public function that calls this."""
    return str(sys._getframe(depth).f_globals.get("__name__", "__main__"))


def set_module_options(options: Mapping[str, Any], module: Module | types.ModuleType | str | None = None) -> None:
    """Set options of a module: ``mode``, ``fast_math``, ``fuse_fp``, ``max_unroll``, ``enable_backward``, ...

    They hold for the module's kernels, in place of those of ``wp.config``; a kernel's own, given to ``wp.kernel``, come
    first. Kernels that have been compiled are compiled again at their next launch. None gives an option back to config.

    Args:
        options: Values by name.
        module: The module; the one that calls this when left out.

    Raises:
        ValueError: There is no such option, or it can't have that value.
        TypeError: A value has another type.

    Example:
        >>> wp.set_module_options({"fast_math": True})
    """
    target = get_module(_caller()) if module is None else named_module(module)
    for name, value in options.items():
        target.options[name] = value


def get_module_options(module: Module | types.ModuleType | str | None = None) -> ModuleOptions:
    """Return the options of a module, of the one that calls this when left out; changing them takes effect.

    Example:
        >>> wp.get_module_options(square.module)["max_unroll"]
        16
    """
    return (get_module(_caller()) if module is None else named_module(module)).options


def load_module(
    module: Module | types.ModuleType | str | None = None,
    device: Device | str | Sequence[Device | str] | None = None,
    recursive: bool = False,
    block_dim: int | None = None,
    max_workers: int | None = None,
) -> None:
    """Compile the kernels of a module now rather than at their first launch.

    Args:
        module: A module, its name, or a Python module; the one that calls this when left out.
        device: A device or several; the current one when left out.
        recursive: Load the modules inside it as well: for ``sim``, also ``sim.contact``.
        block_dim: As for ``wp.launch``; on CUDA, code for tiles is compiled when it is launched with blocks.
        max_workers: Taken for Warp's programs: kernels are compiled one after the other.

    Raises:
        RuntimeError: Nothing has been declared in the module.
        WarpCodegenError: A kernel can't be compiled.

    Example:
        >>> wp.load_module(square.module)
    """
    target = get_module(_caller()) if module is None else named_module(module)
    found = [target]
    if recursive:
        found += [m for name, m in _modules.items() if name.startswith(f"{target.name}.")]
    found = [m for m in found if m.kernels or m.functions or m.structs]
    if not found:
        raise RuntimeError(
            f"module `{target.name}` declares no kernels, functions or structs; import it before it is loaded"
        )
    force_load(device, found, block_dim)


def force_load(
    device: Device | str | Sequence[Device | str] | None = None,
    modules: Iterable[Module] | None = None,
    block_dim: int | None = None,
    max_workers: int | None = None,
) -> None:
    """Compile the kernels of modules now; of all modules when left out.

    ``block_dim`` is as for ``wp.launch``; on CUDA, code for tiles is compiled when it is launched with blocks.
    ``max_workers`` is taken for Warp's programs: kernels are compiled one after the other.

    Raises:
        WarpCodegenError: A kernel can't be compiled.
    """
    devices: list[Any] = list(device) if isinstance(device, (list, tuple)) else [device]
    for where in devices:
        for module in list(_modules.values()) if modules is None else modules:
            module.load(where, block_dim)
