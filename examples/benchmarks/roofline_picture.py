"""The picture of ``benchmark_roofline.py``: the lines of the machine, and each program's point with its name."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

DPI = 100
Places = Mapping[str, Mapping[str, float]]
"""By program: its ``intensity``, its ``GFlop/s`` and its share of the machine."""
Box = tuple[float, float, float, float]
"""Left, lower, right and upper end, in pixels."""


def draw(places: Places, machine: Mapping[str, float], path: Path) -> None:
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


def put_names(figure: Any, axes: Any, places: Places) -> None:
    """Write each program's name beside its point, where it overlaps the least with the names and points before."""
    figure.canvas.draw()
    taken: list[Box] = [
        (x - 3, y - 3, x + 3, y + 3) for x, y in map(axes.transData.transform, map(point, places.values()))
    ]
    for name, at in places.items():
        text = axes.annotate(short(name), point(at), (0, 0), textcoords="offset points", fontsize=6.5)
        extent = text.get_window_extent()
        width, height = extent.width, extent.height
        x, y = axes.transData.transform(point(at))
        offsets = offsets_around(width, height)
        boxes = [(x + dx, y + dy, x + dx + width, y + dy + height) for dx, dy in offsets]
        best = int(np.argmin([sum(overlap(box, other) for other in taken) for box in boxes]))
        text.set_position(tuple(72.0 / figure.dpi * d for d in offsets[best]))
        taken.append(boxes[best])


def offsets_around(width: float, height: float) -> list[tuple[float, float]]:
    """Return the places of a name of this size from its point, the preferred ones first."""
    beside = [(4, -height / 2), (-width - 4, -height / 2)]
    corners = [(4, 3), (4, -height - 3), (-width, 4), (-width, -height - 4)]
    return beside + corners


def point(at: Mapping[str, float]) -> tuple[float, float]:
    """Return a program's coordinates."""
    return at["intensity"], at["GFlop/s"]


def overlap(a: Box, b: Box) -> float:
    """Return the area that two boxes have in common."""
    wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return max(wide, 0.0) * max(high, 0.0)


def short(title: str) -> str:
    """Return a row's title without its sizes."""
    return re.sub(r",? \d{2,}( x \d+)*( (steps|bins|springs|points))?", "", title)
