"""Backends that make pictures: PNG files, GIF and MP4 files, and the live view of a notebook."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from warp_like_viewer.arrays import Array
from warp_like_viewer.frame import Camera, Frame
from warp_like_viewer.picture import render
from warp_like_viewer.viewer import fitted

MARGIN = 12
"""Pixels between the picture's edges and what is written on it."""

FAST = 1
"""zlib's level for PNG files: half the time of the usual level for a twelfth more bytes."""


class Painter:
    """Paints frames: the items from the camera, the images that were logged, and the numbers as text.

    Where a frame has images and no items, the images fill the picture. Where it has both, they stand on the right.

    Args:
        size: Width and height in pixels.
        samples: Rows and columns of samples in each pixel.
    """

    def __init__(self, size: tuple[int, int] = (1280, 720), samples: int = 2) -> None:
        if min(size) < 1 or samples < 1:
            raise ValueError(f"expected a size of at least 1 x 1 and at least 1 sample, got {size} and {samples}")
        self.size = size
        self.samples = samples
        self._fitted: Camera | None = None

    def paint(self, frame: Frame) -> Array:
        """Return a frame's picture as (height, width, 3) bytes."""
        width, height = self.size
        if frame.items or not frame.images:
            picture = Image.fromarray(render(frame, self._camera(frame), self.size, self.samples))
            slots = [(width - MARGIN - height // 3, MARGIN + k * (height // 3), height // 3) for k in range(3)]
            for image, (x, y, side) in zip(frame.images.values(), slots, strict=False):
                _paste(picture, image, (x, y, side, side - MARGIN))
        else:
            picture = Image.new("RGB", self.size, "white")
            columns = math.ceil(math.sqrt(len(frame.images)))
            rows = math.ceil(len(frame.images) / columns)
            w, h = width // columns, height // rows
            for k, image in enumerate(frame.images.values()):
                _paste(picture, image, (k % columns * w, k // columns * h, w, h))
        text = "\n".join(f"{name}: {value:.6g}" for name, value in frame.scalars.items())
        if text:
            ImageDraw.Draw(picture).multiline_text(
                (MARGIN, MARGIN), text, fill=(20, 20, 24), font_size=height // 36 + 4
            )
        return np.asarray(picture)

    def _camera(self, frame: Frame) -> Camera:
        if frame.camera is not None:
            return frame.camera
        if self._fitted is None:
            camera = fitted(frame, self.size[0] / self.size[1])
            if not frame.items:
                return camera  # a later frame, which has something in it, decides
            self._fitted = camera
        return self._fitted


def _paste(picture: Image.Image, image: Array, box: tuple[int, int, int, int]) -> None:
    """Put an image into the middle of a box (x, y, width, height), as large as fits."""
    x, y, width, height = box
    scale = min(width / image.shape[1], height / image.shape[0])
    w, h = max(1, int(image.shape[1] * scale)), max(1, int(image.shape[0] * scale))
    how = Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.BOX
    shown = Image.fromarray(image).resize((w, h), how)
    picture.paste(shown, (x + (width - w) // 2, y + (height - h) // 2))


class Files:
    """Writes each frame as a PNG file, or all of them as one GIF or MP4 file.

    Args:
        path: `out.gif` or `out.mp4` for one file, which `close()` writes; `out.png` or a folder for a file a frame:
            `out_0000.png`, or `folder/frame_0000.png`. Folders are made.
        size: Width and height in pixels.
        fps: Frames in a second, for GIF and MP4.
        samples: Rows and columns of samples in each pixel.

    Raises:
        ValueError: Files of this kind can't be written.
        ModuleNotFoundError: MP4 needs the package imageio-ffmpeg.
    """

    def __init__(
        self, path: str | Path, size: tuple[int, int] = (1280, 720), fps: float = 30.0, samples: int = 2
    ) -> None:
        self.path = Path(path)
        self.fps = fps
        self._painter = Painter(size, samples)
        self._pictures: list[Array] = []
        self._video: Any = None
        self._closed = False
        kind = self.path.suffix.lower()
        if kind not in ("", ".png", ".gif", ".mp4"):
            raise ValueError(f"can't write {str(self.path)!r}: expected a folder or a .png, .gif or .mp4 file")
        if kind == ".mp4":
            _encoder()
            if size[0] % 2 or size[1] % 2:
                raise ValueError(f"MP4 needs an even width and height, got {size}")
        (self.path.parent if kind else self.path).mkdir(parents=True, exist_ok=True)

    def show(self, frame: Frame) -> None:
        """Write a frame."""
        if self._closed:
            raise RuntimeError(f"{str(self.path)!r} is closed: make a new viewer for further frames")
        picture = self._painter.paint(frame)
        kind = self.path.suffix.lower()
        if kind == ".gif":
            self._pictures.append(picture)
        elif kind == ".mp4":
            self._send(picture)
        else:
            stem = self.path.with_suffix("") if kind else self.path / "frame"
            Image.fromarray(picture).save(f"{stem}_{frame.number:04d}.png", compress_level=FAST)

    def close(self) -> None:
        """Write the GIF, or finish the video."""
        self._closed = True
        if self._video is not None:
            self._video.close()
            self._video = None
        if self._pictures:
            first, *others = [Image.fromarray(p).quantize(128) for p in self._pictures]
            milliseconds = max(20, round(1000 / self.fps))  # viewers slow down what is faster
            first.save(self.path, save_all=True, append_images=others, duration=milliseconds, loop=0)
            self._pictures = []

    def _send(self, picture: Array) -> None:
        if self._video is None:
            height, width = picture.shape[:2]
            self._video = _encoder()(str(self.path), (width, height), fps=self.fps, macro_block_size=2)
            self._video.send(None)
        self._video.send(np.ascontiguousarray(picture))


def _encoder() -> Callable[..., Any]:
    """What starts to write an MP4 file."""
    try:
        from imageio_ffmpeg import write_frames
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "MP4 files need an encoder: `pip install imageio-ffmpeg`, or write a .gif file", name="imageio_ffmpeg"
        ) from error
    return write_frames


class Notebook:
    """Shows frames in a notebook's cell: one picture, which changes.

    Args:
        size: Width and height in pixels.
        samples: Rows and columns of samples in each pixel.

    Raises:
        ModuleNotFoundError: IPython is not installed.
    """

    def __init__(self, size: tuple[int, int] = (640, 360), samples: int = 2) -> None:
        import IPython.display

        self._display = IPython.display
        self._painter = Painter(size, samples)
        self._handle: Any = None

    def show(self, frame: Frame) -> None:
        """Show a frame in place of the one before."""
        file = io.BytesIO()
        Image.fromarray(self._painter.paint(frame)).save(file, "PNG", compress_level=FAST)
        picture = self._display.Image(file.getvalue(), format="png")
        if self._handle is None:
            self._handle = self._display.display(picture, display_id=True)
        else:
            self._handle.update(picture)

    def close(self) -> None:
        """Do nothing: the last picture stays."""
