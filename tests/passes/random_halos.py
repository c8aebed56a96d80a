"""Random sums that threads share with neighbours, in rows or anywhere; ``check(seed)`` compares with ``np.add.at``.

Grids are large enough for several OS threads. How long a kernel thread takes depends on where it is, so chunks have all
kinds of lengths, and so has what is left for the last of them. All values are integers that sums hold exactly.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import warp_like as wp
from tests.frontend.support import define

TYPES = ("int32", "uint32", "int64", "uint64", "float32", "float32", "float64", "float64")
SHAPES = {
    1: [(0,), (1,), (2,), (63,), (4800,), (20_001,)],
    2: [(1, 1), (0, 5), (1, 4001), (4001, 1), (700, 31), (31, 700), (2, 9001), (5000, 2), (64, 64)],
    3: [(1, 1, 3), (300, 5, 7), (3, 300, 11), (4000, 1, 1), (1, 1, 4000), (1, 4000, 1), (90, 17, 9), (2, 2, 2000)],
}
"""Of grids, by the thread indices that the kernel asks for."""
LARGEST = 200_000
"""The most elements of an array."""
THREADS = (1, 2, 2, 3, 7, 64)


class Sums:
    """A kernel, the arrays that it adds to, and what it adds.

    Attributes:
        source: The kernel.
        arrays: The arrays, of which some may be parts of others.
        memory: What they are parts of.
    """

    def __init__(self, seed: int) -> None:
        self.r = r = random.Random(seed)
        self.ndim = r.choice([1, 1, 2, 2, 3])
        self.near = r.choice([0, 1, 1, 3])  # along how many axes indices are always near the thread's own
        self.dims = r.choice([*SHAPES[self.ndim], self._some_extents(), self._some_extents()])
        self.further = r.choice([(), (), (), (), (), (), (3,), (1, 2)])[: 3 - self.ndim + 1]
        self.names = "ijk"[: self.ndim]
        self.dtype = r.choice(TYPES)
        self.length = r.choice([0, 0, 0, 2, 3])  # of the elements, if these are vectors
        total, rounds = int(np.prod(self.dims)), r.choice([30, 400, 1000])
        late, early = f"at > {r.choice([300, 1500, total * 7 // 8])}", f"at < {r.choice([300, total // 8])}"
        at = r.choice(["at >= 0", "at < 0", late, late, early, "at % 977 == 5"])
        self.rounds = f"{rounds} if {at} else 0"  # before the thread adds, in Python and in the kernel language
        self.lines: list[str] = []
        self.added: list[tuple[int, str, list[str], str]] = []  # the array, under which condition, where and what
        ranks = [1, 2, 3, *[self.ndim] * (9 if self.near == 3 else 1)]
        self.ranks = [r.choice(ranks) for _ in range(r.choice([1, 1, 2, 3]))]
        for _ in range(r.randint(1, 5)):
            self._addition()
        self.idle = r.choice(["", "", "", f"{r.choice(self.names)} % 3 == 1", "v == 0", f"{self.names[0]} > 3"])
        self.takes_most = r.random() < 0.25  # in an array of its own
        self._lay_out()

    def _some_extents(self) -> tuple[int, ...]:
        lengths = [self.r.choice([1, 3, 8, 40]) for _ in range(self.ndim)]
        lengths[self.r.randrange(self.ndim)] = self.r.randint(1000, 6000) // max(int(np.prod(lengths)) // 8, 1) + 1
        return tuple(lengths)

    def _addition(self) -> None:
        r = self.r
        array = r.randrange(len(self.ranks))
        at = [self._index(axis) for axis in range(self.ranks[array])]
        unless = r.choice(["", "", f"{r.choice(self.names)} % 4 == 1", "v > 2", f"{self.names[-1]} < 9"])
        value = r.choice(["v", "1", "2", "v + 1", f"({self.names[0]} % 3)"])
        self.added.append((array, unless, at, value))

    def _index(self, axis: int) -> str:
        """An index that is not negative, and mostly near the thread's own along ``axis``."""
        r, own = self.r, self.names[min(axis, self.ndim - 1)]
        offset = r.choice([0, 0, 1, 2, 3, 3 if axis else r.choice([5, 40, 225, 900])])
        near = f"{own} + {offset}" if offset else own
        if axis < self.ndim and (axis < self.near or r.random() < 0.6):
            return near
        i = r.choice(self.names)
        return r.choice([near, f"({i} * 7 + {offset}) % 13", "at_[v]", f"2 * {i} + 1", f"{i} // 2", i, "3", "m", "v"])

    def body(self) -> list[str]:
        """The lines of the kernel."""
        grid = ", ".join(self.names)
        scalar = f"wp.{self.dtype}"
        made = (
            f"wp.types.vector(length={self.length}, dtype={scalar})({scalar}(%s))" if self.length else f"{scalar}(%s)"
        )
        lines = [f"{grid} = wp.tid()", f"v = x[{grid}]", "at = int(0)"]
        for name, extent in zip(self.names, self.dims, strict=True):
            lines.append(f"at = at * {extent} + {name}")
        lines += [
            f"rounds = {self.rounds}",
            "s = v",
            "for q in range(rounds):",
            "    s = s * 3 + q",
            "if s == 7654321:",
            "    v = 1",
        ]
        if self.idle:
            lines += [f"if {self.idle}:", "    return"]
        for array, unless, at, value in self.added:
            place, amount = ", ".join(at), made % value
            update = self.r.choice([f"y{array}[{place}] += {amount}", f"wp.atomic_add(y{array}, {place}, {amount})"])
            if unless:
                lines.append(f"if {unless}:")
            lines.append(f"    {update}" if unless else update)
        if self.takes_most:
            lines.append(f"wp.atomic_max(top, {self.names[0]}, v)")
        return lines

    def _lay_out(self) -> None:
        """Make the arrays: each begins somewhere in memory, and may share it with others."""
        r, rng = self.r, np.random.default_rng(self.r.randrange(2**31))
        self.x = rng.integers(0, 5, self.dims).astype(np.int32)
        self.at_ = rng.integers(0, 11, 5).astype(np.int32)
        self.top = np.zeros(max(self.dims[0], 1), np.int32)
        last = (self.length,) if self.length else ()
        self.memory: list[np.ndarray] = []
        self.arrays: list[np.ndarray] = []
        for shape in [self._extents(k) for k in range(len(self.ranks))]:
            size = tuple(n + r.choice([0, 0, 1, 6]) for n in shape)
            layout = r.choice(
                ["plain", "plain", "plain", "plain", "plain", "strided", "reversed", "transposed", "shared"]
            )
            same = [
                a for a in self.arrays if a.ndim == len((*size, *last)) and all(np.array(a.shape) >= (*size, *last))
            ]
            if layout == "shared" and same:
                self.arrays.append(r.choice([same[0], same[0][(*(slice(n) for n in size),)]]))
                continue
            if layout == "transposed" and not last:
                whole = np.zeros(size[::-1], self.dtype)
                self.arrays.append(whole.T)
            elif layout in ("strided", "reversed"):
                whole = np.zeros((size[0] * 2, *size[1:], *last), self.dtype)
                self.arrays.append(whole[::2] if layout == "strided" else whole[: size[0]][::-1])
            else:
                whole = np.zeros((*size, *last), self.dtype)
                self.arrays.append(whole)
            self.memory.append(whole)

    def _extents(self, array: int) -> tuple[int, ...]:
        """The least extents that an array needs, whose last indices are left out if it were large."""
        places = [at for k, _, at, _ in self.added if k == array]
        most = [[int(np.max(c, initial=0)) + 1 for c in self._evaluated(at)] for at in places]
        extents = [max(column) for column in zip(*most, strict=True)] or [1] * self.ranks[array]
        while np.prod(extents) > LARGEST:
            del extents[-1]
        for at in places:
            del at[len(extents) :]
        self.ranks[array] = len(extents)
        return tuple(extents)

    def _evaluated(self, texts: list[str]) -> list[np.ndarray]:
        """What expressions are in all threads."""
        names = dict(zip(self.names, np.indices(self.dims), strict=True))
        space = {**names, "v": self.x, "at_": self.at_, "m": 2}
        return [np.broadcast_to(eval(text, {}, space), self.dims) for text in texts]

    def expect(self) -> None:
        """Add to the arrays what the kernel adds."""
        times = int(np.prod(self.further))
        (idle,) = self._evaluated([self.idle or "v < 0"])
        for array, unless, at, value in self.added:
            *places, condition, amount = self._evaluated([*at, unless or "v >= 0", value])
            on = condition & ~idle
            given = (amount[on] * times).astype(self.dtype)
            np.add.at(self.arrays[array], tuple(p[on] for p in places), given[:, None] if self.length else given)
        if self.takes_most:
            i, on = np.indices(self.dims)[0], ~idle
            np.maximum.at(self.top, i[on], self.x[on])

    def source(self) -> str:
        """The kernel."""
        t = f"wp.types.vector(length={self.length}, dtype=wp.{self.dtype})" if self.length else f"wp.{self.dtype}"
        params = [f"x: wp.array(dtype=wp.int32, ndim={self.ndim})", "at_: wp.array(dtype=wp.int32)", "m: int"]
        params.append("top: wp.array(dtype=wp.int32)")
        params += [f"y{k}: wp.array(dtype={t}, ndim={rank})" for k, rank in enumerate(self.ranks)]
        body = "\n    ".join(self.body())
        return f"@wp.kernel\ndef k({', '.join(params)}):\n    {body}\n"


def check(seed: int) -> int:
    """Compare the launches of one kernel with several numbers of OS threads; return how many there were."""
    sums = Sums(seed)
    source = sums.source()
    kernel = define(source, eager=True)["k"]
    sums.expect()
    expected = [m.copy() for m in (*sums.memory, sums.top)]
    settings: list[dict[str, Any]] = [{"num_threads": n} for n in sums.r.sample(THREADS, 3)]
    settings.append({"num_threads": sums.r.choice(THREADS), "deterministic": True})
    widths = sums.r.choice([None, 16, 16, 1, 4])
    for setting in settings:
        values = setting if widths is None else {**setting, "vector_width": widths}
        for name, value in values.items():
            setattr(wp.config, name, value)
        try:
            for _ in range(3):
                for m in (*sums.memory, sums.top):
                    m[...] = 0
                args = [sums.x, sums.at_, 2, sums.top, *sums.arrays]
                wp.launch(kernel, dim=(*sums.dims, *sums.further), inputs=args)
                for got, wanted in zip((*sums.memory, sums.top), expected, strict=True):
                    np.testing.assert_array_equal(got, wanted, f"{values}\n{source}\n{sums.dims} {sums.further}")
        finally:
            for name in values:
                setattr(wp.config, name, 0) if name == "num_threads" else delattr(wp.config, name)
    return 3 * len(settings)
