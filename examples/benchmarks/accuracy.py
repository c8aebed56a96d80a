"""The accuracy of the mathematics functions on the CPU, in units of the last place, over the whole domain.

    python examples/benchmarks/accuracy.py
    python examples/benchmarks/accuracy.py --docs     # writes the table of docs/guide/accuracy.md

A unit of the last place is the distance between the two numbers of the type around the exact result. Arguments are of
all sizes that give a finite result, usual ones, and neighbours of places where the method changes. References are
mpmath's for float64; for the other types those of SciPy and NumPy in float64. All numbers of float16 are tried for
functions of one.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import frameworks
import mpmath
import numpy as np
import reporting
import scipy.special
from builtin_rows import Row, all_rows, make_kernel

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "accuracy.md"
DTYPES = ("float32", "float64", "float16")
PLACES = (0.5, 1.0, 9.0, 10.0, 27.0, 87.5, 89.0, 104.5, 699.0, 705.0, 709.5, 746.5, 1e4, 2.0**23, 4.1e6)
Numbers = Any
"""NumPy arrays."""


@dataclass(frozen=True)
class Function:
    """A function's references, and where its exact results are to be expected.

    Attributes:
        double: The function of float64 arrays.
        exact: The function of mpmath's numbers.
        low, high: The arguments that it has results for.
        normal: Whether denormal arguments are left out.
    """

    double: Callable[..., Numbers]
    exact: Callable[..., Any]
    low: float = -math.inf
    high: float = math.inf
    normal: bool = False


def _cbrt(x: Any) -> Any:
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


def _inverse(start: Callable[[float], float], function: Callable[[Any], Any], sign: float) -> Callable[[Any], Any]:
    """The inverse of an error function, by Newton's method from a number that is close."""

    def exact(x: Any) -> Any:
        y = mpmath.mpf(float(start(float(x))))
        for _ in range(3):
            y -= (function(y) - x) / (sign * 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-y * y))
        return y

    return exact


FUNCTIONS = {
    "exp": Function(np.exp, mpmath.exp),
    "log": Function(np.log, mpmath.log, low=0.0),
    "log2": Function(np.log2, lambda x: mpmath.log(x, 2), low=0.0),
    "log10": Function(np.log10, mpmath.log10, low=0.0),
    "sin": Function(np.sin, mpmath.sin),
    "cos": Function(np.cos, mpmath.cos),
    "tan": Function(np.tan, mpmath.tan),
    "asin": Function(np.arcsin, mpmath.asin, -1.0, 1.0),
    "acos": Function(np.arccos, mpmath.acos, -1.0, 1.0),
    "atan": Function(np.arctan, mpmath.atan),
    "atan2": Function(np.arctan2, mpmath.atan2),
    "sinh": Function(np.sinh, mpmath.sinh),
    "cosh": Function(np.cosh, mpmath.cosh),
    "tanh": Function(np.tanh, mpmath.tanh),
    "sqrt": Function(np.sqrt, mpmath.sqrt, low=0.0),
    "cbrt": Function(np.cbrt, _cbrt),
    "pow": Function(np.power, mpmath.power, low=0.0),
    "erf": Function(scipy.special.erf, mpmath.erf, -30.0, 30.0),
    "erfc": Function(scipy.special.erfc, mpmath.erfc, -30.0, 27.2),
    "erfinv": Function(scipy.special.erfinv, _inverse(scipy.special.erfinv, mpmath.erf, 1.0), -1.0, 1.0),
    "erfcinv": Function(
        scipy.special.erfcinv, _inverse(scipy.special.erfcinv, mpmath.erfc, -1.0), 0.0, 2.0, normal=True
    ),
    **{
        f"x ** {y}": Function(lambda x, y=y: np.power(x, float(y)), lambda x, y=y: mpmath.power(x, float(y)), low)
        for y, low in (("2.0", -math.inf), ("3.0", -math.inf), ("-1.0", -math.inf), ("-2.0", -math.inf), ("0.5", 0.0))
    },
    "x ** 1.5": Function(lambda x: np.power(x, 1.5), lambda x: mpmath.power(x, 1.5), low=0.0),
    "x ** -0.5": Function(lambda x: np.power(x, -0.5), lambda x: mpmath.power(x, -0.5), low=0.0),
}


def arguments(function: Function, dtype: str, count: int, rng: np.random.Generator) -> Numbers:
    """Return numbers of a type that the function has results for; all of them where these are few enough."""
    if dtype == "float16":
        found = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    else:
        info = np.finfo(dtype)
        least, most = math.log2(float(info.smallest_subnormal)), math.log2(float(info.max))
        near = np.multiply.outer(PLACES, 1.0 + rng.uniform(-1e-3, 1e-3, 8)).ravel()
        sizes = [np.exp2(rng.uniform(least, most, count)), np.exp2(rng.uniform(-10, 10, count)), near]
        if math.isfinite(function.high):
            sizes.append(function.high - np.exp2(rng.uniform(-40, 0, count // 4)))
        numbers = np.concatenate([*sizes, rng.uniform(0.0, 9.0, count)])
        found = (numbers * rng.choice([-1.0, 1.0], len(numbers))).astype(dtype)
    least = float(np.finfo(dtype).tiny) if function.normal else 0.0
    return found[np.isfinite(found) & (found > function.low) & (found < function.high) & (np.abs(found) >= least)]


def errors(row: Row, count: int, rng: np.random.Generator) -> tuple[list[Numbers], Numbers]:
    """Return arguments of a row's function, and the error of each result in units of the last place."""
    import warp_like as wp

    function, dtype = FUNCTIONS[row.name], str(row.scalar)
    columns = [arguments(function, dtype, count, rng) for _ in row.types]
    if len(columns) > 1:  # a power's exponent has both signs, and is such that many results are finite
        n = min(map(len, columns))
        columns = [rng.permutation(c)[:n] for c in columns]
        if row.name == "pow":
            columns[1] = (
                rng.uniform(-700.0, 700.0, n) / np.maximum(1.0, np.abs(np.log(columns[0].astype(float))))
            ).astype(dtype)
    with np.errstate(all="ignore"):
        rough = function.double(*(c.astype(np.float64) for c in columns))
        finite = np.abs(rough) < float(np.finfo(dtype).max) * 0.999
    columns = [c[finite] for c in columns]
    got = np.zeros_like(columns[0])
    wp.launch(make_kernel(wp, row.title, row.parameters, row.lines), dim=len(got), inputs=[*columns, got])
    return columns, _off(dtype, function, columns, got, rough[finite])


def _off(dtype: str, function: Function, columns: list[Numbers], got: Numbers, rough: Numbers) -> Numbers:
    with np.errstate(all="ignore"):
        unit = np.spacing(np.abs(rough).astype(dtype)).astype(np.float64)
        if dtype != "float64":
            return np.abs(got.astype(np.float64) - rough) / unit
    with mpmath.workprec(1300 if function.double in (np.sin, np.cos, np.tan) else 200):
        exact = (function.exact(*map(mpmath.mpf, map(float, args))) for args in zip(*columns, strict=True))
        differences = [float((mpmath.mpf(float(g)) - e) / u) for g, e, u in zip(got, exact, unit, strict=True)]
    return np.abs(differences)


def measured_rows(count: int, only: list[str]) -> dict[str, dict[str, reporting.Cell]]:
    """Return the largest error of each function by type."""
    rows: dict[str, dict[str, reporting.Cell]] = {}
    rng = np.random.default_rng(1)
    for row in all_rows(DTYPES):
        if row.name in FUNCTIONS and row.scalar is not None and (not only or row.name in only):
            n = count if row.scalar.bits == 64 else 100 * count
            rows.setdefault(row.name, {})[str(row.scalar)] = float(np.max(errors(row, n, rng)[1]))
    return rows


def write_docs(rows: dict[str, dict[str, reporting.Cell]]) -> None:
    """Put the table into the page."""
    lines = ["| function | " + " | ".join(DTYPES) + " |", "|---|" + "---:|" * len(DTYPES)]
    lines += [f"| `{name}` | " + " | ".join(f"{values[t]:.2f}" for t in DTYPES) + " |" for name, values in rows.items()]
    before, rest = PAGE.read_text(encoding="utf-8").split("<!-- begin: ulp -->\n")
    _, after = rest.split("<!-- end: ulp -->")
    PAGE.write_text(
        f"{before}<!-- begin: ulp -->\n" + "\n".join(lines) + f"\n<!-- end: ulp -->{after}", encoding="utf-8"
    )


def main(argv: list[str] | None = None) -> dict[str, dict[str, reporting.Cell]]:
    """Measure the functions and return their rows."""
    parser = argparse.ArgumentParser(description="The accuracy of the mathematics functions.")
    parser.add_argument("--count", type=int, default=3000, help="arguments of float64 of each kind")
    parser.add_argument("--only", nargs="+", default=[], help="these functions alone")
    parser.add_argument("--docs", action="store_true", help="write the table into the documentation")
    options = parser.parse_args(argv)
    frameworks.find_frameworks(["warp_like"])
    rows = measured_rows(options.count, options.only)
    for name, values in rows.items():
        print(name.ljust(12) + "".join(f"{values[t]:10.2f}" for t in DTYPES))
    if options.docs:
        write_docs(rows)
    return rows


if __name__ == "__main__":
    main()
