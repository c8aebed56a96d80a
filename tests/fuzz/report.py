"""A finding as a file that shows it by itself: plain Python, with the right results written out."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.checking import ALWAYS, BESIDE, Finding, by_oracle
from tests.fuzz.program import Program
from tests.fuzz.scalars import InvalidProgram

TEMPLATE = '''"""{title}

{details}
Exits 1 (or crashes, or does not end) while that is so.
"""

import sys
from typing import Any

import numpy as np

import warp_like as wp

nan, inf = np.nan, np.inf
{arguments}
{emulation}

{source}

dims = {dims}
options = {options}
turn = 0
{setup}
for name, value in {setting}.items():
    setattr(wp.config, name, value)
{launch}
'''
ARGUMENTS = """
from tests.fuzz.arguments import Hosted, Nested, Selected  # needs the repository on the path
"""
VALUES = """\
{call}
unordered = {unordered}
choices = {choices}  # of stores to one element, any may stay
bad = False
expected = [
{expected}
]
for number, (got, want) in enumerate(zip(memory, expected)):
    if unordered.get(number) == "sorted":
        got, want = np.sort(got, axis=None), np.sort(want, axis=None)
    for at, values in choices.get(number, {{}}).items():
        want.flat[at] = got.flat[at] if got.flat[at] in values else want.flat[at]
    if got.dtype.names:
        same = got.tolist() == want.tolist()
    elif want.dtype.kind == "f":
        same = np.allclose(got, want, rtol={rtol}, atol={rtol}, equal_nan=True)
    else:
        same = np.array_equal(got, want)
    if not same:
        bad = True
        print(f"memory[{{number}}]\\n  expected {{want.tolist()}}\\n  got      {{got.tolist()}}")
sys.exit(int(bad))"""
DERIVATIVES = """\
wanted = {positions}
types = [k.func.__annotations__[name].dtype for name in k.func.__code__.co_varnames[: len(wanted)]]
seeds = [np.array(s) for s in {seeds}]
change = [np.array(d) for d in {change}]
tangents = [np.array(t) for t in {tangents}]
arrays = [wp.array(args[p], dtype=t, requires_grad=True) for p, t in zip(wanted, types)]
with wp.Tape() as tape:
    wp.launch(k, dim=dims, inputs=[*arrays, *args[len(arrays) :]], **options)
tape.backward(grads={{a: wp.array(s, dtype=t) for a, s, t in zip(arrays, seeds, types)}})
got = sum(np.sum(a.grad.numpy() * d) for a, d in zip(arrays, change))
want = sum(np.sum(s * t) for s, t in zip(seeds, tangents))
print("gradient along the change: expected", want, "got", got)
arrays = [wp.array(args[p], dtype=t) for p, t in zip(wanted, types)]
moved = [wp.array(d, dtype=t) for d, t in zip(change, types)]
if not options:  # forward mode has blocks of one thread
    wp.autograd.jvp(k, dim=dims, inputs=[*arrays, *args[len(arrays) :]], tangents=moved)
worst = [float(np.max(np.abs(m.numpy() - t), initial=0)) for m, t in zip(moved, tangents) if not options] or [0.0]
print("tangents: largest errors", worst)
sys.exit(int(not np.isclose(got, want, rtol=1e-5, atol=1e-5) or max(worst) > 1e-5))"""
SECOND = """\
from tests.fuzz.checking import check  # needs the repository on the path
from tests.fuzz.program import Program

found = check({program!r})
print(found)
sys.exit(int(found is not None))"""
EMULATION = """
from tests.runtime.cuda.emulated import EmulatedDriver, emulated_code
from tests.on_device import on_device
from warp_like.runtime.cuda.driver import install

code = emulated_code()  # the CPU plays the CUDA device; needs the repository on the path
code.__enter__()
install(EmulatedDriver())
device = on_device("emulated")
device.__enter__()
"""


def hosted(program: Program) -> bool:
    """Whether arguments are others than NumPy arrays and numbers."""
    return "Selected(" in program.setup or "Nested(" in program.setup


def called(program: Program) -> str:
    """What the host does with the arguments."""
    if not hosted(program):
        return program.call
    return f"hosted = Hosted(args, globals())\nargs = hosted.args\n{program.call}\nhosted.fetch()"


def literal(a: np.ndarray[Any, Any]) -> str:
    """An array as an expression of NumPy."""
    dtype = a.dtype.descr if a.dtype.names else str(a.dtype)
    if a.dtype.names:
        return f"np.array({a.tolist()!r}, np.dtype({dtype!r})).reshape({a.shape})"
    return f"np.array({a.tolist()!r}, {dtype!r}).reshape({a.shape})"


def reproducer(program: Program, finding: Finding) -> str:
    """The text of the file."""
    setting = finding.setting if finding.setting is not None else program.settings[0]
    names = {n: x for n, x in {**ALWAYS, **program.configuration, **setting}.items() if n not in BESIDE}
    turn = min(finding.turn, len(program.grids) - 1)
    try:
        launch = _checked_launch(program, finding, turn)
    except InvalidProgram:
        launch = called(program)
    return TEMPLATE.format(
        title=f"{program.kind}, seed {program.seed}: {finding.kind} with {setting}.",
        details=textwrap.indent(finding.details.replace('"""', "'''").replace("\\", "/"), "    ") + "\n",
        emulation=EMULATION if setting.get("device") else "",
        arguments=ARGUMENTS if hosted(program) else "",
        source=program.source.rstrip(),
        dims=program.dims(turn),
        options=program.options,
        setup=program.setup.rstrip(),
        setting=names,
        launch=launch,
    )


def _checked_launch(program: Program, finding: Finding, turn: int) -> str:
    right = by_oracle(program, turn)
    setting = finding.setting or program.settings[0]
    if "second" in finding.kind or not {"guarded", "forced"}.isdisjoint(setting):
        return SECOND.format(program=program)
    if "derivative" in finding.kind or (program.gradients and finding.kind.startswith("raises")):
        from tests.fuzz import derivatives

        change = derivatives.directions(program, turn)
        return DERIVATIVES.format(
            positions=list(program.gradients),
            seeds=[s.tolist() for s in derivatives.seeds(program, turn)],
            change=[d.tolist() for d in change[-1]],
            tangents=[t.tolist() for t in right.tangents[-1]],
        )
    expected = "\n".join(f"    {literal(a)}," for a in right.memory)
    choices = {k: {at: [x.item() for x in values] for at, values in of.items()} for k, of in right.choices.items()}
    return VALUES.format(
        call=called(program),
        unordered=dict(program.unordered),
        choices=choices,
        expected=expected,
        rtol=1e-9 if program.gradients else 0,
    )


def write(folder: Path, program: Program, finding: Finding) -> Path:
    """Write the file; its name says kind and seed."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{program.kind}_{program.seed}.py"
    path.write_text(reproducer(program, finding), encoding="utf-8")
    return path
