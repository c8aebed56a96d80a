"""How close the throughput programs come to what the machine can do: a picture, and its numbers.

    python examples/benchmarks/benchmark_roofline.py --picture docs/images/roofline.png

A program lies under two lines: it can't compute faster than the processor multiplies and adds, and not faster than
memory delivers the bytes that each of its operations needs. Both are measured by C++ on all cores: the bandwidth by a
triad over arrays far larger than the caches and over some that fit, the operations by chains of multiply-adds in
registers. What a program computes and moves is written with it in ``programs/`` (a special function counts as 20
operations). Times come from ``benchmark_throughput.py``: from the JSON file that it wrote (``--throughput``), or from a
run of warp_like's column now. Programs that only move memory have no operations, and no place in the picture.
"""

import json
import re
from pathlib import Path

import benchmark_throughput
import cpp_reference
import harness
import numpy as np

DPI = 100
LARGE, SMALL = 2**26, 2**18  # float32 elements of each of the triad's three arrays: far above the caches, and 1 MiB


def measure_machine(quick: bool) -> dict[str, float]:
    """Return operations and bytes a second, the most of several runs."""
    library = cpp_reference.load()
    if library is None:
        raise SystemExit("the machine is measured by C++: install g++ with OpenMP, or set CXX")
    runs, amounts = {}, {}
    for bits in (32, 64):
        out = np.zeros(2)
        repeats = 2_000 if quick else 2_000_000
        runs[f"float{bits}"] = cpp_reference.call(library.find(f"multiply_add{bits}"), repeats, out)
        amounts[f"float{bits}"] = out
    for name, n in (("memory", 2**16 if quick else LARGE), ("cache", 2**14 if quick else SMALL)):
        x, y, result = (np.ones(n, np.float32) for _ in range(3))
        runs[name] = cpp_reference.call(library.find("triad"), n, x, y, result)
        amounts[name] = np.array([3.0 * x.nbytes])
    seconds = harness.measure(runs, budget=0.0 if quick else 2.0)
    return {name: float(amounts[name][0] / seconds[name]) for name in runs}


def place(row: dict, machine: dict[str, float], is_wide: bool) -> dict[str, float]:
    """Return where a program lies, and the least share of the machine that it reaches.

    ``share`` is that of the lower line at the program's intensity; where arrays stay in the cache it may exceed 1.
    """
    intensity, rate = row["flops"] / row["bytes"], row["flops"] / row["warp_like"]
    roof = min(machine["float64" if is_wide else "float32"], intensity * machine["memory"])
    return {
        "intensity": intensity,
        "GFlop/s": rate / 1e9,
        "GB/s": row["bytes"] / row["warp_like"] / 1e9,
        "share": rate / roof,
    }


def draw(places: dict[str, dict], machine: dict[str, float], path: Path) -> None:
    """Write the picture: both axes logarithmic, float64 in another colour."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from PIL import Image

    figure, axes = pyplot.subplots(figsize=(8.0, 5.2), dpi=DPI, layout="constrained")
    reach = [p["intensity"] for p in places.values()]
    x = np.geomspace(min(reach) / 2, max(reach) * 2, 200)
    styles = [("memory", "float32", "-"), ("memory", "float64", "--"), ("cache", "float32", ":")]
    for bandwidth, kind, style in styles:
        label = f"{bandwidth} {machine[bandwidth] / 1e9:.3g} GB/s, {kind} {machine[kind] / 1e9:.3g} GFlop/s"
        axes.plot(x, np.minimum(machine[kind], x * machine[bandwidth]) / 1e9, "k", ls=style, lw=1, label=label)
    axes.set(xscale="log", yscale="log", xlabel="operations for each byte of memory", ylabel="GFlop/s")
    for name, at in places.items():
        colour = "tab:orange" if "float64" in name else "tab:blue"
        axes.plot(at["intensity"], at["GFlop/s"], "o", ms=4, color=colour)
    put_names(figure, axes, places)
    axes.legend(fontsize=7, loc="lower right")
    axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)
    Image.open(path).quantize(32).save(path, optimize=True)  # few colours make a small file


def put_names(figure, axes, places: dict[str, dict]) -> None:
    """Write each program's name beside its point, where it overlaps the least with the names and points before."""
    figure.canvas.draw()
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in map(axes.transData.transform, map(point, places.values()))]
    for name, at in places.items():
        text = axes.annotate(short(name), point(at), (0, 0), textcoords="offset points", fontsize=6.5)
        box = text.get_window_extent()
        width, height = box.width, box.height
        x, y = axes.transData.transform(point(at))
        sides = [
            (4, -height / 2),
            (-width - 4, -height / 2),
            (4, 3),
            (4, -height - 3),
            (-width, 4),
            (-width, -height - 4),
        ]
        boxes = [(x + dx, y + dy, x + dx + width, y + dy + height) for dx, dy in sides]
        overlaps = [sum(overlap(box, other) for other in taken) for box in boxes]
        best = int(np.argmin(overlaps))
        text.set_position(tuple(72.0 / figure.dpi * d for d in sides[best]))
        taken.append(boxes[best])


def point(at: dict[str, float]) -> tuple[float, float]:
    return at["intensity"], at["GFlop/s"]


def overlap(a: tuple, b: tuple) -> float:
    """Return the area that two boxes have in common."""
    wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return max(wide, 0.0) * max(high, 0.0)


def short(title: str) -> str:
    """Return a row's title without its sizes."""
    return re.sub(r",? \d{2,}( x \d+)*( (steps|bins|springs|points))?", "", title)


def main(argv: list[str] | None = None) -> dict:
    parser = harness.parser(__doc__.splitlines()[0])
    parser.add_argument("--throughput", type=Path, metavar="JSON", help="what benchmark_throughput.py measured before")
    parser.add_argument("--picture", type=Path, metavar="PNG", help="draw the picture to this file (needs matplotlib)")
    options = parser.parse_args(argv)
    machine = measure_machine(options.quick)
    if options.throughput:
        rows = json.loads(options.throughput.read_text())["rows"]
    else:
        rows = benchmark_throughput.main(["--peers", *(["--quick"] if options.quick else [])])
    places = {name: place(row, machine, "float64" in name) for name, row in rows.items() if row["flops"]}
    report = harness.Report("roofline", "operations a second, bytes a second", options)
    report.table("the machine", ["G/s"], {name: {"G/s": value} for name, value in machine.items()}, 1.0e-9)
    report.table("program", ["intensity", "GFlop/s", "GB/s", "share"], places, 1.0)
    if options.picture:
        draw(places, machine, options.picture)
    report.finish({"machine": machine, "programs": places})
    return places


if __name__ == "__main__":
    main()
