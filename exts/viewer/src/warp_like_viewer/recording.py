"""A backend that keeps frames, for tests and for showing them later."""

from __future__ import annotations

from warp_like_viewer.frame import Backend, Frame


class Recording:
    """Keeps every frame in the list `frames`."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def show(self, frame: Frame) -> None:
        """Keep a frame."""
        self.frames.append(frame)

    def close(self) -> None:
        """Do nothing: the frames stay."""

    def play(self, backend: Backend) -> None:
        """Show all frames through another backend, and close it."""
        for frame in self.frames:
            backend.show(frame)
        backend.close()
