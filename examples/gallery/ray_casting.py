"""Ray casting of a mesh

A knot of triangles lies in the sun. Rays go from the camera to the mesh, and from where
they meet it to the sun and to the sky.

Group: Rendering
You learn: ``wp.Mesh``, ``wp.mesh_query_ray`` and ``wp.mesh_query_ray_anyhit``, and how
    to write a PNG file without any library.
Check: what rays meet, and whether the sun shines there, agrees with a search through
    all triangles in float64.
Method: T. Moeller, B. Trumbore, "Fast, minimum storage ray-triangle intersection", J.
    Graph. Tools 2, 1997, for the search; light of the sky by G. Miller, "Efficient
    algorithms for local and global accessibility shading", SIGGRAPH 1994.
"""

import argparse
import struct
import zlib
from pathlib import Path

import numpy as np

import warp_like as wp

OUTPUT = Path(__file__).resolve().parents[1] / "output"
EYE = wp.constant(wp.vec3(0.0, 3.3, 6.1))
SUN = wp.constant(wp.normalize(wp.vec3(0.62, 0.7, 0.38)))
AHEAD = wp.constant(wp.normalize(wp.vec3(0.0, -0.57, -1.0)))
RIGHT = wp.constant(wp.vec3(1.0, 0.0, 0.0))
UP = wp.constant(wp.cross(RIGHT, AHEAD))
ZOOM = 1.72  # focal length
FLOOR, FAR = -1.0, 100.0
TILT = 1.0e-3  # rays start so far above a surface


@wp.kernel
def measure(
    mesh: wp.uint64,
    rays: wp.array(dtype=wp.vec3),
    distance: wp.array(dtype=float),
    sunny: wp.array(dtype=int),
):
    """Write how far rays go from the camera, and whether the sun shines there."""
    i = wp.tid()
    hit = wp.mesh_query_ray(mesh, EYE, rays[i], FAR)
    distance[i] = wp.where(hit.result, hit.t, FAR)
    start = EYE + distance[i] * rays[i] + TILT * SUN
    sunny[i] = wp.where(wp.mesh_query_ray_anyhit(mesh, start, SUN, FAR), 0, 1)


@wp.kernel
def paint(
    mesh: wp.uint64,
    normals: wp.array(dtype=wp.vec3),
    tints: wp.array(dtype=wp.vec3),
    samples: int,
    image: wp.array2d(dtype=wp.vec3),
):
    """Write each pixel's light, the mean of ``samples`` rays."""
    i, j = wp.tid()
    width = float(image.shape[1])
    height = float(image.shape[0])
    state = wp.rand_init(7, i * image.shape[1] + j)
    light = wp.vec3(0.0, 0.0, 0.0)
    for _ in range(samples):
        right = (float(j) + wp.randf(state) - 0.5 * width) / height
        up = 0.5 - (float(i) + wp.randf(state)) / height
        ray = wp.normalize(right * RIGHT + up * UP + ZOOM * AHEAD)
        hit = wp.mesh_query_ray(mesh, EYE, ray, FAR)
        t = (FLOOR - EYE[1]) / wp.min(ray[1], -1.0e-6)
        normal = wp.vec3(0.0, 1.0, 0.0)
        tint = wp.vec3(0.42, 0.44, 0.5)
        if hit.result:
            t = hit.t
            a = wp.mesh_get_index(mesh, 3 * hit.face)
            b = wp.mesh_get_index(mesh, 3 * hit.face + 1)
            c = wp.mesh_get_index(mesh, 3 * hit.face + 2)
            w = 1.0 - hit.u - hit.v
            smooth = hit.u * normals[a] + hit.v * normals[b] + w * normals[c]
            normal = wp.normalize(smooth)
            tint = hit.u * tints[a] + hit.v * tints[b] + w * tints[c]
        place = EYE + t * ray + TILT * normal
        to_sky = wp.normalize(normal + wp.sample_unit_sphere_surface(state))
        arriving = wp.vec3(0.0, 0.0, 0.0)
        if not wp.mesh_query_ray_anyhit(mesh, place, to_sky, FAR):
            arriving = wp.vec3(0.34, 0.42, 0.58) * wp.max(to_sky[1] + 0.35, 0.0)
        to_sun = wp.normalize(SUN + 0.03 * wp.sample_unit_sphere_surface(state))
        facing = wp.max(wp.dot(normal, to_sun), 0.0)
        if facing > 0.0 and not wp.mesh_query_ray_anyhit(mesh, place, to_sun, FAR):
            shine = wp.max(wp.dot(wp.normalize(to_sun - ray), normal), 0.0)
            bright = facing + wp.where(hit.result, 0.8 * wp.pow(shine, 60.0), 0.0)
            arriving += bright * wp.vec3(2.5, 2.2, 1.7)
        fog = wp.exp(-0.006 * t * t)
        light += wp.lerp(wp.vec3(0.04, 0.06, 0.11), wp.cw_mul(tint, arriving), fog)
    image[i, j] = light / float(samples)


def unit(a: np.ndarray) -> np.ndarray:
    return a / np.linalg.norm(a, axis=1, keepdims=True)


def knot(along: int, around: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a knot's points, its normals there, and its triangles' corners."""
    s = np.linspace(0.0, 2.0 * np.pi, along, endpoint=False)
    r, y = 1.35 + 0.62 * np.cos(3.0 * s), -0.62 * np.sin(3.0 * s)
    middle = np.stack([r * np.cos(2.0 * s), y, r * np.sin(2.0 * s)], axis=1)
    ahead = np.roll(middle, -1, axis=0) - np.roll(middle, 1, axis=0)
    side = unit(np.cross(ahead, middle))
    up = unit(np.cross(side, ahead))
    angle = np.linspace(0.0, 2.0 * np.pi, around, endpoint=False)[:, None]
    normal = np.cos(angle) * side[:, None] + np.sin(angle) * up[:, None]
    i, k = np.divmod(np.arange(along * around), around)
    ahead, over = (i + 1) % along * around, (k + 1) % around
    a, b, c, d = i * around + k, ahead + k, ahead + over, i * around + over
    faces = np.stack([a, b, c, a, c, d], axis=1).reshape(-1, 3)
    points = middle[:, None] + 0.36 * normal
    return points.reshape(-1, 3), normal.reshape(-1, 3), faces


class Scene:
    """The knot, and a picture of it."""

    def __init__(self, quick: bool = False, samples: int = 4):
        self.shape, self.samples = (60, 96) if quick else (480, 768), samples
        along, around = (90, 16) if quick else (1800, 64)
        points, normals, self.faces = knot(along, around)
        turns = np.arange(len(points)) // around / along
        tints = 0.5 + 0.42 * np.cos(2.0 * np.pi * (turns[:, None] + [0.02, 0.32, 0.62]))
        self.points = wp.array(points, dtype=wp.vec3)
        self.mesh = wp.Mesh(self.points, wp.array(self.faces.ravel(), dtype=int))
        self.normals = wp.array(normals, dtype=wp.vec3)
        self.tints = wp.array(tints, dtype=wp.vec3)
        self.image = wp.zeros(self.shape, dtype=wp.vec3)

    def step(self) -> None:
        """Paint the picture."""
        inputs = [self.mesh.id, self.normals, self.tints, self.samples]
        wp.launch(paint, dim=self.shape, inputs=inputs, outputs=[self.image])


def nearest(corners: np.ndarray, start: np.ndarray, ray: np.ndarray) -> float:
    """Return how far a ray goes to the nearest of all triangles, (m, 3, 3)."""
    a = corners[:, 0]
    b, c = corners[:, 1] - a, corners[:, 2] - a
    p, q = np.cross(ray, c), np.cross(start - a, b)
    size = np.einsum("ij,ij->i", b, p)
    u = np.einsum("ij,ij->i", start - a, p) / size
    v, t = q @ ray / size, np.einsum("ij,ij->i", c, q) / size
    met = (u >= 0.0) & (v >= 0.0) & (u + v <= 1.0) & (t > 0.0)
    return float(t[met].min(initial=FAR))


def compare(scene: Scene, count: int) -> tuple[float, int]:
    """Return the largest error of ``count`` distances, and how many shadows differ."""
    eye, sun = np.array([*EYE], float), np.array([*SUN], float)
    rays = unit(np.random.default_rng(3).normal(size=(count, 3)) - eye)
    distance, sunny = wp.zeros(count, dtype=float), wp.zeros(count, dtype=int)
    inputs = [scene.mesh.id, wp.array(rays, dtype=wp.vec3)]
    wp.launch(measure, dim=count, inputs=inputs, outputs=[distance, sunny])
    corners = scene.points.numpy().astype(float)[scene.faces]
    far = np.array([nearest(corners, eye, ray) for ray in rays])
    starts = eye + far[:, None] * rays + TILT * sun
    light = [nearest(corners, start, sun) == FAR for start in starts]
    return np.abs(distance.numpy() - far).max(), np.sum(sunny.numpy() != light)


def save_png(path: Path, image: np.ndarray) -> None:
    """Write a picture, uint8 of shape (height, width, 3)."""

    def chunk(name: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(name + data))
        return struct.pack(">I", len(data)) + name + data + check

    height, width, _ = image.shape
    # A row is stored as differences from the one above it, which filter 2 means.
    rows = np.diff(image.reshape(height, -1), axis=0, prepend=np.uint8(0))
    data = np.insert(rows, 0, 2, axis=1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(data, 9)), (b"IEND", b"")]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts))
    print(f"Picture: {path}")


def main(quick: bool, out: Path) -> None:
    scene = Scene(quick, samples=2 if quick else 24)
    error, differ = compare(scene, 200)
    print(f"Distances differ by at most {error:.1e}, and {differ} shadows differ")
    if error > 1e-4 or differ > 1:  # one ray may graze an edge
        raise SystemExit(f"Wrong result: {error:.1e} off, {differ} shadows differ")
    scene.step()
    light = scene.image.numpy()
    seen = 255.0 * np.clip(light / (0.6 + light) * 1.25, 0.0, 1.0) ** (1.0 / 2.2)
    save_png(out / "ray_casting.png", seen.astype(np.uint8))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a small problem")
    parser.add_argument("--out", type=Path, default=OUTPUT, help="folder")
    main(**vars(parser.parse_args()))
