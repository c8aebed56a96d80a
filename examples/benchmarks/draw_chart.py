"""Charts of the throughput benchmark: how much longer the others take than warp_like, on the CPU.

    python examples/benchmarks/draw_chart.py --picture docs/images/throughput.png
    python examples/benchmarks/draw_chart.py --throughput throughput.json --picture chart.png

The times come from the JSON file that ``benchmark_throughput.py`` wrote, or else from the table in
``docs/benchmarks.md``. The bars are the geometric means over all programs that a column has. A second picture,
``throughput_programs.png``, has a few programs by themselves. C++ is the best of its three columns.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import benchmark_throughput as throughput
import reporting
from columns import CPP, PEERS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
HEAD = "one launch, milliseconds"
PROGRAMS = ("saxpy", "Jacobi", "lattice Boltzmann", "MLP", "n-body", "Mandelbrot", "ray marching", "SVD")
COLOURS = {
    "warp_like": "#1f6feb",
    "C++": "#57606a",
    "PyTorch": "#e5793a",
    "numba": "#2da44e",
    "JAX": "#8250df",
    "warp-lang": "#a3b18a",
}


def read_page(page: Path) -> dict[str, throughput.Row]:
    """Return the rows of the throughput table on a page of Markdown, as the JSON file has them."""
    lines = [line.strip("| \n") for line in page.read_text(encoding="utf-8").splitlines()]
    start = next(k for k, line in enumerate(lines) if line.startswith(HEAD))
    columns = [cell.strip() for cell in lines[start].split("|")][1:]
    rows: dict[str, throughput.Row] = {}
    for line in lines[start + 2 :]:
        if not line:
            break
        title, *cells = (cell.strip() for cell in line.split("|"))
        rows[title] = {c: _value(cell) for c, cell in zip(columns, cells, strict=True) if c != throughput.OVER}
    return rows


def _value(cell: str) -> float | str | None:
    """Return seconds for a cell of milliseconds, None for a dash, or a word."""
    try:
        return float(cell) / 1.0e3
    except ValueError:
        return None if cell == "-" else cell


def ratios(rows: Mapping[str, throughput.Row]) -> dict[str, float]:
    """Return by framework its time over warp_like's: the geometric mean of all rows that have both, the least first."""
    found = {"warp_like": 1.0, "C++": throughput.mean_ratio(rows, list(CPP), ["warp_like"])}
    found |= {peer: throughput.mean_ratio(rows, [peer], ["warp_like"]) for peer in PEERS}
    return dict(sorted(((name, r) for name, r in found.items() if r is not None), key=lambda item: item[1]))


def selected(rows: Mapping[str, throughput.Row]) -> dict[str, throughput.Row]:
    """Return the first row of each kind in ``PROGRAMS``."""
    firsts = (next((title for title in rows if title.startswith(kind)), None) for kind in PROGRAMS)
    return {title: rows[title] for title in firsts if title is not None}


def draw(rows: Mapping[str, throughput.Row], path: Path) -> None:
    """Write the charts: two files, each small enough for a telephone."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    means = ratios(rows)
    for target, size in ((path, (5.6, 3.0)), (path.with_stem(f"{path.stem}_programs"), (6.2, 3.8))):
        figure, axes = pyplot.subplots(figsize=size, dpi=125, layout="constrained")
        if target == path:
            draw_means(axes, means, len(rows))
        else:
            draw_programs(axes, selected(rows), list(means))
        figure.savefig(target)
        pyplot.close(figure)
        Image.open(target).quantize(64).save(target, optimize=True)


def draw_means(axes: Any, of: Mapping[str, float], count: int) -> None:
    """Draw one bar a framework."""
    bars = axes.barh(list(of), list(of.values()), color=[COLOURS[name] for name in of])
    axes.bar_label(bars, [f"{value:.3g} x" for value in of.values()], padding=4, fontsize=9)
    axes.invert_yaxis()
    axes.set(xlim=(0, 1.15 * max(of.values())), xticks=[], title=f"time over warp_like's, mean of {count} programs")
    axes.title.set_fontsize(10)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def draw_programs(axes: Any, rows: Mapping[str, throughput.Row], frameworks: Sequence[str]) -> None:
    """Draw a point for each framework and program, on a logarithmic axis."""
    titles = list(rows)
    for name in frameworks:
        columns = CPP if name == "C++" else [name]
        times = [
            throughput.best(rows[title], columns) / throughput.best(rows[title], ["warp_like"]) for title in titles
        ]
        names, order = [reporting.short_sizes(title) for title in titles], 3 if name == "warp_like" else 2
        axes.plot(times, names, "o", zorder=order, ms=7, color=COLOURS[name], label=name, mec="white", mew=0.7)
    axes.set_xscale("log")
    axes.set(title="some of the programs")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} x")
    axes.title.set_fontsize(10)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.tick_params(labelsize=8.5)
    axes.spines[["top", "right"]].set_visible(False)
    tight = {"handletextpad": 0.1, "columnspacing": 0.9}
    axes.legend(
        fontsize=8, loc="upper center", bbox_to_anchor=(0.35, -0.08), ncols=len(frameworks), frameon=False, **tight
    )


def main(argv: list[str] | None = None) -> dict[str, float]:
    """Draw the chart and return the means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--throughput", type=Path, metavar="JSON", help="the file that benchmark_throughput.py wrote")
    parser.add_argument(
        "--picture", type=Path, metavar="PNG", required=True, help="the file to draw (needs matplotlib)"
    )
    options = parser.parse_args(argv)
    rows = json.loads(options.throughput.read_text())["rows"] if options.throughput else read_page(PAGE)
    draw(rows, options.picture)
    means = ratios(rows)
    print(", ".join(f"{name} {value:.3g}" for name, value in means.items()))
    return means


if __name__ == "__main__":
    main()
