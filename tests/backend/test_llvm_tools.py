"""What LLVM keeps of a compilation that is over."""

import contextlib
import ctypes
import gc

import pytest

import warp_like as wp
from tests.long_tail import crossed
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


def test_what_the_vectorisers_make_invalid_is_compiled_without_them(monkeypatch):
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

    monkeypatch.setattr(wp.config, "cache_kernels", False)
    monkeypatch.setattr(cpu, "optimize", with_a_defect)
    x, s = wp.ones(100), wp.zeros(1)
    wp.launch(total, 1, [x, s], options={"vector_width": 1})
    assert asked == [True, False]
    assert s.list() == [150.0]
