"""The files of ahead-of-time modules: how they are named, and which of them serves a device.

Each file is for one target: the CPU, or a CUDA architecture as PTX or machine code (cubin). A device runs machine code
that was made for its own compute capability or an earlier one of the same major version, and PTX of any earlier one,
which the driver compiles when it is loaded; so that is the order in which files are taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from warp_like.backend.target import Target, cuda_target
from warp_like.base.frozen import Frozen
from warp_like.runtime.memory.device import Device


class CudaFile(Frozen):
    """A file for CUDA: ``target`` says the architecture, and whether it holds machine code."""

    path: Path
    target: Target

    @property
    def kind(self) -> str:
        """``cubin`` or ``ptx``."""
        return "cubin" if self.target.assembled else "ptx"


def file_path(folder: Path, module: str, target: Target | None) -> Path:
    """Return the file of a module for a target; None stands for the CPU."""
    name = "cpu" if target is None else f"{target.name}.{'cubin' if target.assembled else 'ptx'}"
    return folder / f"wp_{module}.{name}.aot"


def arch_of(device: Device) -> int | None:
    """Return a CUDA device's architecture, 90 for compute capability 9.0; None for the CPU.

    Raises:
        ValueError: It is a device of another kind.
    """
    if not device.is_cpu and not device.arch:
        raise ValueError(f"ahead-of-time modules are for the CPU and for CUDA devices, not for {device}")
    return device.arch or None


def find_file(
    folder: Path, module: str, device: Device, arch: int | str | None = None, use_ptx: bool | None = None
) -> Path:
    """Return the file of a module that serves ``device`` best.

    Args:
        folder: Where the files are.
        module: The module's name.
        device: The device that the code is to run on.
        arch: For CUDA, take the file for this architecture.
        use_ptx: For CUDA, take PTX (True) or machine code (False); None takes either.

    Raises:
        FileNotFoundError: There is no such file, or none that the device can run.
        ValueError: ``arch`` or ``use_ptx`` is given for the CPU, or the device is neither the CPU nor CUDA's.
    """
    own = arch_of(device)
    if own is not None:
        return _cuda_file(folder, module, own, arch, use_ptx)
    if arch is not None or use_ptx is not None:
        raise ValueError("load_aot_module(): `arch` and `use_ptx` choose among files for CUDA; name a CUDA device")
    path = file_path(folder, module, None)
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}; make it with {_command(module, folder)}")
    return path


def _cuda_file(folder: Path, module: str, own: int, arch: int | str | None, use_ptx: bool | None) -> Path:
    present = list(_cuda_files(folder, module))
    usable = [f for f in present if f.target.runs_on(own)]
    if arch is not None:
        usable = [f for f in usable if f.target.name == cuda_target(str(arch)).name]
    if use_ptx is not None:
        usable = [f for f in usable if f.target.assembled != use_ptx]
    if not usable:
        asked = " and ".join([f"arch={arch!r}"] * (arch is not None) + [f"use_ptx={use_ptx}"] * (use_ptx is not None))
        raise FileNotFoundError(
            f"{folder} has no file of module `{module}` that an sm_{own} runs"
            + (f" with {asked}" if asked else "")
            + f"; there {_listed(present)}; make one with {_command(module, folder, own)}"
        )
    return max(usable, key=lambda f: (f.target.assembled, f.target.arch, f.target.name)).path


def _cuda_files(folder: Path, module: str) -> Iterator[CudaFile]:
    form = re.compile(re.escape(f"wp_{module}.") + r"(sm_\d+[af]?)\.(ptx|cubin)\.aot")
    for path in sorted(folder.glob("*.aot")):
        found = form.fullmatch(path.name)
        if found:
            yield CudaFile(path, cuda_target(found[1], assembled=found[2] == "cubin"))


def _listed(files: list[CudaFile]) -> str:
    if not files:
        return "are none for CUDA"
    return ("is " if len(files) == 1 else "are ") + ", ".join(f"{f.target.name} ({f.kind})" for f in files)


def _command(module: str, folder: Path, arch: int | None = None) -> str:
    for_arch = "" if arch is None else f", arch={arch}"
    return f"wp.compile_aot_module({module!r}{for_arch}, module_dir={str(folder)!r})"
