"""Writing one LLVM module as text: registers, labels, declarations, attributes, metadata.

Text is assembled once, at the end; a module holds one entry function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warp_like.backend.llvm.lineinfo import LineInfo, quoted
from warp_like.backend.llvm.pieces import Carved, carve, has_pieces
from warp_like.backend.target import Options, Target
from warp_like.base.loc import Loc

PURE_CALL = "nounwind willreturn nosync memory(none)"
CACHE_LINE = 64
MOST_ON_STACK = 16 << 10
"""The most bytes of local arrays on the stack. A thread that launches may have a stack of 256 KiB, or less."""

_FAST = "reassoc nsz arcp contract afn "

_EXTREMES = ("llvm.minimumnum", "llvm.maximumnum")
"""Of a number and NaN they give the number, as ``llvm.minnum`` does. LLVM 21 and 22 leave out the last rounds of loops
of fewer than 16 rounds that reduce by ``minnum`` (llvm/llvm-project#209159)."""


class Writer:
    """Collects the text of a function and of what it refers to."""

    def __init__(self, target: Target, options: Options) -> None:
        self.target = target
        self.options = options
        self.run = "thread"  # what errors call a run of the function
        self.fp = _FAST if options.fast_math else "contract " if options.fuse_fp else ""
        self.array_pointer = "ptr addrspace(1)" if target.is_device else "ptr"
        self.lines: list[str] = []
        self.block = "entry"
        self.calls_vector_math = False
        self.shuffled: set[str] = set()  # registers that a shuffle has made
        self.local_scopes: list[str] = []  # the alias scopes of large local arrays
        self._allocas: list[str] = []
        self._locals: list[tuple[str, int, int]] = []  # local arrays: names, bytes, alignment
        self._declared: dict[str, str] = {}
        self._attributes: dict[str, str] = {}
        self._metadata: list[str] = []
        self._named_metadata: dict[str, str] = {}
        self._strings: dict[bytes, str] = {}
        self._tables: dict[str, str] = {}
        self._faults: dict[str, int] = {}
        self._flags: list[str] = []
        self._lists: list[str] = []
        self._line_info: LineInfo | None = None
        self._here: Callable[[], str] = str  # appended to each instruction
        self._kept: list[str] = []
        self._helpers: dict[str, str] = {}
        self._numbers: dict[object, int] = {}
        self._shared: dict[str, int] = {}  # CUDA's shared memory: names and bytes
        self._next = 0

    # --- instructions ---

    def fresh(self) -> str:
        """Return the name of a new register."""
        self._next += 1
        return f"%v{self._next}"

    def op(self, text: str) -> str:
        """Append an instruction; return its register."""
        self._next += 1
        r = f"%v{self._next}"
        self.lines.append(f"  {r} = {text}{self._here()}")
        return r

    def do(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {text}{self._here()}")

    def label(self, hint: str) -> str:
        """Return a new label."""
        self._next += 1
        return f"{hint}{self._next}"

    def start(self, label: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{label}:")
        self.block = label

    def branch(self, cond: str, then: str, orelse: str, *, likely: bool = False) -> None:
        """End the block with a conditional branch; ``likely`` says that ``cond`` is nearly always true."""
        weights = ""
        if likely:
            node = self.metadata("likely", '!{!"branch_weights", i32 1048575, i32 1}')
            weights = f", !prof {node}"
        self.do(f"br i1 {cond}, label %{then}, label %{orelse}{weights}")

    def jump(self, label: str) -> None:
        """End the block with a jump."""
        self.do(f"br label %{label}")

    def alloca(self, type: str, align: int, initial: str = "") -> str:
        """Return stack memory, reserved once a call of the function; there it has the constant ``initial``."""
        r = self.fresh()
        self._allocas += self._own_memory(r, type, align)
        if initial:
            self._allocas.append(f"  store {type} {initial}, ptr {r}, align {align}")
        return r

    def _own_memory(self, name: str, type: str, align: int) -> list[str]:
        """The instructions that reserve memory of the thread; AMD's GPUs have it in a space of addresses of its own."""
        if not self.target.is_amd:
            return [f"  {name} = alloca {type}, align {align}"]
        return [
            f"  {name}.own = alloca {type}, align {align}, addrspace(5)",
            f"  {name} = addrspacecast ptr addrspace(5) {name}.own to ptr",
        ]

    def local(self, size: int, align: int) -> str:
        """Return the address of ``size`` bytes of one thread, or vector of threads: on the stack if they are few."""
        r = self.fresh()
        self._locals.append((r, size, align))
        return r

    def shared(self, size: int) -> str:
        """Return the address of ``size`` bytes that a block of CUDA's shares."""
        name = f"@shared{len(self._shared)}"
        self._shared[name] = size
        return name

    def slots(self, size: int) -> str:
        """Return the address of memory of at least ``size`` bytes that a block uses for one thing after the other."""
        self._shared["@slots"] = max(size, self._shared.get("@slots", 0))
        return "@slots"

    def phis(self, types: Sequence[str]) -> Phis:
        """Reserve phis at the start of the current block."""
        return Phis(self, types)

    def select(self, cond: str, type: str, a: str, b: str, by: str = "i1") -> str:
        """Append a select; ``by`` is the type of ``cond``."""
        if cond in ("true", "splat (i1 true)"):
            return a
        return self.op(f"select {by} {cond}, {type} {a}, {type} {b}")

    # --- what the function refers to ---

    def declare(self, name: str, text: str) -> None:
        """Declare an external function once."""
        self._declared.setdefault(name, f"declare {text}")

    def helper(self, name: str, text: str) -> None:
        """Define an internal function once."""
        self._helpers.setdefault(name, text)

    def define(self, name: str, head: str, result: str, body: Callable[[], str]) -> None:
        """Define an internal function once: ``head`` is its line up to the brace, ``body`` appends what it returns.

        Where it has no memory of its own, its calls may be tail calls.
        """
        if name in self._helpers:
            return
        outer = self.lines, self.block, self._here, self._allocas
        self.lines, self.block, self._here, self._allocas = [], "entry", str, []
        self.do(f"ret {result} {body()}")
        lines = self.lines
        if not self._allocas:
            lines = [line.replace(" = call ", " = tail call ", 1) for line in lines]
        text = "\n".join([f"{head} {{", "entry:", *self._allocas, *lines, "}"])
        self.lines, self.block, self._here, self._allocas = outer
        self.helper(name, text)

    def number_of(self, function: object) -> int:
        """Return the number of a function that the module defines."""
        return self._numbers.setdefault(function, len(self._numbers))

    def intrinsic(self, name: str, result: str, params: Sequence[str], args: Sequence[str], flags: str = "") -> str:
        """Append the call of an LLVM intrinsic, declaring it; of what SPIR-V has instead, where it lacks that."""
        if self.target.is_opencl and name.startswith(_EXTREMES):
            letters = ("f" if result == "float" else "d") * len(params)
            name = f"_Z4{'fmin' if name.startswith(_EXTREMES[0]) else 'fmax'}{letters}"
            result = f"spir_func {result}"
        self.declare(name, f"{result} @{name}({', '.join(params)})")
        if name.startswith(_EXTREMES):
            flags += "nsz "  # either of two zeros is right, and to tell them takes x86 more instructions
        given = ", ".join(f"{t} {a}" for t, a in zip(params, args, strict=True))
        return self.op(f"call {flags}{result} @{name}({given})")

    def keep(self, symbol: str) -> None:
        """Keep the declaration of ``symbol`` although nothing calls it yet."""
        if symbol not in self._kept:
            self._kept.append(symbol)

    def attributes(self, text: str) -> str:
        """Return the number of an attribute group."""
        return self._attributes.setdefault(text, f"#{len(self._attributes)}")

    def metadata(self, name: str, text: str) -> str:
        """Return the number of the metadata node known as ``name``; ``{self}`` in ``text`` is that number."""
        got = self._named_metadata.get(name)
        if got is None:
            got = f"!{len(self._metadata)}"
            self._named_metadata[name] = got
            self._metadata.append(f"{got} = {text.replace('{self}', got)}")
        return got

    def string(self, text: str) -> str:
        """Return a pointer constant to a zero-terminated string."""
        data = text.encode() + b"\0"
        name = self._strings.setdefault(data, f"@.str{len(self._strings)}")
        return f"addrspacecast (ptr addrspace(4) {name} to ptr)" if self.target.is_cuda else name

    def table(self, text: str) -> str:
        """Return a pointer constant to constant data, defined by what follows the word ``constant``."""
        name = self._tables.setdefault(text, f"@.table{len(self._tables)}")
        return f"addrspacecast (ptr addrspace(1) {name} to ptr)" if self.target.is_device else name

    def name_metadata(self, name: str, node: str) -> None:
        """Add the module's list of one node, known to LLVM as ``name``."""
        self._lists.append(f"!{name} = !{{{node}}}")

    def flag(self, behaviour: int, name: str, value: int) -> None:
        """Add a flag of the module; ``behaviour`` says what linking makes of it, by LLVM's number."""
        self._flags.append(self.metadata(f"flag {name}", f'!{{i32 {behaviour}, !"{name}", i32 {value}}}'))

    def add_line_info(self, name: str, symbol: str, loc: Loc) -> None:
        """Say of all instructions which line they come from, in the entry ``symbol`` of a kernel defined at ``loc``."""
        self._line_info = LineInfo(self, name, symbol, loc)
        self._here = self._line_info.here

    @property
    def places(self) -> tuple[Loc, ...]:
        """On CUDA, the places in the source that columns of line information stand for."""
        return tuple(self._line_info.places) if self._line_info is not None else ()

    def fault(self, encoded: str) -> int:
        """Return the number of an error that the code can report."""
        return self._faults.setdefault(encoded, len(self._faults))

    @property
    def faults(self) -> tuple[str, ...]:
        """The errors that the code can report by number."""
        return tuple(self._faults)

    def _local_memory(self) -> list[str]:
        """The instructions that make the local arrays, all at the start of the entry."""
        total = sum(-(-size // CACHE_LINE) * CACHE_LINE for _, size, _ in self._locals)
        if self.target.is_device or total <= MOST_ON_STACK:
            return [line for r, size, align in self._locals for line in self._own_memory(r, f"[{size} x i8]", align)]
        self.declare("wl_local_memory", "noalias ptr @wl_local_memory(ptr, i64)")
        call = f"call noalias align {CACHE_LINE} ptr @wl_local_memory(ptr %ctx, i64 {total})"
        lines, at = [f"  %locals = {call} {self.attributes('nounwind')}"], 0
        for r, size, _ in self._locals:
            lines.append(f"  {r} = getelementptr inbounds i8, ptr %locals, i64 {at}")
            at += -(-size // CACHE_LINE) * CACHE_LINE
        return lines

    def _carved(self, signature: str, reserved: list[str]) -> Carved:
        """The lines of the entry, and the functions into which its marked pieces are moved, with its attributes."""
        if not has_pieces(self.lines):
            return Carved(self.lines, [])
        number = signature.rpartition(" ")[2]
        (own,) = (text for text, n in self._attributes.items() if n == number)
        return carve(self.lines, reserved, signature, self.attributes(f"noinline {own}"))

    # --- the module ---

    def module(self, name: str, signature: str) -> str:
        """Return the module's text: ``signature`` is the entry's ``define`` line up to its brace."""
        space = " addrspace(4)" if self.target.is_cuda else ""
        parts = [f'source_filename = "{name}"', f'target triple = "{self.target.triple}"']
        for data, symbol in self._strings.items():
            parts.append(f"{symbol} = private unnamed_addr{space} constant [{len(data)} x i8] c{quoted(data)}")
        space = " addrspace(1)" if self.target.is_device else ""
        parts += [f"{name} = private unnamed_addr{space} constant {text}" for text, name in self._tables.items()]
        for symbol, size in self._shared.items():
            parts.append(f"{symbol} = internal addrspace(3) global [{size} x i8] undef, align 16")
        if self._kept:
            refs = ", ".join(f"ptr @{s}" for s in self._kept)
            array = f"[{len(self._kept)} x ptr]"
            parts.append(f'@llvm.compiler.used = appending global {array} [{refs}], section "llvm.metadata"')
        local = self._local_memory()
        parts += self._declared.values()
        defined = f" !dbg {self._line_info.entry}" if self._line_info is not None else ""
        lines, pieces = self._carved(signature, [*self._allocas, *local])
        parts += [f"{signature}{defined} {{", "entry:", *self._allocas, *local, *lines, "}"]
        parts += [*pieces, *self._helpers.values()]
        parts += [f"attributes {n} = {{ {text} }}" for text, n in self._attributes.items()]
        parts += self._metadata + self._lists
        if self._flags:
            parts.append(f"!llvm.module.flags = !{{{', '.join(self._flags)}}}")
        return "\n".join(parts) + "\n"


class Phis:
    """Phi nodes of one block, filled in when their sources are known."""

    def __init__(self, w: Writer, types: Sequence[str]) -> None:
        self._w = w
        self._types = list(types)
        self._at = len(w.lines)
        self._incoming: list[list[str]] = [[] for _ in types]
        self.registers = tuple(w.fresh() for _ in types)
        w.lines.extend("" for _ in types)

    def add(self, values: Sequence[str], block: str) -> None:
        """Add the values that come from ``block``."""
        for incoming, v in zip(self._incoming, values, strict=True):
            incoming.append(f"[ {v}, %{block} ]")

    def finish(self) -> None:
        """Write the nodes; all sources are known."""
        for i, (r, t) in enumerate(zip(self.registers, self._types, strict=True)):
            self._w.lines[self._at + i] = f"  {r} = phi {t} {', '.join(self._incoming[i])}"


def aligned(nbytes: int) -> str:
    """Return the attribute of functions that may save vectors of ``nbytes`` bytes on the stack.

    Without it LLVM saves them wherever the stack stands, and a vector on two cache lines takes long to read back.
    """
    return f" alignstack={min(nbytes, CACHE_LINE)}"
