"""Making a program that fails smaller while it fails in the same way."""

from __future__ import annotations

import ast
import copy
import dataclasses
import time
from collections.abc import Callable, Iterator

from tests.fuzz.checking import Finding
from tests.fuzz.program import LAUNCH, Program

Check = Callable[[Program], Finding | str | None]


def shrunk(program: Program, finding: Finding, check: Check, seconds: float) -> tuple[Program, Finding]:
    """The smallest program that was found within the time, and what is wrong with it."""
    ends = time.monotonic() + seconds
    tried: set[Program | tuple[object, ...]] = set()
    changed = True
    while changed:
        changed = False
        for smaller in candidates(program, finding):
            if time.monotonic() > ends:
                return program, finding
            key = (smaller.source, smaller.setup, smaller.grids, str(smaller.settings))
            if key in tried:
                continue
            tried.add(key)
            found = check(smaller)
            if isinstance(found, Finding) and same(found, finding):
                program, finding, changed = smaller, found, True
                break
    return program, finding


def same(a: Finding, b: Finding) -> bool:
    """Whether two findings are of one kind; errors have to begin with the same words."""
    if not a.kind.startswith("raises"):
        return a.kind == b.kind
    return a.kind == b.kind and a.details[:24] == b.details[:24]


def candidates(program: Program, finding: Finding) -> Iterator[Program]:
    """Smaller programs, those with most left out first."""
    yield from fewer_launches(program, finding)
    held, text = apart(program)
    for source in smaller_sources(text):
        yield dataclasses.replace(program, source=held + source)
    yield from without_parameters(program)
    for setup in without_statements(program.setup):
        yield dataclasses.replace(program, setup=setup)
    for source in simpler_expressions(text):
        yield dataclasses.replace(program, source=held + source)


def apart(program: Program) -> tuple[str, str]:
    """The definitions for which the oracle has others, which stay as they are, and the rest of the source."""
    tree, oracle = ast.parse(program.source), ast.parse(program.oracle)
    known = {node.name.removeprefix("slopes_") for node in oracle.body if isinstance(node, ast.FunctionDef)}
    held = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in known]
    rest = [node for node in tree.body if node not in held]
    first = ast.unparse(ast.Module(held, [])) + "\n\n" if held else ""
    return first, ast.unparse(ast.Module(rest, [])) + "\n" if held else program.source


def fewer_launches(program: Program, finding: Finding) -> Iterator[Program]:
    """One launch, one setting with fewer choices, and smaller grids."""
    if finding.setting is None:  # a crash: which one it is has to be tried
        if len(program.settings) > 1:
            yield from (dataclasses.replace(program, settings=(s,)) for s in program.settings)
        if len(program.grids) > 1:
            yield from (one_launch(program, turn) for turn in range(len(program.grids)))
    elif len(program.settings) > 1 or len(program.grids) > 1:
        yield dataclasses.replace(one_launch(program, finding.turn), settings=(finding.setting,))
    if len(program.settings) == 1:
        for name in program.settings[0]:
            rest = {n: x for n, x in program.settings[0].items() if n != name}
            yield dataclasses.replace(program, settings=(rest,))
    if len(program.grids) == 1:
        dims = program.grids[0]
        for axis, n in enumerate(dims):
            for m in sorted({1, 2, 3, n // 2, n - 1} & set(range(1, n))):
                yield dataclasses.replace(program, grids=((*dims[:axis], m, *dims[axis + 1 :]),))


def one_launch(program: Program, turn: int) -> Program:
    """The program with one of its launches alone."""
    setup = f"turn = {turn}\n{program.setup}" if "turn" in program.setup else program.setup
    return dataclasses.replace(program, setup=setup, grids=(program.grids[turn],))


# --- syntax -----------------------------------------------------------------------------------------------------


def changed_copies(text: str, change: Callable[[ast.Module, int], bool]) -> Iterator[str]:
    """The text after ``change(tree, k)`` for k = 0, 1, ... until that returns False."""
    tree = ast.parse(text)
    k = 0
    while True:
        again = copy.deepcopy(tree)
        if not change(again, k):
            return
        yield ast.unparse(ast.fix_missing_locations(again)) + "\n"
        k += 1


def blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """All lists of statements, outer ones first."""
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield block


def without_statements(text: str) -> Iterator[str]:
    """The text without one of its statements."""

    def change(tree: ast.Module, k: int) -> bool:
        for block in blocks(tree):
            if k < len(block):
                del block[k]
                if not block:
                    block.append(ast.Pass())
                return True
            k -= len(block)
        return False

    return changed_copies(text, change)


def opened_statements(text: str) -> Iterator[str]:
    """The text with one ``if`` or loop replaced by what is in it."""

    def change(tree: ast.Module, k: int) -> bool:
        for block in blocks(tree):
            for at, node in enumerate(block):
                if isinstance(node, (ast.If, ast.For, ast.While)):
                    inner = [node.body] + ([node.orelse] if node.orelse else [])
                    if k < len(inner):
                        block[at : at + 1] = inner[k]
                        return True
                    k -= len(inner)
        return False

    return changed_copies(text, change)


def smaller_sources(text: str) -> Iterator[str]:
    yield from without_statements(text)
    yield from opened_statements(text)


def without_parameters(program: Program) -> Iterator[Program]:
    """Without one of the kernel's parameters and its argument; a program with gradients keeps them, by position."""
    if program.gradients or program.call != LAUNCH:
        return
    tree = ast.parse(program.source)
    kernel = next(f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name == "k")
    used = {n.id for n in ast.walk(ast.Module(kernel.body, [])) if isinstance(n, ast.Name)}
    for at, arg in enumerate(kernel.args.args):
        if arg.arg in used or len(kernel.args.args) < 2:
            continue
        again, setup = copy.deepcopy(tree), ast.parse(program.setup)
        next(f for f in again.body if isinstance(f, ast.FunctionDef) and f.name == "k").args.args.pop(at)
        for node in setup.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "args":
                assert isinstance(node.value, ast.List)
                node.value.elts.pop(at)
        yield dataclasses.replace(program, source=ast.unparse(again) + "\n", setup=ast.unparse(setup) + "\n")


def simpler_expressions(text: str) -> Iterator[str]:
    """The text with one expression replaced by a part of it."""

    def change(tree: ast.Module, k: int) -> bool:
        for root in tree.body:
            if not isinstance(root, ast.FunctionDef):
                continue
            for holder in (n for s in root.body for n in ast.walk(s)):
                for name, value in ast.iter_fields(holder):
                    places = value if isinstance(value, list) else [value]
                    for at, node in enumerate(places):
                        parts = simpler(node)
                        if k < len(parts):
                            if isinstance(value, list):
                                value[at] = parts[k]
                            else:
                                setattr(holder, name, parts[k])
                            return True
                        k -= len(parts)
        return False

    return changed_copies(text, change)


def simpler(node: object) -> list[ast.expr]:
    """Expressions that may stand in place of one."""
    match node:
        case ast.BinOp():
            return [node.left, node.right]
        case ast.UnaryOp():
            return [node.operand]
        case ast.BoolOp():
            return list(node.values)
        case ast.IfExp():
            return [node.body, node.orelse]
        case ast.Call() if ast.unparse(node.func) not in ("wp.tid", "range", "wp.zeros"):
            return list(node.args)
        case ast.Constant() if type(node.value) is int and abs(node.value) > 1:
            return [ast.Constant(0), ast.Constant(1), ast.Constant(int(node.value / 2))]
    return []
