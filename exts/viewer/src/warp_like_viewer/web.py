"""A backend that shows frames on a web page, through the package viser."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from warp_like_viewer.arrays import Array
from warp_like_viewer.frame import Camera, Frame, Instances, Item, Lines, Mesh, Points
from warp_like_viewer.viewer import fitted

MANY = 20_000
"""More points than this are sent as a cloud of discs, which have one size; fewer as spheres."""

Arguments = dict[str, Any]


class Viser:
    """Shows frames on a web page, which you open at `url`. The mouse turns, moves and zooms.

    The page follows the program: what a frame does not hold is removed. Numbers and images stand in the panel on the
    right. The page ends with `close()`, so let the program wait (`input()`) where its end should stay visible.

    Args:
        port: The port of the page; where it is taken, the next one that is free.
        host: The address to listen on. `"0.0.0.0"` shows the page to other machines, without a password.

    Raises:
        ModuleNotFoundError: The package viser is not installed.
    """

    def __init__(self, port: int = 8080, host: str = "127.0.0.1") -> None:
        try:
            import viser
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "the web page needs the package viser: `pip install viser`, or write files: `Files('out.gif')`",
                name=error.name,
            ) from error
        self.server = viser.ViserServer(host=host, port=port)
        self.server.gui.configure_theme(show_share_button=False)
        self.server.on_client_connect(self._aim)
        self._shown: dict[str, tuple[Arguments, Any]] = {}
        self._panel: dict[str, Any] = {}
        self._camera: Camera | None = None

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://localhost:{self.server.get_port()}"

    def show(self, frame: Frame) -> None:
        """Show a frame on all open pages."""
        self._look(frame)
        with self.server.atomic():
            for name in [name for name in self._shown if name not in frame.items]:
                self._shown.pop(name)[1].remove()
            for name, item in frame.items.items():
                self._place(name, item)
            for name in [name for name in self._panel if name not in {**frame.scalars, **frame.images}]:
                self._panel.pop(name).remove()
            for name, value in frame.scalars.items():
                self._write(name, f"{value:.6g}")
            for name, image in frame.images.items():
                self._write(name, image)
        self.server.flush()

    def close(self) -> None:
        """End the page."""
        self.server.stop()

    def _look(self, frame: Frame) -> None:
        """Move the cameras of open pages where the program's camera has changed; the mouse keeps them otherwise."""
        camera = frame.camera or self._camera or (fitted(frame) if frame.items else None)
        if camera is None or camera == self._camera:
            return
        self._camera = camera
        self.server.scene.set_up_direction(camera.up)
        for client in self.server.get_clients().values():
            self._aim(client)

    def _aim(self, client: Any) -> None:
        if self._camera is not None:
            with client.atomic():
                client.camera.up_direction = self._camera.up
                client.camera.position = self._camera.position
                client.camera.look_at = self._camera.target
                client.camera.fov = math.radians(self._camera.fov)

    def _place(self, name: str, item: Item) -> None:
        """Bring an item to the scene, unless the one that is there is the same."""
        method, arguments = described(item)
        old, _ = self._shown.get(name, ({}, None))
        arguments["method"] = method
        if old.keys() == arguments.keys() and all(np.array_equal(old[key], arguments[key]) for key in arguments):
            return
        add: Callable[..., Any] = getattr(self.server.scene, method)
        given = {key: value for key, value in arguments.items() if key != "method"}
        self._shown[name] = (arguments, add(f"/{name}", **given))

    def _write(self, name: str, value: str | Array) -> None:
        """Put a number or an image into the panel."""
        widget = self._panel.get(name)
        text = isinstance(value, str)
        if widget is not None and hasattr(widget, "value") == text:
            setattr(widget, "value" if text else "image", value)
            return
        if widget is not None:
            widget.remove()
        gui = self.server.gui
        self._panel[name] = gui.add_text(name, value, disabled=True) if text else gui.add_image(value, label=name)


def described(item: Item) -> tuple[str, Arguments]:
    """Return which method of viser's scene shows an item, and with which arguments."""
    if isinstance(item, Mesh):
        return _mesh(item)
    if isinstance(item, Lines):
        points = np.stack([item.starts, item.ends], axis=1)
        colors = np.repeat(_bytes(item.colors)[:, None], 2, axis=1)
        size = {"thickness": item.width, "thickness_units": "screen"}
        return "add_line_segments", {"points": points, "colors": colors, **size}
    if isinstance(item, Points):
        return _points(item)
    return _instances(item)


def _mesh(mesh: Mesh) -> tuple[str, Arguments]:
    colors = _bytes(mesh.colors)
    if len(np.unique(colors, axis=0)) <= 1:
        color = tuple(colors[0].tolist()) if len(colors) else (0, 0, 0)
        arguments = {"vertices": mesh.points, "faces": mesh.triangles, "color": color}
        return "add_mesh_simple", {**arguments, "flat_shading": not mesh.smooth, "side": "double"}
    return "add_mesh_trimesh", {"mesh": _coloured(mesh)}


def _points(item: Points) -> tuple[str, Arguments]:
    colors = _bytes(item.colors)
    if len(item.points) > MANY:
        cloud = {"point_size": 2 * float(item.radii.mean()), "point_shape": "circle", "precision": "float32"}
        return "add_point_cloud", {"points": item.points, "colors": colors, **cloud}
    vertices, faces = ball()
    turns = np.tile(np.float32([1, 0, 0, 0]), (len(colors), 1))
    places = {"batched_wxyzs": turns, "batched_positions": item.points, "batched_scales": item.radii}
    return "add_batched_meshes_simple", {
        "vertices": vertices,
        "faces": faces,
        "batched_colors": _linear(item.colors),
        **places,
    }


def _instances(item: Instances) -> tuple[str, Arguments]:
    mesh, moved = item.mesh, item.transforms
    turns = moved[:, [6, 3, 4, 5]] / np.linalg.norm(moved[:, 3:], axis=1, keepdims=True)
    places = {"batched_wxyzs": turns, "batched_positions": moved[:, :3], "batched_scales": item.scales}
    own = _bytes(mesh.colors)
    if item.colors is None and len(np.unique(own, axis=0)) > 1:
        return "add_batched_meshes_trimesh", {"mesh": _coloured(mesh), **places}
    colors = np.tile(mesh.colors[:1], (len(moved), 1)) if item.colors is None else item.colors
    look = {"flat_shading": not mesh.smooth, "side": "double", "batched_colors": _linear(colors)}
    return "add_batched_meshes_simple", {"vertices": mesh.points, "faces": mesh.triangles, **look, **places}


def _coloured(mesh: Mesh) -> Any:
    """A mesh with a colour for each vertex, as viser takes it."""
    import trimesh

    return trimesh.Trimesh(mesh.points, mesh.triangles, vertex_colors=_linear(mesh.colors), process=False)


def _bytes(colors: Array) -> Array:
    return np.round(255 * colors).astype(np.uint8)


def _linear(colors: Array) -> Array:
    """The colours of copies and vertices, which viser takes as amounts of light."""
    return _bytes(np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4))


def ball(rounds: int = 2) -> tuple[Array, Array]:
    """Return the vertices and triangles of a sphere of radius 1: an octahedron whose triangles are divided."""
    points = [np.array(p, float) for p in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (-1, 0, 0), (0, -1, 0), (0, 0, -1))]
    faces = [(0, 1, 2), (1, 3, 2), (3, 4, 2), (4, 0, 2), (1, 0, 5), (3, 1, 5), (4, 3, 5), (0, 4, 5)]
    for _ in range(rounds):
        middles: dict[tuple[int, int], int] = {}
        divided = []
        for a, b, c in faces:
            ab, bc, ca = (_middle(points, middles, i, j) for i, j in ((a, b), (b, c), (c, a)))
            divided += [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        faces = divided
    return np.array(points, np.float32), np.array(faces, np.uint32)


def _middle(points: list[Array], middles: dict[tuple[int, int], int], i: int, j: int) -> int:
    """The index of the vertex between two others, which is made where it is not there."""
    key = (min(i, j), max(i, j))
    if key not in middles:
        middle = points[i] + points[j]
        points.append(middle / np.linalg.norm(middle))
        middles[key] = len(points) - 1
    return middles[key]
