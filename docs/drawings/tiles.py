"""Draw the pictures of the guide page on tiles: ``python docs/drawings/tiles.py`` writes SVG files to ``docs/images``.

Numbers are in pixels. Letters are large, since a telephone shows the pictures at half of their size.
"""

from __future__ import annotations

from pathlib import Path

IMAGES = Path(__file__).resolve().parents[1] / "images"
FILLS = ("#9ecbff", "#ffd08a", "#b5e3a8")
LINE, PLAIN, TEXT = "#5c6670", "#ffffff", "#1c2128"


class Drawing:
    """An SVG file that grows by shapes, on a light ground that suits dark pages as well."""

    def __init__(self, width: int, height: int):
        self.width, self.height = width, height
        self.parts = [f'<rect width="{width}" height="{height}" rx="10" fill="#f6f8fa"/>']

    def cell(self, x: float, y: float, w: float, h: float, fill: str = PLAIN, dashed: bool = False) -> None:
        """Draw a rectangle."""
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" fill="{fill}" stroke="{LINE}"{dash}/>'
        )

    def frame(self, x: float, y: float, w: float, h: float) -> None:
        """Draw a thick border."""
        box = f'x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}"'
        self.parts.append(f'<rect {box} fill="none" stroke="{TEXT}" stroke-width="3"/>')

    def text(self, x: float, y: float, words: str, size: int = 18, anchor: str = "middle", code: bool = False) -> None:
        """Write words whose middle line is at ``y``."""
        family = "monospace" if code else "sans-serif"
        style = f'font-family="{family}" font-size="{size}" text-anchor="{anchor}" fill="{TEXT}"'
        self.parts.append(f'<text x="{x:g}" y="{y + 0.35 * size:g}" {style}>{words}</text>')

    def arrow(self, x: float, y: float, to: float) -> None:
        """Draw an arrow to the right."""
        self.parts.append(
            f'<path d="M{x:g} {y:g}H{to:g}m-9 -6l9 6l-9 6" fill="none" stroke="{TEXT}" stroke-width="2"/>'
        )

    def svg(self) -> str:
        """Return the file's text."""
        size = f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n' + "\n".join(self.parts) + "\n</svg>\n"


def blocks() -> Drawing:
    """Three blocks load tiles of 4 x 8 from an array of 10 x 8: the last one reaches beyond it."""
    d, side, left, top = Drawing(640, 400), 27, 30, 50
    d.text(left + 4 * side, 28, "array of 10 x 8")
    for row in range(12):
        for column in range(8):
            inside = row < 10
            x, y = left + column * side, top + row * side
            d.cell(x, y, side, side, FILLS[row // 4] if inside else "none", dashed=not inside)
    for block in range(3):
        y = top + 4 * side * block
        d.frame(left, y, 8 * side, 4 * side)
        d.arrow(left + 8 * side + 12, y + 2 * side, left + 8 * side + 60)
        d.text(left + 8 * side + 72, y + 1.45 * side, f"block {block}: tile of 4 x 8", anchor="start")
        d.text(left + 8 * side + 72, y + 2.5 * side, f"offset=({4 * block}, 0)", 17, "start", code=True)
    d.text(left + 8 * side + 72, top + 11.4 * side, "outside: zero, not written", 17, "start")
    return d


def product() -> Drawing:
    """A block adds up the products of a row of tiles and a column of tiles."""
    d, side = Drawing(640, 400), 36
    lefts = {"a": (24, 206), "b": (232, 24), "out": (232, 206)}
    for name, (x0, y0) in lefts.items():
        for row in range(4):
            for column in range(4):
                used = {"a": row == 1, "b": column == 2, "out": (row, column) == (1, 2)}[name]
                fill = FILLS[("a", "b", "out").index(name)] if used else PLAIN
                d.cell(x0 + column * side, y0 + row * side, side, side, fill)
    d.frame(24, 206 + side, 4 * side, side)
    d.frame(232 + 2 * side, 24, side, 4 * side)
    d.frame(232 + 2 * side, 206 + side, side, side)
    d.text(24 + 2 * side, 206 + 4 * side + 22, "a")
    d.text(232 - 20, 24 + 2 * side, "b")
    d.text(232 + 2 * side, 206 + 4 * side + 22, "out")
    for k in range(4):
        d.text(24 + (k + 0.5) * side, 206 + 1.5 * side, f"{k}")
        d.text(232 + 2.5 * side, 24 + (k + 0.5) * side, f"{k}")
    d.text(400, 60, "each square is a tile", anchor="start")
    d.text(400, 90, "loop over k: load", anchor="start")
    d.text(400, 114, "tile k of both,", anchor="start")
    d.text(400, 138, "add their product", anchor="start")
    d.text(400, 206 + 1.5 * side, "one block, one tile", anchor="start")
    return d


def parts() -> Drawing:
    """The parts of the page's second example, and the order of the elements in memory."""
    d, side, left, top = Drawing(640, 300), 54, 40, 56
    numbers = ((0, 5, 5, 7), (1, 1, 1, 1))
    fills = ((PLAIN, FILLS[0], FILLS[0], FILLS[2]), (FILLS[1],) * 4)
    for row in range(2):
        for column in range(4):
            x, y = left + column * side, top + row * side
            d.cell(x, y, side, side, fills[row][column])
            d.text(x + side / 2, y + side / 2, f"{numbers[row][column]}", 22)
            d.cell(left + (4 * row + column) * 68, top + 3 * side, 68, 44, fills[row][column])
            d.text(left + (4 * row + column) * 68 + 34, top + 3 * side + 22, f"{row}, {column}", 17, code=True)
    d.text(left + 2 * side, 30, "tile of 2 x 4")
    for k, (fill, words) in enumerate(
        ((FILLS[0], "t[0, 1:3]"), (FILLS[1], "t[1]"), (FILLS[2], "tile_transpose(t)[3, 0]"))
    ):
        d.cell(left + 4 * side + 36, top + 2 + 36 * k, 24, 24, fill)
        d.text(left + 4 * side + 72, top + 14 + 36 * k, words, 18, "start", code=True)
    d.text(left, top + 3 * side + 66, "in memory: row after row", anchor="start")
    return d


DRAWINGS = {"tiles_blocks": blocks, "tiles_product": product, "tiles_parts": parts}


def main() -> None:
    """Write all drawings."""
    for name, make in DRAWINGS.items():
        (IMAGES / f"{name}.svg").write_text(make().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
