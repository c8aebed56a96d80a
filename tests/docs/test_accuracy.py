"""The page on accuracy says of each math function what a sample of arguments confirms."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST = 4.0
"""What the vector math library promises, in units of the last place."""


@pytest.fixture(scope="module")
def table() -> dict[str, list[float]]:
    """The numbers of the page by function: float32, float64, float16."""
    text = (ROOT / "docs" / "guide" / "accuracy.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+?)` \|((?: [\d.]+ \|){3})$", text, re.MULTILINE)
    return {name: [float(n) for n in numbers.split("|")[:-1]] for name, numbers in rows}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_sample_is_within_four_units(dtype: str, table: dict[str, list[float]]) -> None:
    sys.path.insert(0, str(ROOT / "examples" / "benchmarks"))
    try:
        from accuracy import FUNCTIONS, errors
        from builtin_rows import all_rows
    finally:
        sys.path.remove(str(ROOT / "examples" / "benchmarks"))
    assert set(table) == set(FUNCTIONS)
    assert max(max(numbers) for numbers in table.values()) <= MOST
    rng = np.random.default_rng(3)
    for row in all_rows([dtype]):
        if row.name in FUNCTIONS and row.scalar is not None:
            columns, off = errors(row, 60 if dtype == "float64" else 3000, rng)
            at = int(np.argmax(off))
            assert off[at] <= MOST, (row.title, [c[at] for c in columns], off[at])
