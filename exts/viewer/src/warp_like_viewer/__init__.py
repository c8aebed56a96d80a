"""Pictures, videos and recordings of simulations: `Viewer(Files("out.gif"))`."""

from __future__ import annotations

from warp_like_viewer.arrays import LogError
from warp_like_viewer.files import Files, Notebook
from warp_like_viewer.frame import Camera, Frame, Instances, Lines, Mesh, Points
from warp_like_viewer.picture import render
from warp_like_viewer.recording import Recording
from warp_like_viewer.rerun_log import Rerun
from warp_like_viewer.viewer import Viewer, fitted
from warp_like_viewer.web import Viser

__all__ = [
    "Camera",
    "Files",
    "Frame",
    "Instances",
    "Lines",
    "LogError",
    "Mesh",
    "Notebook",
    "Points",
    "Recording",
    "Rerun",
    "Viewer",
    "Viser",
    "fitted",
    "render",
]
