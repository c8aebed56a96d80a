"""Ahead-of-time modules: files of compiled kernels, which launch without their source and without a compiler.

A file is a zip archive: ``module.json`` says what is in it, and each variant of a kernel is an artifact of its own. A
variant for strided arrays serves contiguous ones too, one with atomics also those that need none, and one for wide
grids narrow ones, so that a few serve every launch.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from warp_like.backend.target import Target, cuda_target, nearest_architecture
from warp_like.base import log
from warp_like.base.contract import MAX_DIMS
from warp_like.base.errors import WarpCodegenError
from warp_like.base.version import VERSION
from warp_like.compiler import cache
from warp_like.compiler.artifact import Artifact, Damaged
from warp_like.compiler.host import host_key
from warp_like.compiler.lookup import compile_kernel, source_key
from warp_like.compiler.signature import COMPILE_SETTINGS, Options, Signature
from warp_like.frontend.parameters import leaf_parameters
from warp_like.ir.types import Array, Type, is_differentiable
from warp_like.runtime.kernels.aot_files import arch_of, file_path, find_file
from warp_like.runtime.kernels.kernel import Kernel, Precompiled
from warp_like.runtime.kernels.module import Module, named_module
from warp_like.runtime.kernels.typetext import type_from_json, type_to_json
from warp_like.runtime.memory.device import Device, get_device

_MANIFEST = "module.json"
_FORMAT = 2
MAX_SUBSETS_OF = 3
"""Adjoints are compiled for every choice of up to this many arrays; of more, for all of them together."""


# --- compiling ---


def compile_aot_module(
    module: Module | ModuleType | str,
    device: Device | str | Sequence[Device | str] | None = None,
    arch: int | str | Iterable[int | str] | None = None,
    module_dir: str | os.PathLike[str] | None = None,
    use_ptx: bool | None = None,
    strip_hash: bool | None = None,
) -> list[Path]:
    """Compile the kernels of a module into files that ``wp.load_aot_module`` loads.

    Each file serves every launch on its target: arrays with and without strides, small and large grids, and adjoint
    launches where the kernel has ``enable_backward`` and can be differentiated. Of generic kernels the overloads are
    compiled that ``wp.overload`` has declared. CUDA needs no GPU for this.

    Args:
        module: A module, its name, or a Python module.
        device: ``"cpu"``, which is this machine's processor, or a device or several; the current one when neither this
            nor ``arch`` is given.
        arch: CUDA architectures to compile for, such as ``80`` or ``"sm_90"``.
        module_dir: The folder for the files, made if it is not there; ``aot`` in the cache's folder when left out.
        use_ptx: For CUDA: PTX, which the driver finishes for its GPU, or else machine code for the architecture, for
            which ``ptxas`` is needed. PTX when left out.
        strip_hash: Taken for Warp's programs: names of files never hold a hash.

    Returns:
        The files, one for each target.

    Raises:
        RuntimeError: The module has no kernels, there is no ptxas, or no folder was given and there is no home folder.
        ValueError: An architecture is no architecture.
        WarpCodegenError: A kernel can't be compiled.

    Example:
        >>> wp.launch(square, dim=n, inputs=[x], outputs=[y])  # so that its arguments' types are known
        >>> files = wp.compile_aot_module(square.module, device="cpu", module_dir="build")
    """
    target_module = named_module(module)
    kernels = [kernel.current() for kernel in target_module.instances()]
    if not kernels:
        raise RuntimeError(
            f"module `{target_module.name}` has no kernels to compile; import it first, and declare the overloads of "
            "generic kernels"
        )
    for kernel in target_module.kernels.values():
        if kernel.is_generic and not kernel.overloads:
            log.warning(f"the ahead-of-time module leaves out generic kernel `{kernel.key}`: it has no wp.overload")
    folder = Path(module_dir) if module_dir is not None else _default_folder()
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for target in _targets(device, arch, use_ptx is False):
        path = file_path(folder, target_module.name, target)
        _write(path, target_module, kernels, target)
        paths.append(path)
    return paths


def _default_folder() -> Path:
    folder = cache.directory()
    if folder is None:
        raise RuntimeError("there is no folder for ahead-of-time modules: you have no home folder; give `module_dir`")
    return folder / "aot"


def _targets(device: Any, arch: Any, assembled: bool) -> list[Target | None]:
    """The targets; None stands for this machine's processor."""
    found: list[Target | None] = []
    if device is not None or arch is None:
        for d in device if isinstance(device, (list, tuple)) else [device]:
            if arch is not None and not (isinstance(d, Device) and d.is_cpu) and d != "cpu":
                continue  # the architectures say it
            own = arch_of(get_device(d))
            found.append(None if own is None else cuda_target(str(nearest_architecture(own)), assembled=assembled))
    if arch is not None:
        listed = [arch] if isinstance(arch, (int, str)) else list(arch)
        found += [cuda_target(str(a), assembled=assembled) for a in listed]
    return list(dict.fromkeys(found))


def _write(path: Path, module: Module, kernels: Sequence[Kernel], target: Target | None) -> None:
    name = "cpu" if target is None else target.name
    manifest: dict[str, Any] = {"format": _FORMAT, "version": VERSION, "module": module.name, "target": name}
    if target is None:
        manifest["host"] = host_key()
    artifacts: dict[str, Artifact] = {}
    manifest["kernels"] = [_kernel_facts(k, kernel, target, artifacts) for k, kernel in enumerate(kernels)]
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with zipfile.ZipFile(temporary, "w") as archive:
        archive.writestr(_MANIFEST, json.dumps(manifest, indent=1))
        for file, artifact in artifacts.items():
            archive.writestr(file, artifact.to_bytes(sealed_name(manifest, file)))
    temporary.replace(path)


def sealed_name(manifest: Mapping[str, Any], file: str) -> str:
    """Return the name that a variant's checksum covers: with it, files of two modules or targets can't be exchanged."""
    return f"{manifest['module']} {manifest['target']} {file}"


def _kernel_facts(k: int, kernel: Kernel, target: Target | None, files: dict[str, Artifact]) -> dict[str, Any]:
    """Return what the manifest says of a kernel; its variants are added to ``files``."""
    no_gradient = ""
    found = list(_variants(kernel, target))
    if kernel.option("enable_backward"):
        try:
            found += list(_adjoint_variants(kernel, found[0][1], target))
        except WarpCodegenError as e:  # as in a launch, this matters to those who ask for the gradient
            no_gradient = str(e)
            log.warning(f"the ahead-of-time module leaves out the adjoint of kernel `{kernel.key}`: {e.reason}")
    variants = []
    for v, (signature, artifact) in enumerate(found):
        name = f"{k}_{kernel.key}_{v}.kernel"
        files[name] = artifact
        variants.append({"file": name, **_variant_facts(signature)})
    return {
        "key": kernel.key,
        "params": [[name, type_to_json(t)] for name, t in kernel.declared if t is not None],
        "overload": kernel.generic is not None,
        "file": kernel.file,
        "source": source_key(kernel.captured_source),
        "options": list(kernel.compile_options().as_tuple()),
        "enable_backward": kernel.option("enable_backward"),
        "no_gradient": no_gradient,
        "variants": variants,
    }


def _variant_facts(s: Signature) -> dict[str, Any]:
    wrt = None if s.wrt is None else list(s.wrt)
    return {
        "contiguous": s.contiguous, "wide": s.wide, "sums": s.sums, "wrt": wrt, "shares_indices": s.shares_indices,
    }  # fmt: skip


def _variants(kernel: Kernel, target: Target | None) -> Iterator[tuple[Signature, Artifact]]:
    """The variants of a kernel that serve all launches: the fastest first, then those that take more."""
    first = Signature(kernel.types, options=kernel.compile_options(), sums=True)
    yield from _compiled(kernel, target, first, first.replace(sums=False), first.replace(contiguous=False, sums=False))
    general = first.replace(contiguous=False, wide=True, sums=False)
    ((_, artifact),) = found = list(_compiled(kernel, target, general))
    yield from found
    if artifact.schedule.tid_ndim < MAX_DIMS:
        yield from _compiled(kernel, target, general.replace(shares_indices=True))


def _adjoint_variants(kernel: Kernel, forward: Artifact, target: Target | None) -> Iterator[tuple[Signature, Artifact]]:
    for wrt in _adjoints(kernel.types, forward):
        signature = Signature(kernel.types, contiguous=False, wrt=wrt, options=kernel.compile_options())
        yield from _compiled(kernel, target, signature, signature.replace(contiguous=True, sums=True))


def _compiled(kernel: Kernel, target: Target | None, *signatures: Signature) -> Iterator[tuple[Signature, Artifact]]:
    for signature in signatures:
        yield signature, compile_kernel(kernel.captured_source, signature, target)


def _adjoints(types: Sequence[Type], forward: Artifact) -> list[tuple[int, ...]]:
    """The choices of arrays that adjoints are compiled for: those through which a gradient passes."""
    arrays = [i for i, t in enumerate(types) if isinstance(t, Array) and is_differentiable(t)]
    choices: list[tuple[int, ...]] = [tuple(arrays)]
    if len(arrays) <= MAX_SUBSETS_OF:
        choices = [c for n in range(len(arrays), 0, -1) for c in itertools.combinations(arrays, n)]
    return [c for c in choices if set(c) & set(forward.effects.writes) and set(c) & set(forward.effects.reads)]


# --- loading ---


def load_aot_module(
    module: Module | ModuleType | str,
    device: Device | str | Sequence[Device | str] | None = None,
    arch: int | str | None = None,
    module_dir: str | os.PathLike[str] | None = None,
    use_ptx: bool | None = None,
    strip_hash: bool | None = None,
) -> Module:
    """Load what ``wp.compile_aot_module`` has compiled.

    Kernels that are declared in the module use the compiled code in place of compiling; those that are not become
    kernels of the module, which launch without any source: ``wp.get_module(name).kernels["step"]``.

    Args:
        module: A module, its name, or a Python module; it need not be imported.
        device: The device to load for, or several; the current one when left out. For CUDA the file is taken that
            serves the device best: machine code for its architecture or an earlier one of its major version, else the
            newest PTX that it runs.
        arch: For CUDA, the architecture whose file is taken.
        module_dir: The folder of the files; ``aot`` in the cache's folder when left out.
        use_ptx: For CUDA, take PTX (True) or machine code (False).
        strip_hash: Take the code whatever the source of the kernels that are declared here, as long as their
            parameters are the same: their bodies may be ``pass``. The module's option when left out, which is False.

    Returns:
        The module.

    Raises:
        FileNotFoundError: There is no file for this module that the device can run.
        RuntimeError: The file is damaged, of another version or for another processor, or a kernel that is declared
            here has changed since, with ``strip_hash`` its parameters.

    Example:
        >>> files = wp.compile_aot_module(square.module, device="cpu", module_dir="build")
        >>> loaded = wp.load_aot_module(square.module, device="cpu", module_dir="build")
        >>> wp.launch(loaded.kernels["square"], dim=n, inputs=[x], outputs=[y])
    """
    target_module = named_module(module)
    stripped = target_module.options["strip_hash"] if strip_hash is None else strip_hash
    folder = Path(module_dir) if module_dir is not None else _default_folder()
    devices: list[Any] = list(device) if isinstance(device, (list, tuple)) else [device]
    for where in map(get_device, devices):
        path = find_file(folder, target_module.name, where, arch, use_ptx)
        own = arch_of(where)
        key = "cpu" if own is None else f"sm_{nearest_architecture(own)}"
        manifest, files = _contents(path)
        try:
            _load(path, files, manifest, target_module, key, stripped)
        except (KeyError, ValueError, Damaged) as e:
            raise _unreadable(path, e) from e
    return target_module


def _contents(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the manifest of a file, and its variants by name."""
    data = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise zipfile.BadZipFile("it has compressed entries")
            files = {name: archive.read(name) for name in archive.namelist()}
        return json.loads(files.pop(_MANIFEST)), files
    except (zipfile.BadZipFile, EOFError, KeyError, RuntimeError, ValueError) as e:
        # zipfile also raises RuntimeError: for features of archives that it does not know, and for passwords.
        raise _unreadable(path, e) from e


def _unreadable(path: Path, why: Exception) -> RuntimeError:
    return RuntimeError(f"{path} is no ahead-of-time module, or damaged: {why or type(why).__name__}")


def _load(
    path: Path, files: Mapping[str, bytes], manifest: dict[str, Any], module: Module, target: str, stripped: bool
) -> None:
    """Give the kernels of ``module`` what is in a file, for launches on ``target``."""
    if manifest["format"] != _FORMAT or manifest["version"] != VERSION:
        raise RuntimeError(
            f"{path} was made by warp_like {manifest['version']}, and this is {VERSION}; compile it again"
        )
    if manifest["module"] != module.name or not path.name.startswith(f"wp_{module.name}.{manifest['target']}."):
        raise RuntimeError(
            f"{path} holds module `{manifest['module']}` for {manifest['target']}, as its name does not say"
        )
    if target == "cpu":
        _require_host(path, manifest["host"])
    loaded = []
    for facts in manifest["kernels"]:
        variants = {}
        for v in facts["variants"]:
            wrt = None if v["wrt"] is None else tuple(v["wrt"])
            which = v["contiguous"], v["wide"], v["sums"], wrt, v["shares_indices"]
            variants[which] = Artifact.from_bytes(files[v["file"]], sealed_name(manifest, v["file"]))
        values: Any = [tuple(x) if isinstance(x, list) else x for x in facts["options"]]
        options = Options(*values)
        loaded.append((facts, Precompiled(str(path), options, variants)))
    for facts, code in loaded:
        _attach(module, facts, code, target, stripped)


def _require_host(path: Path, made_for: str) -> None:
    """Raise unless this processor has all that the code was compiled for."""
    here = host_key()
    if made_for == here:
        return
    kind, name, features, triple, _ = made_for.split("|")
    _, own_name, own_features, own_triple, _ = here.split("|")
    missing = {f for f in features.split(",") if f.startswith("+")} - set(own_features.split(","))
    if triple != own_triple or missing:
        lacks = f" lacks {', '.join(sorted(f[1:] for f in missing))}" if missing else " is of another kind"
        raise RuntimeError(f"{path} was compiled for {kind} {name}, and this processor, {own_name},{lacks}")


def _attach(module: Module, facts: dict[str, Any], code: Precompiled, target: str, stripped: bool) -> None:
    """Give a kernel that is declared its compiled code, or make one."""
    key = facts["key"]
    declared = [(name, type_from_json(t)) for name, t in facts["params"]]
    types = tuple(t for _, t in declared)
    kernel = module.kernels.get(key)
    if kernel is not None and kernel.is_generic:
        kernel = kernel.instance(types)
    if kernel is None or isinstance(kernel, LoadedKernel):
        name = f"{key}[{', '.join(map(str, types))}]" if facts["overload"] else key
        loaded = module.kernels.get(name)
        if not (isinstance(loaded, LoadedKernel) and loaded.comes_from(facts)):
            loaded = LoadedKernel(name, module, declared, facts)
            module.register(loaded)
        loaded.forget_programs()
        loaded.precompiled[target] = code
        return
    edition = kernel.current()
    code.alone = source_key(edition.captured_source) != facts["source"]
    if kernel.declared != declared or (code.alone and not stripped):
        raise RuntimeError(f"kernel `{key}` has changed since {code.path} was compiled; compile it again")
    for k in (edition, kernel) if code.alone else (edition,):
        k.forget_programs()
        k.precompiled[target] = code
    if code.alone and kernel.generic is not None:  # nor do its other instances have a source
        others = kernel.generic.precompiled[target] = Precompiled(code.path, code.options, {})
        others.alone = True


class LoadedKernel(Kernel):
    """A kernel of an ahead-of-time module whose source is not here.

    Args:
        key: Its name in the module.
        module: The module.
        declared: Its parameters.
        facts: What the file says of it.
    """

    def __init__(self, key: str, module: Module, declared: list[tuple[str, Type]], facts: dict[str, Any]) -> None:
        def stub() -> None:
            raise TypeError(f"kernel `{key}` was loaded without its source")

        stub.__name__, stub.__qualname__, stub.__module__ = key, key, module.name
        super().__init__(stub, key, module, {"enable_backward": facts["enable_backward"]})
        self.declared = list(declared)
        self.parameters = leaf_parameters(declared)
        self.is_generic = False
        self._facts = facts

    def comes_from(self, facts: dict[str, Any]) -> bool:
        """Return whether a file, for another target maybe, says the same of its kernel."""
        what = ("source", "params", "options", "enable_backward")
        return all(self._facts[name] == facts[name] for name in what)

    @property
    def is_fixed(self) -> bool:
        """True: there is no source, so nothing that a name in it could mean."""
        return True

    def with_options(self, options: Mapping[str, Any] | None = None, /, **more: Any) -> Kernel:
        """Return this kernel with other options that do not change its code.

        Raises:
            ValueError: An option would change the code.
        """
        changing = COMPILE_SETTINGS & {*(options or ()), *more}
        if changing:
            raise ValueError(
                f"kernel `{self.key}` was loaded with its code, and option `{min(changing)}` means other code; set it "
                "where the module is compiled"
            )
        return super().with_options(options, **more)

    def compile_options(self) -> Options:
        """Return the options that it was compiled with."""
        return next(iter(self.precompiled.values())).options

    @property
    def file(self) -> str:
        """The file that the kernel was defined in where it was compiled."""
        return str(self._facts["file"])

    @property
    def source(self) -> Any:
        """Raise: it is not here.

        Raises:
            WarpCodegenError: Always.
        """
        made = " and ".join(dict.fromkeys(code.path for code in self.precompiled.values()))
        refused = self._facts["no_gradient"]
        raise WarpCodegenError(
            f"kernel `{self.key}` was loaded from {made} without its source, and what is asked for is not in there",
            help=f"its gradient was refused when it was compiled: {refused}"
            if refused
            else "adjoints are there for all arrays at once, and for any of three or fewer; import the module for more",
        )


__all__ = ["LoadedKernel", "compile_aot_module", "load_aot_module"]
