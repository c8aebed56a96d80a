"""What LLVM keeps of a compilation that is over."""

import contextlib
import ctypes
import gc
import subprocess
import sys
import threading
from typing import NamedTuple

import pytest

import warp_like as wp
from tests.long_tail import crossed
from warp_like import _native
from warp_like.backend import cpu, llvm_tools
from warp_like.backend.llvm_tools import LOCK, optimize, parsed, run_passes, simplify, tidy
from warp_like.backend.target import host_target


class Usage(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _names = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = [(name, ctypes.c_size_t) for name in _names]


def bytes_in_use():
    look = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if look is None:
        pytest.skip("the C library does not say how much memory is in use")
    look.restype = Usage
    gc.collect()
    usage = look()
    return usage.uordblks + usage.hblkhd


@wp.kernel
def scale(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * 3.0 + 1.0


def standard(llvm, module, machine):
    optimize(llvm, module, machine, vectorize=True)


def with_first(llvm, module, machine):
    optimize(llvm, module, machine, vectorize=False, first=("add_global_dead_code_eliminate_pass",))


def by_function(llvm, module, machine):
    simplify(module, machine)


def by_name(llvm, module, machine):
    run_passes(llvm, ("add_simplify_cfg_pass", "add_instruction_combine_pass"), module, machine)


@pytest.mark.parametrize("passes", crossed([tidy, standard, with_first, by_function, by_name], every=2))
def test_compilations_leave_no_memory(passes):
    text = scale.inspect("llvm")
    llvm, machine = cpu._machine(host_target())

    def build():
        with LOCK, parsed(llvm, text, machine) as module:
            passes(llvm, module, machine)
            assert machine.emit_object(module)

    for _ in range(5):
        build()
    before = bytes_in_use()
    for _ in range(40):
        build()
    assert bytes_in_use() - before < 40 * 512  # LLVM's passes alone took 7 KiB to 76 KiB for each


def test_counters_of_others_are_chosen_as_before(monkeypatch):
    @wp.kernel(module="unique")
    def sums(x: wp.array2d(dtype=float), s: wp.array(dtype=float)):
        i = wp.tid()
        total = 0.0
        for k in range(x.shape[1]):
            total += x[i, k] * x[k, i]
        s[i] = total

    def alone():
        sums.options["vector_width"] = 1
        return sums.inspect("asm")

    monkeypatch.setitem(sums.options, "vector_width", 0)
    before = alone()
    sums.options["vector_width"] = 16
    in_lanes = sums.inspect("asm")
    assert alone() == before
    monkeypatch.setattr(cpu, "without_strength_reduction", lambda llvm, machine: contextlib.nullcontext())
    sums.options["vector_width"] = 16
    if host_target().triple.startswith("x86_64"):
        assert sums.inspect("asm") != in_lanes


def test_strength_reduction_comes_back_after_an_error():
    llvm, machine = cpu._machine(host_target())
    text = scale.inspect("llvm")

    def code():
        with parsed(llvm, text, machine) as module:
            optimize(llvm, module, machine, vectorize=False, unroll=False)
            return machine.emit_assembly(module)

    with LOCK:
        before = code()
        with pytest.raises(ValueError, match="stop"), llvm_tools.without_strength_reduction(llvm, machine):
            raise ValueError("stop")
        assert code() == before


def test_code_that_llvm_has_made_invalid_is_not_used(monkeypatch):
    class Refused:
        def verify(self):
            raise RuntimeError("Instruction does not dominate all uses!")

    monkeypatch.setattr(llvm_tools, "_run", lambda passes, module, builder: None)
    llvm, machine = cpu._machine(host_target())
    with LOCK, pytest.raises(llvm_tools.InvalidCode, match="does not dominate"):
        optimize(llvm, Refused(), machine, vectorize=True)


@pytest.mark.parametrize("direct", [True, False])
def test_what_the_vectorisers_make_invalid_is_compiled_without_them(monkeypatch, direct):
    if direct and not llvm_tools.preload():
        pytest.skip("llvmlite is used through its Python files")

    asked = []

    def with_a_defect(llvm, module, machine, *, vectorize, unroll):
        asked.append(vectorize)
        if vectorize:
            raise llvm_tools.InvalidCode("Instruction does not dominate all uses!")
        optimize(llvm, module, machine, vectorize=vectorize, unroll=unroll)

    @wp.kernel(module="unique")
    def total(x: wp.array(dtype=float), s: wp.array(dtype=float)):
        for k in range(x.shape[0]):
            s[0] += x[k] * 1.5

    def object_with_a_defect(triple, cpu, features, text, level, vectorize, unroll):
        asked.append(vectorize)
        return (
            "Instruction does not dominate all uses!" if vectorize else made(triple, cpu, features, text, level, 0, 0)
        )

    made = _native.llvm_object
    monkeypatch.setattr(wp.config, "cache_kernels", False)
    monkeypatch.setattr(_native, "llvm_object", object_with_a_defect)
    monkeypatch.setattr(cpu, "optimize", with_a_defect)
    monkeypatch.setattr(cpu, "preload", lambda: direct)
    x, s = wp.ones(100), wp.zeros(1)
    wp.launch(total, 1, [x, s], options={"vector_width": 1})
    assert asked == [True, False]
    assert s.list() == [150.0]


class Text(NamedTuple):
    """LLVM IR with what decides how it is compiled, as `Lowered` has it."""

    text: str
    straight: bool = False
    in_lanes: bool = False
    loops_in_lanes: bool = False
    also_alone: bool = False
    has_lines: bool = False
    tiled: bool = False


LOOP = """
define void @sums(ptr %x, ptr %y, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %s = phi i32 [ 0, %entry ], [ %t, %loop ]
  %at = getelementptr i32, ptr %x, i64 %i
  %v = load i32, ptr %at
  %double = mul i32 %v, 2
  %t = add i32 %s, %double
  %next = add nsw i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  store i32 %t, ptr %y
  ret void
}
"""

HOWS = {
    "tidied": {"straight": True},
    "in lanes": {"in_lanes": True},
    "with lines": {"in_lanes": True, "has_lines": True},
    "alone": {},
    "loops in lanes": {"loops_in_lanes": True},
    "tiles": {"loops_in_lanes": True, "tiled": True},
    "both": {"in_lanes": True, "also_alone": True, "tiled": True},
}


@pytest.mark.skipif(not llvm_tools.preload(), reason="llvmlite is used through its Python files")
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", ["small", "long", "other processor"])
def test_objects_are_the_same_with_and_without_the_python_files(monkeypatch, how, kind):
    text = LOOP + "\n" * cpu.LARGEST_WIDENED * (kind == "long")
    target = host_target() if kind != "other processor" else host_target().replace(name="", features="")
    made = cpu.compile_object(Text(text, **HOWS[how]), target)
    monkeypatch.setattr(cpu, "preload", lambda: False)
    assert made == cpu.compile_object(Text(text, **HOWS[how]), target)


@pytest.mark.parametrize(
    "text",
    [
        "define nonsense",
        LOOP.replace("%next = add nsw i64 %i, 1", ""),
        LOOP.replace("entry:", "entry:\n  store i32 %t, ptr %y"),
    ],
)
def test_text_that_llvm_refuses_gives_its_message_both_ways(monkeypatch, text):
    messages = []
    for direct in (llvm_tools.preload(), False):
        monkeypatch.setattr(cpu, "preload", lambda direct=direct: direct)
        with pytest.raises(RuntimeError) as error:
            cpu.compile_object(Text(text), host_target())
        messages.append(str(error.value))
    assert messages[0] == messages[1] != ""


def test_an_unknown_version_of_llvmlite_is_not_called_directly():
    program = (
        "import llvmlite, numpy as np, warp_like as wp\n"
        "llvmlite.__version__ = '9.0.0'\n"
        "from warp_like.backend.llvm_tools import preload\n"
        "from warp_like.backend.target import host_target\n"
        "assert not preload()\n"
        "print(host_target().key)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == host_target().key


def test_others_can_not_call_llvm_while_an_object_is_made(monkeypatch):
    import llvmlite.binding as llvm

    ran = threading.Event()
    other = threading.Thread(target=lambda: (llvm.get_host_cpu_name(), ran.set()))

    def compiles(*args):
        other.start()
        assert not ran.wait(0.05)
        return b"made"

    monkeypatch.setattr(_native, "llvm_object", compiles)
    if llvm_tools.preload():
        assert cpu.compile_object(Text(LOOP), host_target()) == b"made"
        other.join()
