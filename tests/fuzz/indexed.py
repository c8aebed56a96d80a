"""Programs of indexed arrays: sums of every kind, where elements may be selected twice, and rows of two dimensions."""

from __future__ import annotations

import dataclasses
import re

from tests.fuzz.program import Program
from tests.fuzz.sums import LARGEST, SumWriter, summing

FUNCTIONS = """\
@wp.func
def weighed(r: Any, k: int):
    s = int(0)
    for j in range(len(r)):
        s += r[j] * (j + k)
    return s


@wp.func
def raised(r: wp.indexedarray(dtype=int), k: int):
    if k > 1:
        r[k % len(r)] = k
    else:
        r[0] = r[len(r) - 1] + k


"""


class SelectWriter(SumWriter):
    """Statements about ``m``, whose rows are the threads' own, beside the sums."""

    def __init__(self, seed: int, known: frozenset[str]) -> None:
        super().__init__(seed, known)
        self.kinds += [self.rows] * 5

    def rows(self, depth: int, loop: bool) -> None:
        k, j = self.small(), self.pick([*self.loops, "q", "1"])
        at = self.pick([f"m[i, {k} % 3]", f"m[i][{k} % 3]", f"m[i, 1:][{k} % 2]", f"m[i, ::-1][{k} % 3]"])
        forms = [f"{at} = {j} + x[i]", f"{at} += {j}", f"q = {at} % 5", f"raised(m[i], {k})", f"{at} = {at} * 2"]
        forms += [f"q = (weighed(m[i], {k}) + q) % 7", f"q = weighed(m[i, {k} % 2 :], 1) % 5", f"{at} &= 6"]
        forms += ["q = (len(m) + m.shape[1] + q) % 7", f"wp.atomic_max(m, i, {k} % 3, {j})"]
        self.line(depth, self.pick(forms))


def indexed(seed: int, known: frozenset[str]) -> Program:
    """A program of indexed arrays."""
    w = SelectWriter(seed, known)
    made = summing("indexed", w, FUNCTIONS.splitlines(), ["m: wp.indexedarray2d(dtype=int)"])
    source, setup = made.source, made.setup
    head, args = setup.split("args = ")
    twice = w.chance(0.4)
    for name in w.r.sample([*"xgpfo", *w.names], w.number(1, 4)):
        found = re.search(rf"\b{name}: wp\.array\(dtype=(?:wp\.)?(\w+)\)", source)
        assert found is not None
        dtype = "int32" if found[1] == "int" else found[1]
        source = source.replace(found[0], found[0].replace("wp.array", "wp.indexedarray"))
        many = (
            f"r.integers(0, len({name}), len({name}))" if twice and name in w.names else f"r.permutation(len({name}))"
        )
        how = w.pick([many, many, f"np.arange(len({name}))[::-1].copy()", "None"])
        how = how if how == "None" else f"{how}.astype('int32')"
        head += f"{name}_ = Selected({name}, [{how}], '{dtype}')\n"
        args = re.sub(rf"\b{name}\b", f"{name}_", args)
    columns = w.pick(["None", "np.array([3, 0, 2], 'int32')", "np.array([0, 2, 1], 'int32')"])
    rows = w.pick(["None", f"r.permutation({LARGEST} + 4).astype('int32')", f"np.arange({LARGEST}, dtype='int32') + 3"])
    head += f"m_ = r.integers(0, 9, ({LARGEST} + 4, {3 if columns == 'None' else 4})).astype('int32')\n"
    head += f"m = Selected(m_, [{rows}, {columns}], 'int32')\nmemory.append(m_)\n"
    return dataclasses.replace(made, source=source, setup=f"{head}args = {args.rstrip()[:-1]}, m]\n")
