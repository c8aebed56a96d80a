"""The command line, colours and pictures that the examples of the gallery share.

An example ends with ``main(**pictures.options())``. Pillow writes its PNG or GIF, and
tqdm shows its progress.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from tqdm import tqdm

OUTPUT = Path(__file__).resolve().parents[1] / "output"

# Colours from low to high, evenly spaced; what lies between is interpolated.
PALETTES = {
    "fire": "000004 1f0c48 550f6d 88226a ba3655 e35933 f98c0a f9c932 fcffa4",
    "ice": "03051a 0b2a4a 135e83 2a96ab 7accc0 e8f8ee",
    "storm": "7fdcff 1d8fd6 123a7a 0a0d1c 7a2416 e0682a ffe08a",
    "reef": "06121f 0d3b4c 17736f 59ab7c c7d68d fdf3cf",
    "wheel": "ff5e62 ffb443 d9e94a 4be38f 35c9f0 5b82ff b163ff ff62bd ff5e62",
    "land": "0b2447 19547b 4aa3a8 7fb77e c9cf8b d8b878 b08258 8a6a55 f4f1ea",
    "dunes": "f7d9a0 e8a15c c4623d f1c27d 8c4a3c e8a15c f7e3b5 b5543f f1c27d",
    "coral": "fff7ec fdd9b0 f79c79 d8576b 8b2f7f 2c115f",
}


class WrongResult(SystemExit):
    """The example computed a wrong result; ends the program with status 1."""


def require(condition: bool, message: str) -> None:
    """Raise ``WrongResult`` unless ``condition`` holds."""
    if not condition:
        raise WrongResult(f"Wrong result: {message}")


def options() -> dict[str, object]:
    """Read the command line: the arguments of an example's ``main``."""
    parser = argparse.ArgumentParser()
    small = "a small problem, to try everything out"
    parser.add_argument("--quick", action="store_true", help=small)
    where = "folder for the picture (default: %(default)s)"
    parser.add_argument("--out", type=Path, default=OUTPUT, help=where)
    return vars(parser.parse_args())


def progress(count: int, unit: str = "frame") -> tqdm:
    """Return ``range(count)`` with a progress bar, for work that takes seconds."""
    return tqdm(range(count), unit=unit, leave=False)


def palette(name: str, count: int = 256) -> np.ndarray:
    """Return ``count`` colours of a palette, shape (count, 3), 0 to 255."""
    stops = np.array([list(bytes.fromhex(c)) for c in PALETTES[name].split()], float)
    at = np.linspace(0.0, len(stops) - 1.0, count)
    places = np.arange(len(stops))
    return np.stack([np.interp(at, places, channel) for channel in stops.T], axis=1)


def colours(
    values: np.ndarray, name: str, low: float, high: float, count: int = 256
) -> np.ndarray:
    """Return the colours, uint8 with RGB last, of numbers from ``low`` to ``high``."""
    share = np.clip((np.asarray(values, dtype=float) - low) / (high - low), 0.0, 1.0)
    stops = palette(name, count).astype(np.uint8)
    return stops[np.rint(share * (count - 1)).astype(int)]


def tone(light: np.ndarray) -> np.ndarray:
    """Return linear light as bytes for a screen (ACES curve by Narkowicz, gamma)."""
    light = np.maximum(light, 0.0)
    film = light * (2.51 * light + 0.03) / (light * (2.43 * light + 0.59) + 0.14)
    return (255.0 * np.clip(film, 0.0, 1.0) ** (1.0 / 2.2)).astype(np.uint8)


class Canvas:
    """A picture to draw on, in pixels from the top left.

    Edges are smooth, since it is drawn three times as large.
    """

    SCALE = 3

    def __init__(
        self, width: int, height: int, background: str | np.ndarray = "#0b0f1a"
    ):
        size = (width * self.SCALE, height * self.SCALE)
        if isinstance(background, str):
            self.image = Image.new("RGB", size, background)
        else:
            picture = Image.fromarray(background)
            self.image = picture.resize(size, Image.Resampling.BICUBIC)
        self.size = (width, height)
        self.draw = ImageDraw.Draw(self.image)

    def dots(self, points: np.ndarray, shades: np.ndarray, radius: float) -> None:
        """Draw discs around ``points``, shape (n, 2), in colours of shape (n, 3)."""
        r = radius * self.SCALE
        places = np.asarray(points) * self.SCALE
        for (x, y), shade in zip(places, np.asarray(shades).tolist(), strict=True):
            self.draw.ellipse((x - r, y - r, x + r, y + r), fill=tuple(shade))

    def lines(
        self, points: np.ndarray, shade: str | tuple[int, ...], width: float = 1.0
    ) -> None:
        """Draw a line through the points of each row, shape (n, k, 2)."""
        for row in np.asarray(points) * self.SCALE:
            way = [tuple(p) for p in row.tolist()]
            self.draw.line(way, shade, round(width * self.SCALE), joint="curve")

    def polygons(self, corners: np.ndarray, shades: np.ndarray) -> None:
        """Fill polygons in order, shape (n, corners, 2), in colours of shape (n, 3)."""
        places = np.asarray(corners) * self.SCALE
        for row, shade in zip(places, np.asarray(shades).tolist(), strict=True):
            self.draw.polygon([tuple(p) for p in row.tolist()], fill=tuple(shade))

    def pixels(self) -> np.ndarray:
        """Return the picture, shape (height, width, 3), 0 to 255."""
        return np.asarray(self.image.resize(self.size, Image.Resampling.BOX))


def save_png(path: Path, image: np.ndarray) -> None:
    """Write one picture, shape (height, width, 3)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.ascontiguousarray(image)).save(path, optimize=True)
    print(f"Picture: {path}")


def save_gif(
    path: Path, frames: Sequence[np.ndarray], seconds: float, shades: int = 64
) -> None:
    """Write a repeating animation of ``seconds``, with ``shades`` colours in all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    some = np.concatenate(frames[:: max(1, len(frames) // 8)])
    chosen = Image.fromarray(some).quantize(shades, dither=Image.Dither.NONE)
    images = [Image.fromarray(np.ascontiguousarray(frame)) for frame in frames]
    images = [i.quantize(palette=chosen, dither=Image.Dither.NONE) for i in images]
    duration = round(1000.0 * seconds / len(frames))
    rest = {"save_all": True, "append_images": images[1:], "loop": 0}
    images[0].save(path, duration=duration, optimize=True, **rest)
    print(f"Picture: {path}")
