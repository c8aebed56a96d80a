"""Kernels: their options and types, the programs that they are compiled to, and what these can be asked."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, overload

from warp_like import _native, values
from warp_like.base import log
from warp_like.base.by_name import ByName
from warp_like.base.errors import WarpCodegenError
from warp_like.base.forking import Order, held_by_forks
from warp_like.base.settings import Setting, settings
from warp_like.base.weak import WeakObjects
from warp_like.compiler.artifact import Artifact
from warp_like.compiler.lookup import capture_now, compile_kernel, kernel_facts, source_key
from warp_like.compiler.signals import deferred_signals
from warp_like.compiler.signature import COMPILE_SETTINGS, Options, Signature
from warp_like.frontend.names import Captured
from warp_like.frontend.parameters import leaf_parameters, parameters
from warp_like.frontend.source import Source, annotation_names, file_lines, read
from warp_like.ir.types import Struct, Type, leaf_fields
from warp_like.runtime.kernels.captured import Watched
from warp_like.runtime.kernels.module import Module, module_for
from warp_like.runtime.kernels.options import OwnOptions
from warp_like.runtime.kernels.program import COMPILING, Program
from warp_like.runtime.memory.device import Device

if TYPE_CHECKING:
    from warp_like.backend.target import Target
    from warp_like.frontend.declaration import Declaration
    from warp_like.runtime.kernels.cuda_explanation import CudaExplanation
    from warp_like.runtime.kernels.explanation import Explanation

MANY_EDITIONS = 8
"""For how many values of what it names a kernel keeps its code in memory, beside the first ones."""

_kernels: WeakObjects[Kernel] = WeakObjects()


class Precompiled:
    """The variants of a kernel that an ahead-of-time module holds.

    Attributes:
        path: The file.
        options: What they were compiled with.
        variants: The artifacts by what their signatures say: ``contiguous``, ``wide``, ``sums``, ``wrt`` and
            ``shares_indices``.
        alone: The kernel that is declared has another source, so that nothing is compiled beside these.
    """

    def __init__(
        self,
        path: str,
        options: Options,
        variants: dict[tuple[bool, bool, bool, tuple[int, ...] | None, bool], Artifact],
    ) -> None:
        self.path = path
        self.options = options
        self.variants = variants
        self.alone = False

    def find(self, s: Signature) -> Artifact | None:
        """Return the artifact for ``s``, or one that assumes less and serves as well; None where there is none."""
        if s.options != self.options or s.tangent is not None or s.same:
            return None
        for wide in dict.fromkeys((s.wide, True)):
            for sums in dict.fromkeys((s.sums, False)):
                for contiguous in dict.fromkeys((s.contiguous, False)):
                    found = self.variants.get((contiguous, wide, sums, s.wrt, s.shares_indices))
                    if found is not None:
                        return found
        return None


class Kernel(ByName, _native.Launchable):
    """A kernel: a typed Python function that runs once for each thread of a grid. Made by ``wp.kernel``.

    Attributes:
        key: The name in messages and in its module.
        func: The Python function.
        module: The module that it belongs to.
        options: The options that it has for itself, a mapping; ``option()`` gives what holds in the end.
        launch_bounds: For CUDA, the most threads of a block and the fewest blocks of a multiprocessor (0: any).
        cpu_block_dim: On the CPU, or on CUDA if it works on tiles, the threads of a block (see ``in_blocks``).
        cpu_block_axis: The axis of the grid on which they lie where they work together; then the grid is one of blocks.
        cpu_block_rest: The threads of the last block along that axis; 0 where they are as many as in the others.
        generation: How often programs or adjoints have been forgotten: who keeps some of them looks whether it changed.
        base: The kernel that this is with other options (see ``with_options``), or None.
        generic: The generic kernel that this is an instance of, or None.
        first: The kernel of which this is another edition, or None. Code is made for the values that names in it have;
            when one has changed, ``current()`` is an edition for the new value, with code of its own.
        overloads: Of a generic kernel, the instances that ``wp.overload`` has declared, by their types.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        key: str | None = None,
        module: Module | ModuleType | str | None = None,
        options: Mapping[str, Any] | None = None,
        launch_bounds: tuple[int, int] | None = None,
    ) -> None:
        if not hasattr(func, "__name__"):
            raise TypeError(f"a kernel is made from a function, got {type(func).__name__} {func!r}")
        functools.update_wrapper(self, func)
        self.func = func
        self.key = key or func.__name__
        self.options = OwnOptions("kernel", self.key, self._options_changed)
        self.launch_bounds = launch_bounds
        self.cpu_block_dim, self.cpu_block_axis, self.cpu_block_rest = 1, -1, 0
        self.base: Kernel | None = None
        self.generic: Kernel | None = None
        self.first: Kernel | None = None
        self.overloads: dict[str, Kernel] = {}
        self.precompiled: dict[str, Precompiled] = {}  # by target: `cpu`, or a CUDA architecture
        self._lines = file_lines(func)
        self._names = annotation_names(func)
        self._programs: dict[tuple[Any, ...], Program] = {}
        self._instances: dict[tuple[Type, ...], Kernel] = {}
        self.launched: dict[tuple[Any, ...], Kernel] = {}
        self.generation = 0
        self._with_options: dict[frozenset[tuple[str, str]], Kernel] = {}
        self._captured: Watched | None = None
        self._renew = False  # whether functions that it calls have been given gradients since
        self._compiled = False
        self._editions: list[Kernel] = []
        self._latest_edition: Kernel | None = None
        self.options.update(options or {})
        self.module = module_for(module, getattr(func, "__module__", None), self.key)
        self.module.register(self)
        _kernels.add(self)

    @functools.cached_property
    def source(self) -> Source:
        """The source."""
        return read(self.func, "kernel", self._names, self._lines)

    @property
    def captured(self) -> Captured:
        """What the names in it, and in the functions that it calls, meant when it was first needed."""
        return self._watched.names

    @property
    def _watched(self) -> Watched:
        if self._captured is None:
            self._captured = Watched(capture_now(self.source))
        elif self._renew:
            self._captured = Watched(capture_now(self.source.within(self._captured.names)))
        self._renew = False
        return self._captured

    @property
    def captured_source(self) -> Source:
        """The source with what its names meant: what it is compiled from."""
        return self.source.within(self.captured)

    @property
    def hash(self) -> bytes:
        """A hash of the kernel's text and of all that it reaches, as it was captured; other code, another hash."""
        return bytes.fromhex(source_key(self.captured_source))

    @property
    def is_fixed(self) -> bool:
        """Whether its code was loaded without regard to the source here, so that no name in that counts."""
        return any(code.alone for code in self.precompiled.values())

    @property
    def watch(self) -> _native.Watch | None:
        """What launches look at, to see whether names still mean what they meant."""
        return None if self.is_fixed else self._watched.watch

    def current(self) -> Kernel:
        """Return the kernel for what the names in it mean now: itself, unless a value has changed.

        Raises:
            WarpCodegenError: The source of a function that it calls can't be found.
        """
        first = self if self.first is None else self.first
        latest = first._latest_edition or first
        if latest.is_fixed or latest._watched.is_current():
            return latest
        with COMPILING, deferred_signals():
            now = capture_now(first.source)
            known = (k for k in (first, *first._editions) if k.captured.meanings == now.meanings)
            found = next(known, None if first._compiled else first)
            if found is None:
                found = first._new_edition(now)
            found._captured = Watched(now)  # the same values may be other objects
            for dispatcher in found._dispatchers():
                dispatcher.watch = found._captured.watch
            first._latest_edition = found
            return found

    def _new_edition(self, now: Captured) -> Kernel:
        """This kernel for other values; the oldest one is forgotten where there are many."""
        if len(self._editions) == MANY_EDITIONS:
            latest = self._latest_edition or self
            log.warning(
                f"kernel `{self.key}` is compiled again and again, since {latest.captured.changed(now)} changes; "
                "pass a number that changes often to the kernel as an argument"
            )
        made = self._copy(first=self, precompiled={})
        self._editions = [*self._editions[-MANY_EDITIONS:], made]
        return made

    @functools.cached_property
    def declared(self) -> list[tuple[str, Type | None]]:
        """Name and type of each parameter as the user wrote it; None where the type is inferred at launch."""
        return parameters(self.source)

    @functools.cached_property
    def adj(self) -> Declaration:
        """Its parameters and its place, by the names that Warp has for them: ``kernel.adj.args[0].label``, ``.type``.

        Example:
            >>> [(arg.label, arg.type) for arg in square.adj.args]
            [('x', array(ndim=1, dtype=float32)), ('y', array(ndim=1, dtype=float32))]
        """
        from warp_like.frontend.declaration import Declaration
        from warp_like.runtime.arrays.array import annotation_of

        return Declaration(self.source, annotation_of)

    @functools.cached_property
    def is_generic(self) -> bool:
        """Whether the types of some parameters are inferred at launch."""
        return any(t is None for _, t in self.declared)

    def instance(self, types: tuple[Type, ...]) -> Kernel:
        """Return this generic kernel with concrete types in place of those that it leaves open."""
        found = self._instances.get(types)
        if found is None:
            found = self._copy(generic=self, overloads={}, precompiled=dict(self.precompiled))
            for derived in ("adj", "declared", "parameters", "positions", "takes_structs", "is_generic"):
                found.__dict__.pop(derived, None)
            found.source = self.source.with_types({name: t for (name, _), t in zip(self.declared, types, strict=True)})
            found = self._instances.setdefault(types, found)
        return found

    def with_options(self, options: Mapping[str, Any] | None = None, /, **more: Any) -> Kernel:
        """Return this kernel with other options, compiled apart from it; the same one each time for the same options.

        What is not given is as here, also when that changes later. ``wp.launch(options=...)`` launches such a kernel.

        Raises:
            ValueError: There is no such option, or it can't have that value.
            TypeError: An option has another type.

        Example:
            >>> wp.launch(square.with_options(fast_math=True), dim=n, inputs=[x], outputs=[y])
        """
        if self.generic is not None:
            return self.generic.with_options(options, **more).instance(tuple(t for _, t in self.declared if t))
        if not isinstance(options, (Mapping, type(None))):
            raise TypeError(f"kernel `{self.key}`: options is a dict, got {type(options).__name__}")
        given = {**(options or {}), **more}
        key = frozenset((name, repr(value)) for name, value in given.items())
        found = self._with_options.get(key)
        if found is None:
            found = self._copy(base=self)
            found.options = OwnOptions("kernel", self.key, found._options_changed)
            found.options.update(given)
            found = self._with_options.setdefault(key, found)
        return found

    def in_blocks(self, threads: int, axis: int = -1, rest: int = 0) -> Kernel:
        """Return this kernel for blocks of ``threads`` threads; itself if its code asks nothing of blocks.

        Such a kernel keeps its blocks wherever it is launched again: by a tape, a graph or a recorded launch. Where the
        threads of a block work together, they lie along ``axis`` of the grid, and the kernel that is returned is one
        for a grid of blocks, the last of which along ``axis`` has ``rest`` threads, or as many as the others.
        """
        if threads == 1 or not self.works_in_blocks:
            axis, rest = -1, 0
        wanted = threads, axis, rest
        if wanted == self._cpu_blocks or not self.asks_about_blocks:
            return self
        if self.generic is not None:
            return self.generic.in_blocks(*wanted).instance(tuple(t for _, t in self.declared if t))
        if self.cpu_block_dim > 1:
            assert self.base is not None
            return self.base.in_blocks(*wanted)
        key = frozenset({("cpu_blocks", repr(wanted))})
        found = self._with_options.get(key)
        if found is None:
            made = self._copy(base=self, cpu_block_dim=threads, cpu_block_axis=axis, cpu_block_rest=rest)
            made.options = OwnOptions("kernel", self.key, made._options_changed)
            found = self._with_options.setdefault(key, made)
        return found

    @property
    def _cpu_blocks(self) -> tuple[int, int, int]:
        return self.cpu_block_dim, self.cpu_block_axis, self.cpu_block_rest

    @property
    def asks_about_blocks(self) -> bool:
        """Whether it, or a function that it calls, names a builtin of the threads of a block or warp, or of tiles."""
        return any(True for _ in self._words_of_blocks())

    @property
    def works_in_blocks(self) -> bool:
        """Whether it may ask more of its block than how many threads it has."""
        return any(w != "block_dim" for w in self._words_of_blocks())

    @property
    def works_on_tiles(self) -> bool:
        """Whether it, or a function that it calls, names a builtin of tiles."""
        return any(word.startswith(("tile", "untile")) or word.endswith("_tiled") for word in self._words_of_blocks())

    def _words_of_blocks(self) -> Iterator[str]:
        """Iterate over the names in its code of builtins of the threads of a block or warp, or of tiles."""
        if not self.is_fixed:
            for name, text in self.captured.meanings:
                for word in (name.rpartition(".")[2], text[len("builtin ") :]):
                    of_block = word.startswith(("block_", "warp_", "shared_", "tile", "untile"))
                    if of_block or word.endswith("_tiled"):
                        yield word

    def _copy(self, **changed: Any) -> Kernel:
        """This kernel with other attributes, and with nothing compiled."""
        made: Kernel = type(self).__new__(type(self))
        fresh: dict[str, Any] = {
            "_programs": {},
            "_instances": {},
            "launched": {},
            "_with_options": {},
            "_editions": [],
        }
        fresh |= {"_captured": None, "_renew": False, "_compiled": False, "_latest_edition": None, "first": None}
        made.__dict__.update({**self.__dict__, **fresh, **changed})
        self.module.attach(made)
        _kernels.add(made)
        return made

    @functools.cached_property
    def parameters(self) -> list[tuple[str, Type | None]]:
        """Name and type of each parameter of the compiled kernel: of a struct, those of its fields."""
        return leaf_parameters(self.declared)

    @functools.cached_property
    def positions(self) -> list[int]:
        """For each of ``parameters`` the position of the argument that it is, or is a field of."""
        return [i for i, p in enumerate(self.declared) for _ in leaf_parameters([p])]

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of ``parameters`` of a kernel that leaves none open."""
        return tuple(t for _, t in self.parameters if t is not None)

    @functools.cached_property
    def takes_structs(self) -> bool:
        """Whether a parameter is a struct, so that ``parameters`` are others than ``declared``."""
        return any(isinstance(t, Struct) for _, t in self.declared)

    @property
    def parameter_names(self) -> list[str]:
        """The names of the parameters in order."""
        return [name for name, _ in self.parameters]

    def program(
        self,
        types: tuple[Type, ...],
        wrt: tuple[int, ...] | None = None,
        same: tuple[tuple[int, int], ...] = (),
        tangent: tuple[int, ...] | None = None,
        device: Device | None = None,
        alone: bool = False,
        shares_indices: bool = False,
        again: tuple[int, ...] | None = None,
        extents: int = 0,
        short_rows: bool = False,
        spares_objects: bool = False,
    ) -> Program:
        """Return the program for these argument types, or its adjoint with respect to the arrays ``wrt``.

        ``same`` lists pairs of parameters that are one array, later one first, for an adjoint. ``tangent`` lists the
        parameters, of the kernel or of the adjoint, that have tangents: the program is then one of forward mode.
        ``device`` is what it is compiled for; the CPU when left out. ``alone`` asks for the adjoint of one thread (see
        ``Program.in_order``), and ``shares_indices`` for what runs grids of more dimensions than the kernel asks for
        indices (see ``Program.over``). ``again`` lists what has tangents in a second forward mode (see ``Signature``).
        ``extents`` is how many of the grid's first extents may exceed 1; 0 leaves that open. ``short_rows`` asks for
        what runs grids of short rows, and ``spares_objects`` for an adjoint that adds to no gradients of objects.
        """
        place = None if device is None or device.is_cpu else device
        key = (types, wrt, same, tangent, place, alone, shares_indices, again, extents, short_rows, spares_objects)
        found = self._programs.get(key)
        if found is None:
            made = Program(self, types, wrt, same, tangent, device, *key[5:])
            found = self._programs.setdefault(key, made)
        return found

    def option(self, name: str) -> Any:
        """Return the value of an option: the kernel's own, else its module's, else that of ``wp.config``."""
        own = self.options.get(name) if self.options else None
        if own is not None:
            return own
        return self.module.options[name] if self.base is None else self.base.option(name)

    def compile_options(self) -> Options:
        """Return the options to compile with."""
        return Options.of(self.option, self.launch_bounds, self._cpu_blocks)

    @property
    def file(self) -> str:
        """The file that defines the kernel."""
        return self.source.file

    def artifact(self, signature: Signature, target: Target | None = None) -> Artifact:
        """Return the compiled code for ``signature``: of an ahead-of-time module, else from the cache or compiled now.

        Raises:
            WarpCodegenError: The kernel can't be compiled, or not differentiated.
        """
        code = self.precompiled.get("cpu" if target is None else target.name)
        found = code.find(signature) if code is not None else None
        if found is None and code is not None and code.alone:
            raise WarpCodegenError(
                f"kernel `{self.key}` was loaded from {code.path} without regard to its source here, and what is asked "
                "for is not in there",
                help="other options, and some adjoints, are not; compile the module again, or load it without "
                "strip_hash=True",
            )
        if found is None:
            found = compile_kernel(self.captured_source, signature, target)
        self._compiled = True
        return found

    def facts(self, signature: Signature) -> Artifact:
        """Return the artifact for ``signature`` on this machine, without code where it has not been compiled yet.

        Raises:
            WarpCodegenError: The kernel can't be compiled, or not differentiated.
        """
        return self.artifact(signature) if self.precompiled else kernel_facts(self.captured_source, signature)

    def forget_programs(self) -> None:
        """Drop what has been compiled, because options changed."""
        self.fast = self.others = None
        self.forget_adjoints()
        for dispatcher in self._dispatchers():
            dispatcher.stale = True
        self._programs.clear()

    def _options_changed(self) -> None:
        self.forget_programs()
        for kernel in (*self._instances.values(), *self._with_options.values(), *self._editions):
            kernel._options_changed()

    def forget_adjoints(self) -> None:
        """Let adjoint launches, those of recorded launches too, be checked anew."""
        self.generation += 1
        for dispatcher in self._dispatchers():
            dispatcher.forget_adjoints()

    def set_deterministic(self) -> None:
        """Let what has been compiled follow the option ``deterministic``."""
        for dispatcher in self._dispatchers():
            dispatcher.deterministic = bool(self.option("deterministic"))

    def _dispatchers(self) -> list[_native.Dispatcher]:
        return [p.dispatcher for p in list(self._programs.values()) if p.dispatcher is not None]

    def inspect(
        self,
        stage: str = "optimised",
        args: Sequence[Any] | None = None,
        target: str | None = None,
        wrt: Sequence[str] | None = None,
    ) -> str:
        """Return the text of one stage of compilation.

        Args:
            stage: ``ir`` (as the frontend built it), ``optimised`` (when all passes have run), ``lanes`` (as the CPU
                runs it, several threads at a time), ``llvm`` (before LLVM's own passes), ``asm``, ``ptx`` or
                ``sass`` (CUDA's machine code).
            args: Types or example values for the parameters; needed where annotations leave types open.
            target: ``cpu`` (this machine, the default), a CUDA architecture such as ``sm_80``, or ``opencl``.
            wrt: Show the adjoint with respect to these array parameters instead of the kernel.

        Raises:
            ValueError: An unknown stage, target or parameter.
            WarpCodegenError: The kernel can't be compiled.

        Example:
            >>> assembly = square.inspect("asm")
        """
        signature, where = self._inspected(args, wrt), _target(target)
        from warp_like.compiler import pipeline  # not loaded unless something is compiled

        return pipeline.stage_text(self.current().captured_source, signature, where, stage)

    @overload
    def explain(self, args: Sequence[Any] | None = None, *, target: None = None, wrt: None = None) -> Explanation: ...

    @overload
    def explain(
        self, args: Sequence[Any] | None = None, *, target: str, wrt: Sequence[str] | None = None
    ) -> CudaExplanation: ...

    def explain(
        self, args: Sequence[Any] | None = None, *, target: str | None = None, wrt: Sequence[str] | None = None
    ) -> Explanation | CudaExplanation:
        """Say how the kernel is compiled and run: cache key, where the code is from, time per stage, lanes and why.

        Args:
            args: Types or example values for the parameters: tell of the variant for them, compiling it where that has
                not happened. Without them: of all variants that launches have needed so far, or, where there are none
                and all types are known, of the one for contiguous arrays.
            target: A CUDA architecture such as ``sm_90``: tell of its machine code instead, which needs no GPU but
                NVIDIA's assembler and disassembler: instructions, registers, occupancy, accesses by their width, and an
                estimate of what bounds the kernel (``CudaExplanation``).
            wrt: With a target, tell of the adjoint with respect to these array parameters.

        Returns:
            A text that prints and shows in notebooks; its ``variants``, or attributes, hold the same as data.

        Raises:
            ValueError: Nothing was launched yet and annotations leave types open; an unknown target or parameter.
            WarpCodegenError: The kernel can't be compiled.
            RuntimeError: NVIDIA's tools are not on this machine.

        Example:
            >>> print(square.explain([x, y]))
            kernel `square`
            <BLANKLINE>
              forward, contiguous arrays
                arguments  x: array1d[float32], y: array1d[float32]
            ...
        """
        if target is not None:
            return self._explain_for(target, args, wrt)
        from warp_like.runtime.kernels.explanation import explain  # few programs ask

        kernels = [k.current() for k in (self, *self._instances.values())]
        programs = [p for k in kernels for p in list(k._programs.values()) if p.artifacts]
        if args is not None or not programs:
            types = self._inspected_types(args)
            program = (self.instance(types) if self.is_generic else self).current().program(types)
            if not program.artifacts:
                program.require(contiguous=True, wide=False, sums=True)
            programs = [program]
        return explain(self, programs)

    def _explain_for(self, target: str, args: Sequence[Any] | None, wrt: Sequence[str] | None) -> CudaExplanation:
        from warp_like.compiler import pipeline
        from warp_like.runtime.kernels.cuda_explanation import explain

        where = _target(target)
        if not where.arch:
            raise ValueError(
                f'explain() tells of the machine code of CUDA architectures such as "sm_90", got {target!r}'
            )
        signature = self._inspected(args, wrt)
        made, text = pipeline.assembled(self.current().captured_source, signature, where)
        block = signature.options.launch_bounds[0] if signature.options.launch_bounds else 0
        return explain(self.key, where, made, text, int(self.option("block_dim")) or min(block or 256, 256))

    def _inspected(self, args: Sequence[Any] | None, wrt: Sequence[str] | None) -> Signature:
        """The variant that most launches run, or its adjoint with respect to the array parameters ``wrt``."""
        names = self.parameter_names
        unknown = [name for name in wrt or () if name not in names]
        if unknown:
            raise ValueError(f"kernel `{self.key}` has no parameter `{unknown[0]}`; it has {', '.join(names)}")
        positions = None if wrt is None else tuple(sorted(names.index(name) for name in wrt))
        return Signature(self._inspected_types(args), wrt=positions, options=self.compile_options(), sums=True)

    def inspect_ir(self, args: Sequence[Any] | None = None) -> str:
        """Return the IR as the frontend built it."""
        return self.inspect("ir", args)

    def inspect_llvm(self, args: Sequence[Any] | None = None, target: str | None = None) -> str:
        """Return the LLVM IR."""
        return self.inspect("llvm", args, target)

    def inspect_asm(self, args: Sequence[Any] | None = None) -> str:
        """Return the machine code of this machine's processor as assembly."""
        return self.inspect("asm", args)

    def inspect_ptx(self, args: Sequence[Any] | None = None, target: str = "sm_80") -> str:
        """Return the PTX for a CUDA architecture; needs no GPU."""
        return self.inspect("ptx", args, target)

    def inspect_sass(self, args: Sequence[Any] | None = None, target: str = "sm_80") -> str:
        """Return the machine code for a CUDA architecture as text; needs no GPU, but NVIDIA's tools.

        Raises:
            RuntimeError: ``ptxas``, or both ``nvdisasm`` and ``cuobjdump``, are not on this machine.
        """
        return self.inspect("sass", args, target)

    def _inspected_types(self, args: Sequence[Any] | None) -> tuple[Type, ...]:
        from warp_like.runtime.kernels.arguments import infer_type

        given = list(args) if args is not None else [None] * len(self.parameters)
        if args is not None and len(given) != len(self.declared):
            raise ValueError(f"kernel `{self.key}` has {len(self.declared)} parameters, got {len(given)} args")
        if args is not None:
            given = [x for (_, t), arg in zip(self.declared, given, strict=True) for x in _by_fields(t, arg)]
        types = []
        for (name, declared), arg in zip(self.parameters, given, strict=True):
            if declared is None and arg is None:
                raise ValueError(f"kernel `{self.key}`: the type of `{name}` is inferred at launch; pass args=[...]")
            types.append(declared if declared is not None else _type_or_value(arg, infer_type))
        return tuple(types)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: a kernel is launched, not called."""
        raise TypeError(f"kernel `{self.key}` is not called; run it with wp.launch({self.key}, dim=..., inputs=[...])")

    def __repr__(self) -> str:
        return f"<warp_like kernel {self.key}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self.first is not None:
            return Kernel.current, (self.first,)
        if self.generic is not None:
            return Kernel.instance, (self.generic, tuple(t for _, t in self.declared if t))
        if self.base is None:
            return super().__reduce__()
        if self.cpu_block_dim != self.base.cpu_block_dim:
            return Kernel.in_blocks, (self.base, *self._cpu_blocks)
        return Kernel.with_options, (self.base, dict(self.options))


def _by_fields(t: Type | None, arg: Any) -> list[Any]:
    """An example argument; None for each field of a struct, whose types are known."""
    return [None] * len(leaf_fields(t)) if isinstance(t, Struct) else [arg]


def _type_or_value(arg: Any, infer: Callable[[Any], Type]) -> Type:
    if isinstance(arg, Type):
        return arg
    is_value = isinstance(arg, _native.Array)  # whose class stands for a generic type
    t = infer(arg) if is_value or not values.is_type(arg) else values.to_ir(arg)
    assert t is not None
    return t


def _target(text: str | None) -> Target:
    from warp_like.backend import target as targets

    if text is None or text == "cpu":
        return targets.host_target()
    if text.startswith("sm_"):
        return targets.cuda_target(text)
    if text.startswith("gfx"):
        return targets.amd_target(text)
    if text == "opencl":
        return targets.opencl_target()
    raise ValueError(
        f'there is no target {text!r}; targets are "cpu", "opencl", and architectures such as "sm_80" and "gfx942"'
    )


def forget_all_programs() -> None:
    """Let every kernel be compiled anew: any of them may call a function that has been given a gradient."""
    for k in list(_kernels):
        k.forget_programs()
        k._renew = True


def _options_changed(setting: Setting) -> None:
    if setting.name in COMPILE_SETTINGS or setting.name in ("verify_cuda", "block_dim"):
        for k in list(_kernels):
            k.forget_programs()
    elif setting.name == "enable_backward":
        for k in list(_kernels):
            k.fast = k.others = None
            k.forget_adjoints()
    elif setting.name == "deterministic":
        for k in list(_kernels):
            k.set_deterministic()
    elif setting.name == "enable_cpu_blocks":
        for k in list(_kernels):
            k.fast = k.others = None  # launches have to look at their block_dim, or need no longer
    elif setting.name == "print_launches":
        hold_fast_launches(0)


_held = 0  # captures and timings that run now, in any thread
_holding = held_by_forks(threading.Lock(), Order.BRIEF)


def hold_fast_launches(change: int) -> None:
    """Note that something begins (1) or ends (-1) that has to see every launch: none begins without Python then."""
    global _held
    with _holding:
        _held += change
        _native.hold_launches(_held > 0 or settings.print_launches)


hold_fast_launches(0)
settings.on_change(_options_changed)
