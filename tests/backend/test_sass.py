"""Machine code of a GPU as the disassembler shows it."""

from __future__ import annotations

import pytest

from warp_like.backend.sass import parse

TEXT = """
        .target sm_90
        .section        .text.wl_k,"ax",@progbits
wl_k:
.text.wl_k:
        //## File "/a/b.py", line 7
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   IMAD.WIDE.U32 R2, R0, 0x10, R4 ;
        /*0020*/                   LDG.E.128.CONSTANT R8, desc[UR4][R2.64] ;
        //## File "/a/b.py", line 9
.L_x_0:
        /*0030*/                   LDG.E R6, desc[UR4][R12.64] ;
        /*0040*/                   FFMA R9, R8, R6, R9 ;
        /*0050*/                   IADD3 R12, R12, 0x4, RZ ;
        /*0060*/               @P0 BRA `(.L_x_0) ;
        /*0070*/                   MUFU.RSQ R9, R9 ;
        /*0080*/                   STG.E.U8 desc[UR4][R2.64], R9 ;
.L_x_2:
        /*0090*/                   EXIT ;
.L_x_1:
        /*00a0*/                   BRA `(.L_x_1);
        /*00b0*/                   NOP;
        /*00c0*/                   NOP;
.L_x_3:
"""


def test_instructions() -> None:
    code = parse(TEXT).code
    assert [i.name for i in code] == ["S2R", "IMAD", "LDG", "LDG", "FFMA", "IADD3", "BRA", "MUFU", "STG", "EXIT"]
    assert [(i.bits, i.line) for i in code if i.kind == "global memory"] == [(128, 7), (32, 9), (8, 9)]
    assert [code[k].registers for k in (1, 4, 8)] == [([2], [0, 4]), ([9], [8, 6, 9]), ([], [2, 9])]
    assert [code[k].kind for k in (0, 1, 4, 6, 7)] == ["integer", "multiplication", "float32", "control", "special"]


def test_loops_and_what_a_warp_shares() -> None:
    code = parse(TEXT)
    (loop,) = code.loops()
    assert (len(loop.code), loop.line) == (4, 9)
    assert code.uniform_accesses() == {0x30}
    shared = TEXT.replace("IADD3 R12, R12, 0x4", "IADD3 R12, R12, R0")
    assert not parse(shared).uniform_accesses()  # from the second round on, lanes differ


def test_what_is_no_code() -> None:
    with pytest.raises(ValueError, match="shows no code"):
        parse("nothing")


def test_a_register_beside_a_wide_load_keeps_what_it_has() -> None:
    text = """.text.k:
        /*0000*/ S2R R7, SR_TID.X ;
        /*0010*/ LDC.64 R4, c[0x0][0x210] ;
        /*0020*/ IMAD.WIDE R2, R7, 0x4, R4 ;
        /*0030*/ LDG.E R0, desc[UR4][R2.64] ;
        /*0040*/ LDG.E R1, desc[UR4][R4.64] ;
        /*0050*/ EXIT ;
"""
    assert parse(text).uniform_accesses() == {0x40}
