"""Random loops over the neighbours that a hash grid finds; ``check(seed)`` compares with loops that stay as they are.

Points lie in the order of the grid's cells, in parts or not at all, so that rows are read in line, with gathers and
one by one in the same loop. Some are NaN, infinite or far away; arrays overlap, and lie at protected pages.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

import warp_like as wp
from tests.frontend.support import define
from tests.guarded import IS_SUPPORTED, Moved
from warp_like.passes.spmd import choice

DTYPES = {"wp.vec3": "float32", "wp.vec3d": "float64", "wp.vec3h": "float16"}


class Neighbours:
    """The text of a kernel."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.scalar = r.choice(["float32"] * 6 + ["float64", "float16"])
        self.vector = {"float32": "wp.vec3", "float64": "wp.vec3d", "float16": "wp.vec3h"}[self.scalar]
        self.nested = r.random() < 0.15
        self.in_function = r.random() < 0.3
        self.lines: list[str] = []

    def source(self) -> str:
        r, s = self.r, f"wp.{self.scalar}"
        group = r.choice(["", "", "", ", 0", ", i % 2"])
        self.group = bool(group)
        lines = ["i = wp.tid()"]
        if r.random() < 0.2:
            lines = ["t = wp.tid()", "i = wp.hash_grid_point_id(grid, t)"]
        if r.random() < 0.2:
            lines += ["if i % 5 == 3:", "    return"]
        lines += [f"x = {r.choice(['pts[i]', 'pts[i]', 'pts[(i * 7) % n]', 'other[i]'])}", "radius = rad"]
        if r.random() < 0.2:
            lines.append(f"radius = rad * {s}({r.choice(['0.5', '3.0', '-1.0', '0.0'])})")
        lines += [f"total = {s}(0.0)", "count = int(0)", "last = int(-1)", f"best = {s}(1.0e4)"]
        lines += self.query("idx", "x", group, 0)
        lines += ["out[i] = total", "found[i] = count * 100000 + last", "least[i] = best"]
        body = "\n    ".join(lines)
        array = f"wp.array(dtype={self.vector})"
        scalars = f"wp.array(dtype={s})"
        params = f"grid: wp.uint64, n: int, rad: {s}, pts: {array}, other: {array}, w: {scalars}, "
        params += f"ids: wp.array(dtype=int), out: {scalars}, found: wp.array(dtype=int), least: {scalars}, "
        params += f"moved: {array}, hist: wp.array(dtype=int)"
        return f"{self.functions(s)}@wp.kernel\ndef k({params}):\n    {body}\n"

    def functions(self, s: str) -> str:
        v = self.vector
        return (
            f"@wp.func\ndef gap(a: {v}, b: {v}):\n    return wp.length(a - b)\n"
            f"@wp.func\ndef squares(a: {v}, b: {v}):\n    d = a - b\n    return wp.dot(d, d)\n"
            f"@wp.func\ndef bump(l: {s}, h: {s}):\n    if l < h:\n        return (h - l) * (h - l)\n"
            f"    return {s}(0.0)\n"
        )

    def query(self, idx: str, x: str, group: str, depth: int) -> list[str]:
        r = self.r
        reach = r.choice(["radius", "radius", "rad"])
        inner = self.body(idx, x, depth)
        if r.random() < 0.5:
            head = [f"for {idx} in wp.hash_grid_query(grid, {x}, {reach}{group}):"]
            return [*head, *("    " + line for line in inner)]
        q = f"q{depth}"
        head = [f"{q} = wp.hash_grid_query(grid, {x}, {reach}{group})", f"{idx} = int(0)"]
        if r.random() < 0.1:
            head += ["if i % 2 == 0:", f"    if wp.hash_grid_query_next({q}, {idx}):", "        count += 7"]
        head.append(f"while wp.hash_grid_query_next({q}, {idx}):")
        return [*head, *("    " + line for line in inner)]

    def body(self, idx: str, x: str, depth: int) -> list[str]:
        r, s = self.r, f"wp.{self.scalar}"
        source = r.choice(["pts", "pts", "pts", "other", "moved"])
        lines = []
        if r.random() < 0.3:
            lines.append(r.choice([f"if {idx} == i:\n    continue", f"if ids[{idx}] < 2:\n    continue", "count += 0"]))
        form = r.choice(["gap", "squares", "inline", "components", "chosen"])
        if form == "chosen":
            lines.append(f"at = {r.choice(['ids[' + idx + ']', idx + ' * 1', '(' + idx + ' + 1) % n'])}")
            lines.append(f"d = squares({x}, {source}[at])")
        elif form == "inline":
            lines += [f"v = {x} - {source}[{idx}]", "d = wp.dot(v, v)"]
        elif form == "components":
            lines += [f"p = {source}[{idx}]"]
            lines += [f"d = (p[0] - {x}[0]) * (p[0] - {x}[0]) + wp.abs(p[1] - {x}[1]) + (p[2] - {x}[2]) * p[2]"]
        else:
            lines.append(f"d = {form}({x}, {source}[{idx}])")
        if r.random() < 0.3:
            lines.append(f"d = d * w[{idx}] + {s}(0.01)")
        bound = r.choice(["rad", "radius", "rad * rad", f"w[i] * {s}(0.5)", f"{s}(0.3)"])
        more = r.choice(["", "", f" and {idx} != i", f" and w[{idx}] > {s}(0.2)", " and count < 9", " or count == 1"])
        test = r.choice(
            [f"d < {bound}{more}", f"d < {bound}{more}", f"d <= {bound}", f"{bound} > d", f"not (d > {bound})"]
        )
        inner = []
        for _ in range(r.randint(1, 3)):
            inner += self.action(idx, x, depth)
        if r.random() < 0.15:
            lines += [f"if d > {bound}:", "    continue", *inner]
        else:
            lines += [f"if {test}:", *("    " + line for part in inner for line in part.split("\n"))]
            if r.random() < 0.12:
                lines += ["else:", "    count += 1000"]
        if r.random() < 0.12:
            lines.append(r.choice(["total += d", "count += 3", "radius = radius * radius", "hist[0] += 1"]))
        return [line for part in lines for line in part.split("\n")]

    def action(self, idx: str, x: str, depth: int) -> list[str]:
        r, s = self.r, f"wp.{self.scalar}"
        kinds = [
            ["total += d"], [f"total += d * d + w[{idx}]"], ["count += 1"], [f"last = {idx}"], [f"last = {idx}"],
            ["if d < best:", "    best = d", f"    last = {idx}"], [f"total += bump(d, {s}(0.2))"],
            [f"wp.atomic_add(hist, {idx} % 8, 1)"], ["hist[i % 8] += 1"],
            ["if count > 5:", "    break"], ["if count > 11:", "    return"],
            ["count += 1", "if count > 3:", "    break"],
            ["if d == d:", "    continue"], ["rad2 = rad", "total += rad2"], ["radius = d"],
            [f"moved[i] = moved[i] + {x} * {s}(0.01)"], [f"moved[i] = {x}"], ["least[i] = d"],
            [f"w[i] = d * {s}(0.5)"],
        ]  # fmt: skip
        if depth == 0 and self.nested:
            self.nested = False
            return self.query("jdx", r.choice([f"pts[{idx}]", x]), "", 1)
        return r.choice(kinds)


def points(r: random.Random, n: int, scalar: str) -> np.ndarray:
    """Positions in cells of width 1, in the order of the cells, in that of parts of them, or in none."""
    rng = np.random.default_rng(r.randrange(2**31))
    size = r.choice([1.0, 3.0, 3.0, 8.0])
    p = rng.uniform(0, size, (n, 3)) + r.choice([0, 0, -4.0, 100.0])
    if r.random() < 0.3:
        p = np.round(p * 4) / 4
    order = r.choice(["cells", "cells", "cells", "parts", "none"])
    if order != "none":
        cells = np.floor(p).astype(int)
        p = p[np.lexsort((cells[:, 0], cells[:, 1], cells[:, 2]))]
    if order == "parts" and n:
        few = rng.integers(0, n, 4)
        p[few] = p[few[::-1]]
    if n and r.random() < 0.2:
        p[rng.integers(0, n, 3)] = r.choice([np.nan, np.inf, -np.inf, 1e30, -3e9, 6e4])
    with np.errstate(over="ignore"):
        return p.astype(scalar)


@contextlib.contextmanager
def without_filters() -> Iterator[None]:
    """Let the compiler leave loops as they are."""
    before = choice.FILTERED_BITS
    choice.FILTERED_BITS = 1 << 30
    try:
        yield
    finally:
        choice.FILTERED_BITS = before


def check(seed: int) -> int:
    """Compare the launches of one kernel; return how many points they had."""
    r = random.Random(seed)
    kernel = Neighbours(r)
    source = kernel.source()
    n = r.choice([1, 2, 17, 40, 300, 300, 700])
    pts = points(r, n, kernel.scalar)
    with np.errstate(all="ignore"):
        finite = np.where(np.isfinite(pts), pts, 0)
    cells = r.choice([(4, 4, 4), (16, 16, 16), (1, 1, 1), (8, 2, 3)])
    grid = wp.HashGrid(*cells, dtype=getattr(wp, kernel.scalar))
    groups = wp.array(np.arange(n, dtype=np.int32) % 2, dtype=int) if kernel.group else None
    given = wp.array(pts, dtype=eval(kernel.vector))
    grid.build(given, 1.0, **({"groups": groups} if groups is not None else {}))
    rng = np.random.default_rng(seed)
    w = rng.uniform(0, 1, n).astype(kernel.scalar)
    ids = rng.permutation(n).astype(np.int32)
    rad = r.choice([0.3, 1.0, 1.0, 1.5, 0.0, -1.0, float("nan"), float("inf"), 40.0])
    aliased = r.choice(["", "", "", "moved", "w", "other", "behind"])

    def arguments() -> list[Any]:
        own = pts.copy()
        whole = np.concatenate([finite, finite])
        moved = own if aliased == "moved" else whole[n // 2 : n // 2 + n] if aliased == "behind" else pts[::-1].copy()
        other = own if aliased == "other" else whole[:n] if aliased == "behind" else finite[::-1].copy()
        weights = w.copy()
        least = weights if aliased == "w" else np.zeros(n, kernel.scalar)
        out, found, hist = np.zeros(n, kernel.scalar), np.zeros(n, np.int32), np.zeros(8, np.int32)
        return [own, other, weights, ids.copy(), out, found, least, moved, hist]

    width = r.choice([None, 1, 1, 1])
    results = []
    for filtered in (False, True):
        wp.config.fuse_fp, wp.config.cache_kernels, wp.config.num_threads = False, False, 1
        if width is not None:
            wp.config.vector_width = width
        try:
            with contextlib.nullcontext() if filtered else without_filters():
                k = define(source, eager=True)["k"]
                args = arguments()
                sent = Moved(args, "end") if IS_SUPPORTED and seed % 2 else None
                values = sent.args if sent else args
                wp.launch(k, dim=n, inputs=[grid.id, n, getattr(wp, kernel.scalar)(rad), *values])
                if sent:
                    sent.back()
                results.append(args)
        finally:
            for name in ("fuse_fp", "cache_kernels", *(["vector_width"] if width is not None else [])):
                delattr(wp.config, name)
            wp.config.num_threads = 0
    for number, (wanted, got) in enumerate(zip(*results, strict=True)):
        np.testing.assert_array_equal(got, wanted, f"argument {number}, {n} points, radius {rad}, {aliased}\n{source}")
    return n
