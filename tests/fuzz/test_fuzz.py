"""Programs of fixed seeds, each compared with plain Python; ``make fuzz`` runs as many as there is time for."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontend.support import define
from tests.fuzz import checking, report
from tests.fuzz.checking import Finding, check
from tests.fuzz.kinds import CHECKS, GENERATORS, KNOWN, WRONG, check_named, generated
from tests.fuzz.program import Program
from tests.fuzz.scalars import InvalidProgram
from tests.fuzz.shrink import shrunk
from tests.fuzz.worker import Worker, emulation
from tests.long_tail import tail

PROGRAMS = {
    "control": 60,
    "numbers": 24,
    "edges": 48,
    "sums": 48,
    "threads": 24,
    "rows": 12,
    "parts": 9,
    "gradients": 6,
    "vectors": 12,
    "views": 18,
    "crowds": 6,
    "maps": 6,
    "indexed": 3,
    "nested": 3,
    "generics": 3,
    "natives": 2,
    "hessians": 1,
    "tiles": 24,
    "tile_gradients": 1,
    "tile_blocks": 1,
}
BLOCK = 2
"""How many programs one test runs."""


def blocks(kind: str) -> list[Any]:
    """The first seed of each block of a kind: the suite runs a twelfth of the blocks, the long tail the others."""
    firsts = range(0, PROGRAMS[kind], BLOCK)
    few = (len(firsts) + 11) // 12
    return [*((kind, first) for first in firsts[:few]), *(tail(kind, first) for first in firsts[few:])]


SMALL = Program(
    kind="control",
    seed=7,
    source="""\
@wp.func
def more(x: int):
    return x + 1


@wp.kernel
def k(a: wp.array(dtype=int), b: wp.array(dtype=int), c: int):
    i = wp.tid()
    b[i] = i
    if i >= 0:
        for j in range(2):
            a[i] = more(a[i] * c) - 1000
""",
    setup="a, b = np.ones((2, 9), 'int32')\nmemory = [a, b]\nargs = [a, b, 3 + turn]\n",
    grids=((1,), (9,)),
    settings=({}, {"vector_width": 4}),
)


@pytest.fixture(scope="module", autouse=True)
def _emulated(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.config.getoption("--device") != "cpu":
        yield
        return
    with emulation():
        yield


def few(settings: tuple[dict[str, Any], ...], seed: int) -> tuple[dict[str, Any], ...]:
    """The default settings and one of the others."""
    return settings[0], settings[1 + seed % (len(settings) - 1)]


@pytest.mark.parametrize("kind, first", [block for kind in PROGRAMS for block in blocks(kind)])
def test_programs(kind: str, first: int, request: pytest.FixtureRequest) -> None:
    told = 0
    for seed in range(first, min(first + BLOCK, PROGRAMS[kind])):
        program = generated(kind, seed)
        program = dataclasses.replace(program, settings=few(program.settings, seed))
        if request.config.getoption("--device") != "cpu":  # which takes the place of the emulation
            program = dataclasses.replace(program, settings=tuple(s for s in program.settings if "device" not in s))
        try:
            found = check(program)
        except InvalidProgram:
            continue
        assert found is None, f"{found}\n{program.source}\n{program.setup}"
        told += 1
    assert told > 0


@pytest.mark.parametrize("kind", CHECKS)
def test_checks(kind: str) -> None:
    check_named(kind)(1)


def test_generators_are_sure_of_what_they_write() -> None:
    for make in GENERATORS.values():
        assert make(11, frozenset(KNOWN)) == make(11, frozenset(KNOWN))
    assert set(KNOWN) >= WRONG
    assert PROGRAMS.keys() == GENERATORS.keys()


def miscompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``more`` add 2 where it is compiled."""
    wrong = lambda source, **more: define(source.replace("x + 1", "x + 2"), **more)  # noqa: E731
    monkeypatch.setattr(checking, "define", wrong)


def answer(program: Program) -> Finding | str | None:
    try:
        return check(program)
    except InvalidProgram as e:
        return f"invalid: {e}"


def test_a_wrong_result_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert check(SMALL) is None
    miscompiled(monkeypatch)
    found = check(SMALL)
    assert found is not None
    assert (found.kind, found.setting, found.turn) == ("wrong", {}, 0)
    program, found = shrunk(SMALL, found, answer, 60.0)
    assert program.grids == ((1,),)
    assert "for" not in program.source
    assert "if" not in program.source
    assert "b" not in program.source.split("def k")[1]
    path = report.write(tmp_path, program, found)
    monkeypatch.undo()
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr  # the compiler is right, after all
    path.write_text(path.read_text().replace("x + 1", "x + 2"))
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "expected" in done.stdout


def test_a_wrong_derivative_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "@wp.kernel\ndef k(x: wp.array(dtype=wp.float64)):\n    i = wp.tid()\n    x[i] = wp.sin(x[i]) * x[i]\n"
    setup = "x = np.linspace(0.1, 1.0, 5)\nmemory = [x]\nargs = [x]\n"
    program = Program("gradients", 3, source, setup, ((5,),), gradients=(0,))
    assert check(program) is None
    slopes = checking.derivatives.tangents
    monkeypatch.setattr(checking.derivatives, "tangents", lambda *args: [t * (1 + 1e-4) for t in slopes(*args)])
    found = check(program)
    assert found is not None
    assert found.kind == "wrong reverse derivative"


def test_workers_outlive_their_programs() -> None:
    worker = Worker(limit=60.0)
    try:
        assert worker(SMALL) is None
        dead = worker(dataclasses.replace(SMALL, setup="import os; os.abort()"))
        assert isinstance(dead, Finding)
        assert dead.kind == "crashes with -6"
        worker.limit = 2.0
        endless = worker(dataclasses.replace(SMALL, setup="while True: pass"))
        assert isinstance(endless, Finding)
        assert endless.kind == "hangs"
    finally:
        worker.close()


RACES = {
    "a[0] = i": "two threads write",
    "a[i] = a[i + 1]": "a (read|write) of what another thread",
    "a[0] += a[1]\n    a[1] += 1": "an atomic beside a read|a read of what another thread writes",
    "wp.atomic_add(a, 0, 1)\n    wp.atomic_max(a, 0, 1)": "do not commute",
    "a[i] = wp.atomic_add(a, 20, 1)": "do not commute",
    "a[i + 60] = 1": "index",
    "a[i] = a[i - 1]": "negative",
    "while i >= 0:\n        a[i] = 1": "too many iterations",
}


@pytest.mark.parametrize("body", RACES)
def test_what_hangs_on_the_order_of_threads_is_no_test(body: str) -> None:
    source = f"@wp.kernel\ndef k(a: wp.array(dtype=int)):\n    i = wp.tid()\n    {body}\n"
    program = Program("sums", 0, source, "a = np.zeros(32, 'int32')\nmemory = [a]\nargs = [a]\n", ((9,),))
    with pytest.raises(InvalidProgram, match=RACES[body]):
        program.expected(0)


VALUES: list[tuple[str, Any]] = [
    ("wp.int8(127) + wp.int8(1)", np.int8(-128)),
    ("wp.int32(-7) / 2", np.int32(-3)),
    ("wp.int32(-7) // 2", np.int32(-4)),
    ("wp.int32(-7) % 2", np.int32(-1)),
    ("wp.uint8(5) // wp.uint8(0)", np.uint8(0)),
    ("wp.int64(-9223372036854775807 - 1) / wp.int64(-1)", np.int64(-(2**63))),
    ("wp.int16(1) << wp.int16(17)", np.int16(2)),
    ("wp.int32(wp.float64(1e30))", np.int32(2**31 - 1)),
    ("wp.int32(wp.nan)", np.int32(0)),
    ("wp.max(wp.nan, wp.float32(2.0))", np.float32(2.0)),
    ("wp.float16(wp.bfloat16(wp.float32(1.00390625)))", np.float16(1.0)),
    ("wp.vec2i(1, 2)[-1]", np.int32(2)),
]


@pytest.mark.parametrize("text, wanted", VALUES)
def test_the_oracle_computes_as_the_documentation_says(text: str, wanted: Any) -> None:
    source = f"@wp.kernel\ndef k(a: wp.array(dtype=wp.{wanted.dtype})):\n    a[0] = {text}\n"
    setup = f"a = np.full(1, 9, '{wanted.dtype}')\nmemory = [a]\nargs = [a]\n"
    program = Program("numbers", 0, source, setup, ((1,),))
    assert program.expected(0)[0][0][0] == wanted
    assert check(program) is None
