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

    figure, axes = pyplot.subplots(figsize=(9.0, 6.0), dpi=DPI, layout="constrained")
    reach = [p["intensity"] for p in places.values()]
    x = np.geomspace(min(reach) / 2, max(reach) * 3, 400)
    styles = [("memory", "float32", "-"), ("memory", "float64", "--"), ("cache", "float32", ":")]
    roofs = []
    for bandwidth, kind, style in styles:
        label = f"{bandwidth} {machine[bandwidth] / 1e9:.3g} GB/s, {kind} {machine[kind] / 1e9:.3g} GFlop/s"
        roofs.append(np.minimum(machine[kind], x * machine[bandwidth]) / 1e9)
        axes.plot(x, roofs[-1], "k", ls=style, lw=1, label=label)
    axes.set(xscale="log", yscale="log", xlabel="operations for each byte of memory", ylabel="GFlop/s")
    for name, at in places.items():
        colour = "tab:orange" if "float64" in name else "tab:blue"
        axes.plot(at["intensity"], at["GFlop/s"], "o", ms=4, color=colour)
    axes.legend(fontsize=7, loc="lower right")
    put_names(figure, axes, places, np.concatenate([np.column_stack([x, roof]) for roof in roofs]))
    axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)
    Image.open(path).quantize(32).save(path, optimize=True)  # few colours make a small file


def put_names(figure: Any, axes: Any, places: Places, lines: np.ndarray) -> None:
    """Write each program's name where it overlaps least with names, points and lines; a far one gets a thin line.

    ``lines`` holds points of the roofs, in the units of the axes.
    """
    from matplotlib import patheffects

    figure.canvas.draw()
    points = [axes.transData.transform(point(at)) for at in places.values()]
    taken: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for x, y in points]
    taken += [(x - 1, y - 1, x + 1, y + 1) for x, y in axes.transData.transform(lines)]
    frame = axes.get_window_extent()
    halo = [patheffects.withStroke(linewidth=2.0, foreground="white")]
    for (name, at), (x, y) in zip(places.items(), points, strict=True):
        leader = {"arrowstyle": "-", "lw": 0.5, "color": "0.5", "shrinkA": 0, "shrinkB": 2}
        text = axes.annotate(
            short(name), point(at), (0, 0), textcoords="offset points", fontsize=7, path_effects=halo, arrowprops=leader
        )
        extent = text.get_window_extent()
        offsets = offsets_around(extent.width, extent.height)
        boxes = [(x + dx, y + dy, x + dx + extent.width, y + dy + extent.height) for dx, dy in offsets]
        costs = [sum(overlap(box, other) for other in taken) + outside(box, frame) for box in boxes]
        best = int(np.argmin(costs))
        text.set_position(tuple(72.0 / figure.dpi * d for d in offsets[best]))
        text.arrow_patch.set_visible(best >= NEAR)
        taken.append(boxes[best])


NEAR = 8
"""How many of the places around a point touch it."""


def offsets_around(width: float, height: float) -> list[tuple[float, float]]:
    """Return the places of a name of this size from its point, the preferred ones first."""
    found = []
    for gap in (5.0, 14.0, 24.0, 36.0):
        beside = [(gap, -height / 2), (-width - gap, -height / 2), (-width / 2, gap), (-width / 2, -height - gap)]
        slant = 0.7 * gap
        corners = [(slant, slant), (slant, -height - slant), (-width - slant, slant), (-width - slant, -height - slant)]
        found += beside + corners
    return found


def outside(box: Box, frame: Any) -> float:
    """Return a cost for a name that leaves the axes."""
    beyond = (frame.x0 - box[0], frame.y0 - box[1], box[2] - frame.x1, box[3] - frame.y1)
    return 1000.0 * sum(max(0.0, by) for by in beyond)


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
