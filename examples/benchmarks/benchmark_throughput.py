"""How long kernels of twelve shapes take, beside warp-lang, numba, NumPy, PyTorch and C++; milliseconds a launch.

    python examples/benchmarks/benchmark_throughput.py --json throughput.json

The shapes: memory bound (saxpy, Jacobi), one special function (sine), arithmetic over all pairs (n-body),
divergent loops (Mandelbrot, ray marching), a reduction per thread (matmul, written naively; NumPy and PyTorch call
BLAS there), a small neural network evaluated by each thread, Runge-Kutta steps of pendulums, Newton steps in float64, a
sparse product (gathers), and quaternions. Every result is checked against NumPy before anything is timed. All arrays
but Newton's are float32. warp-lang's CPU runs on one thread; numba has ``parallel=True, fastmath=True``; C++ is
``reference.cpp``, plain loops with OpenMP under ``-O3 -march=native -ffast-math``; the others use all cores. The last
line is the geometric mean of each column's time over that of C++, for the rows that it has.
"""

from dataclasses import dataclass, field

import cpp_reference
import harness
import numpy as np
from harness import Program

COLUMNS = [*harness.WARPS, "numba", "NumPy", "PyTorch", "C++"]
FRAMEWORKS = COLUMNS[:-1]
SOFTENING = 1.0e-2  # added to the squared distance of two bodies
ESCAPE_STEPS = 256  # most iterations of a point of the Mandelbrot set
MARCH_STEPS = 64  # most steps of a ray


# --- the kernels, for warp_like and warp-lang --------------------------------------------------------------


def make_saxpy(wp):
    @wp.kernel
    def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float, out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = a * x[i] + y[i]

    return saxpy


def make_sine(wp):
    @wp.kernel
    def sine(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = wp.sin(x[i])

    return sine


def make_jacobi(wp):
    @wp.kernel
    def jacobi(u: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
        i, j = wp.tid()
        if i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
            out[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        else:
            out[i, j] = u[i, j]

    return jacobi


def make_nbody(wp):
    @wp.kernel
    def nbody(
        positions: wp.array(dtype=wp.vec3),
        masses: wp.array(dtype=float),
        out: wp.array(dtype=wp.vec3),
    ):
        i = wp.tid()
        here = positions[i]
        acceleration = wp.vec3(0.0, 0.0, 0.0)
        for j in range(positions.shape[0]):
            d = positions[j] - here
            r = wp.sqrt(wp.dot(d, d) + SOFTENING)
            acceleration += (masses[j] / (r * r * r)) * d
        out[i] = acceleration

    return nbody


def make_mandelbrot(wp):
    @wp.kernel
    def mandelbrot(out: wp.array2d(dtype=int)):
        i, j = wp.tid()
        cx = -2.0 + 2.5 * float(j) / float(out.shape[1])
        cy = -1.25 + 2.5 * float(i) / float(out.shape[0])
        x = wp.float32(0.0)
        y = wp.float32(0.0)
        n = wp.int32(0)
        while n < ESCAPE_STEPS and x * x + y * y <= 4.0:
            t = x * x - y * y + cx
            y = 2.0 * x * y + cy
            x = t
            n += 1
        out[i, j] = n

    return mandelbrot


def make_matmul(wp):
    @wp.kernel
    def matmul(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
        i, j = wp.tid()
        total = wp.float32(0.0)
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        out[i, j] = total

    return matmul


def make_network(wp):
    @wp.kernel
    def network(
        points: wp.array(dtype=wp.vec3),
        hidden: wp.array(dtype=wp.vec3),
        bias: wp.array(dtype=float),
        output: wp.array(dtype=float),
        out: wp.array(dtype=float),
    ):
        i = wp.tid()
        p = points[i]
        total = wp.float32(0.0)
        for h in range(hidden.shape[0]):
            total += output[h] * wp.tanh(wp.dot(hidden[h], p) + bias[h])
        out[i] = total

    return network


def make_march(wp):
    @wp.func
    def distance(p: wp.vec3):
        return wp.min(wp.length(p) - 1.0, wp.length(p - wp.vec3(0.8, 0.6, 0.2)) - 0.5)

    @wp.kernel
    def march(out: wp.array2d(dtype=float)):
        i, j = wp.tid()
        x = float(j) / float(out.shape[1]) - 0.5
        y = float(i) / float(out.shape[0]) - 0.5
        ray = wp.normalize(wp.vec3(x, y, 1.0))
        t = wp.float32(0.0)
        for _step in range(MARCH_STEPS):
            h = distance(wp.vec3(0.0, 0.0, -3.0) + t * ray)
            if h < 1.0e-3 or t > 10.0:
                break
            t += h
        out[i, j] = t

    return march


def make_pendulum(wp):
    @wp.func
    def slope(s: wp.vec2):
        return wp.vec2(s[1], -wp.sin(s[0]))

    @wp.kernel
    def pendulum(start: wp.array(dtype=wp.vec2), steps: int, out: wp.array(dtype=wp.vec2)):
        i = wp.tid()
        s = start[i]
        for _step in range(steps):
            k1 = slope(s)
            k2 = slope(s + 0.005 * k1)
            k3 = slope(s + 0.005 * k2)
            k4 = slope(s + 0.01 * k3)
            s += (0.01 / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        out[i] = s

    return pendulum


def make_newton(wp):
    @wp.kernel
    def newton(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
        i = wp.tid()
        r = x[i]
        for _step in range(50):
            r = r - (r * r - x[i]) / (wp.float64(2.0) * r)
        out[i] = r

    return newton


def make_sparse(wp):
    @wp.kernel
    def sparse(
        values: wp.array(dtype=float),
        columns: wp.array(dtype=int),
        first: wp.array(dtype=int),
        x: wp.array(dtype=float),
        out: wp.array(dtype=float),
    ):
        i = wp.tid()
        total = wp.float32(0.0)
        for k in range(first[i], first[i + 1]):
            total += values[k] * x[columns[k]]
        out[i] = total

    return sparse


def make_rotate(wp):
    @wp.kernel
    def rotate(q: wp.array(dtype=wp.quat), v: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        out[i] = wp.quat_rotate(q[i], v[i])

    return rotate


FACTORIES = [
    make_saxpy, make_sine, make_jacobi, make_nbody, make_mandelbrot, make_matmul, make_network, make_march,
    make_pendulum, make_newton, make_sparse, make_rotate,
]  # fmt: skip


# --- the rows: data, NumPy's answer, the peers' programs ---------------------------------------------------


@dataclass
class Row:
    name: str
    expected: np.ndarray
    programs: dict[str, Program]
    tolerance: dict = field(default_factory=dict)


class Peers:
    """The frameworks here, with all kernels made up front: warp-lang compiles a module as a whole."""

    def __init__(self):
        self.found = harness.find_frameworks(FRAMEWORKS)
        self.cpp = cpp_reference.load()
        self.kernels = {
            column: {make.__name__.removeprefix("make_"): make(self.found[column]) for make in FACTORIES}
            for column in harness.WARPS
            if column in self.found
        }
        self.torch, self.numba = self.found.get("PyTorch"), self.found.get("numba")

    def launches(self, name: str, dim, inputs: list, shape, dtypes: list) -> dict[str, Program]:
        """Return a launch of one kernel for each Warp.

        ``shape`` is that of the output; ``dtypes`` are those of the arrays in ``inputs`` and of the output.
        """
        return {
            column: launch(self.found[column], kernels[name], dim, inputs, shape, dtypes)
            for column, kernels in self.kernels.items()
        }

    def cpp_program(self, name: str, out: np.ndarray, *args) -> dict[str, Program]:
        """Return the C++ column: its function of ``name`` on ``args``, which writes ``out``."""
        if self.cpp is None:
            return {}
        return {"C++": Program(cpp_reference.call(getattr(self.cpp, name), *args, out), lambda: out)}

    def jit(self, function):
        return self.numba.njit(parallel=True, fastmath=True)(function)


def launch(wp, kernel, dim, inputs: list, shape, dtypes: list) -> Program:
    types = [getattr(wp, name) for name in dtypes]
    arrays = iter(types)
    inputs = [wp.array(v, dtype=next(arrays)) if isinstance(v, np.ndarray) else v for v in inputs]
    out = wp.zeros(shape, dtype=types[-1])
    return Program(lambda: wp.launch(kernel, dim=dim, inputs=inputs, outputs=[out]), out.numpy)


def writes(run, out: np.ndarray) -> Program:
    """Return a program whose ``run(out)`` fills a NumPy array."""
    return Program(lambda: run(out), lambda: out)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def saxpy_row(peers: Peers, n: int) -> Row:
    x, y, a = random(n), random(n)[::-1].copy(), np.float32(2.5)
    programs = peers.launches("saxpy", n, [x, y, 2.5], n, ["float32", "float32", "float32"])
    if peers.numba:
        prange = peers.numba.prange

        @peers.jit
        def saxpy(x, y, a, out):
            for i in prange(x.shape[0]):
                out[i] = a * x[i] + y[i]

        programs["numba"] = writes(lambda out: saxpy(x, y, a, out), np.empty_like(x))
    programs["NumPy"] = writes(lambda out: np.add(np.multiply(x, a, out=out), y, out=out), np.empty_like(x))
    if peers.torch:
        tx, ty = peers.torch.from_numpy(x), peers.torch.from_numpy(y)
        out = peers.torch.empty_like(tx)
        programs["PyTorch"] = Program(lambda: peers.torch.add(ty, tx, alpha=2.5, out=out), out.numpy)
    programs |= peers.cpp_program("saxpy", np.empty_like(x), n, x, y, a)
    return Row(f"saxpy {n}", a * x + y, programs)


def sine_row(peers: Peers, n: int) -> Row:
    x = 10.0 * random(n)
    programs = peers.launches("sine", n, [x], n, ["float32", "float32"])
    if peers.numba:
        prange = peers.numba.prange

        @peers.jit
        def sine(x, out):
            for i in prange(x.shape[0]):
                out[i] = np.sin(x[i])

        programs["numba"] = writes(lambda out: sine(x, out), np.empty_like(x))
    programs["NumPy"] = writes(lambda out: np.sin(x, out=out), np.empty_like(x))
    if peers.torch:
        tx = peers.torch.from_numpy(x)
        out = peers.torch.empty_like(tx)
        programs["PyTorch"] = Program(lambda: peers.torch.sin(tx, out=out), out.numpy)
    programs |= peers.cpp_program("sine", np.empty_like(x), n, x)
    return Row(f"sine {n}", np.sin(x.astype(np.float64)), programs)


def jacobi_row(peers: Peers, n: int) -> Row:
    u = random(n, n)
    programs = peers.launches("jacobi", (n, n), [u], (n, n), ["float32", "float32"])

    def sliced(out):
        out[:] = u
        out[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        return out

    if peers.numba:
        prange, quarter = peers.numba.prange, np.float32(0.25)

        @peers.jit
        def jacobi(u, out):
            for i in prange(u.shape[0]):
                for j in range(u.shape[1]):
                    if i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
                        out[i, j] = quarter * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
                    else:
                        out[i, j] = u[i, j]

        programs["numba"] = writes(lambda out: jacobi(u, out), np.empty_like(u))
    programs["NumPy"] = writes(sliced, np.empty_like(u))
    programs |= peers.cpp_program("jacobi", np.empty_like(u), n, u)
    return Row(f"Jacobi {n} x {n}", sliced(np.empty_like(u)), programs)


def accelerations(positions: np.ndarray, masses: np.ndarray, chunk: int = 256) -> np.ndarray:
    """Return every body's acceleration in float64."""
    p, out = positions.astype(np.float64), []
    for start in range(0, len(p), chunk):
        d = p[None, :] - p[start : start + chunk, None]
        weights = masses * (np.einsum("ijk,ijk->ij", d, d) + SOFTENING) ** -1.5
        out.append(np.einsum("ij,ijk->ik", weights, d))
    return np.concatenate(out)


def nbody_row(peers: Peers, n: int) -> Row:
    positions, masses = random(n, 3), np.abs(random(n)) / n
    programs = peers.launches("nbody", n, [positions, masses], n, ["vec3", "float32", "vec3"])
    if peers.numba:
        prange, softening, zero = peers.numba.prange, np.float32(SOFTENING), np.float32(0.0)

        @peers.jit
        def nbody(p, m, out):
            for i in prange(p.shape[0]):
                ax, ay, az = zero, zero, zero
                for j in range(p.shape[0]):
                    dx, dy, dz = p[j, 0] - p[i, 0], p[j, 1] - p[i, 1], p[j, 2] - p[i, 2]
                    r = np.sqrt(dx * dx + dy * dy + dz * dz + softening)
                    w = m[j] / (r * r * r)
                    ax, ay, az = ax + w * dx, ay + w * dy, az + w * dz
                out[i, 0], out[i, 1], out[i, 2] = ax, ay, az

        programs["numba"] = writes(lambda out: nbody(positions, masses, out), np.empty_like(positions))
    programs |= peers.cpp_program("nbody", np.empty_like(positions), n, positions, masses)
    return Row(f"n-body {n}", accelerations(positions, masses), programs, {"rtol": 1.0e-3, "atol": 1.0e-4})


def escape_steps(n: int) -> np.ndarray:
    """Return the iteration in which each point of the plane leaves the circle of radius 2."""
    cx = np.float32(-2.0) + np.float32(2.5) * np.arange(n, dtype=np.float32) / np.float32(n)
    cy = np.float32(-1.25) + np.float32(2.5) * np.arange(n, dtype=np.float32) / np.float32(n)
    c = (cx[None, :] + 1j * cy[:, None]).astype(np.complex64).ravel()
    steps, inside, z = np.zeros(n * n, dtype=np.int32), np.arange(n * n), np.zeros(n * n, dtype=np.complex64)
    for _ in range(ESCAPE_STEPS):
        z = z * z + c[inside]
        steps[inside] += 1
        keep = z.real**2 + z.imag**2 <= 4.0
        z, inside = z[keep], inside[keep]
    return steps.reshape(n, n)


def mandelbrot_row(peers: Peers, n: int) -> Row:
    programs = peers.launches("mandelbrot", (n, n), [], (n, n), ["int32"])
    if peers.numba:
        prange, f32 = peers.numba.prange, np.float32

        @peers.jit
        def mandelbrot(out):
            for i in prange(out.shape[0]):
                for j in range(out.shape[1]):
                    cx = f32(-2.0) + f32(2.5) * f32(j) / f32(out.shape[1])
                    cy = f32(-1.25) + f32(2.5) * f32(i) / f32(out.shape[0])
                    x, y, n = f32(0.0), f32(0.0), 0
                    while n < ESCAPE_STEPS and x * x + y * y <= f32(4.0):
                        x, y = x * x - y * y + cx, f32(2.0) * x * y + cy
                        n += 1
                    out[i, j] = n

        programs["numba"] = writes(mandelbrot, np.empty((n, n), dtype=np.int32))
    programs |= peers.cpp_program("mandelbrot", np.empty((n, n), dtype=np.int32), n)
    return Row(f"Mandelbrot {n} x {n}", escape_steps(n), programs, {"outliers": 0.005})


def matmul_row(peers: Peers, n: int) -> Row:
    a, b = random(n, n), random(n, n).T.copy()
    programs = peers.launches("matmul", (n, n), [a, b], (n, n), ["float32", "float32", "float32"])
    if peers.numba:
        prange, zero = peers.numba.prange, np.float32(0.0)

        @peers.jit
        def matmul(a, b, out):
            for i in prange(a.shape[0]):
                for j in range(b.shape[1]):
                    total = zero
                    for k in range(a.shape[1]):
                        total += a[i, k] * b[k, j]
                    out[i, j] = total

        programs["numba"] = writes(lambda out: matmul(a, b, out), np.empty_like(a))
    programs["NumPy"] = writes(lambda out: np.matmul(a, b, out=out), np.empty_like(a))
    if peers.torch:
        ta, tb = peers.torch.from_numpy(a), peers.torch.from_numpy(b)
        out = peers.torch.empty_like(ta)
        programs["PyTorch"] = Program(lambda: peers.torch.matmul(ta, tb, out=out), out.numpy)
    programs |= peers.cpp_program("matmul", np.empty_like(a), n, a, b)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    return Row(f"matmul {n}, naive", exact, programs, {"rtol": 1.0e-3, "atol": 1.0e-3})


def network_row(peers: Peers, n: int, width: int = 64) -> Row:
    points, hidden, bias, output = random(n, 3), random(width, 3), random(width), random(width)[::-1].copy()
    inputs, dtypes = [points, hidden, bias, output], ["vec3", "vec3", "float32", "float32", "float32"]
    programs = peers.launches("network", n, inputs, n, dtypes)
    if peers.numba:
        prange, zero = peers.numba.prange, np.float32(0.0)

        @peers.jit
        def network(p, hidden, bias, output, out):
            for i in prange(p.shape[0]):
                total = zero
                for h in range(hidden.shape[0]):
                    s = hidden[h, 0] * p[i, 0] + hidden[h, 1] * p[i, 1] + hidden[h, 2] * p[i, 2] + bias[h]
                    total += output[h] * np.tanh(s)
                out[i] = total

        programs["numba"] = writes(lambda out: network(*inputs, out), np.empty(n, np.float32))

    def layers(out):
        return np.matmul(np.tanh(points @ hidden.T + bias), output, out=out)

    programs["NumPy"] = writes(layers, np.empty(n, np.float32))
    if torch := peers.torch:
        tp, th, tb, to = (torch.from_numpy(v) for v in inputs)
        out = torch.empty(n)
        programs["PyTorch"] = Program(lambda: torch.mv(torch.tanh(tp @ th.T + tb), to, out=out), out.numpy)
    programs |= peers.cpp_program("network", np.empty(n, np.float32), n, width, *inputs)
    exact = np.tanh(points.astype(np.float64) @ hidden.T + bias) @ output
    return Row(f"MLP 3-{width}-1, {n} points", exact, programs, {"rtol": 1.0e-3, "atol": 1.0e-4})


def march_row(peers: Peers, n: int) -> Row:
    programs = peers.launches("march", (n, n), [], (n, n), ["float32"])
    programs |= peers.cpp_program("march", np.empty((n, n), np.float32), n)
    j, i = np.meshgrid(np.arange(n) / n - 0.5, np.arange(n) / n - 0.5)
    rays = np.stack([j, i, np.ones_like(i)], axis=-1)
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    t, going = np.zeros((n, n)), np.ones((n, n), bool)
    for _ in range(MARCH_STEPS):
        p = np.array([0.0, 0.0, -3.0]) + t[..., None] * rays
        h = np.minimum(np.linalg.norm(p, axis=-1) - 1.0, np.linalg.norm(p - [0.8, 0.6, 0.2], axis=-1) - 0.5)
        going &= ~((h < 1.0e-3) | (t > 10.0))
        t += np.where(going, h, 0.0)
    return Row(f"ray marching {n} x {n}", t, programs, {"rtol": 1.0e-2, "outliers": 0.005})


def pendulum_row(peers: Peers, n: int, steps: int = 200) -> Row:
    start = random(n, 2)
    programs = peers.launches("pendulum", n, [start, steps], n, ["vec2", "vec2"])
    programs |= peers.cpp_program("pendulum", np.empty_like(start), n, steps, start)

    def slope(s):
        return np.stack([s[:, 1], -np.sin(s[:, 0])], axis=1)

    s = start.astype(np.float64)
    for _ in range(steps):
        k1 = slope(s)
        k2 = slope(s + 0.005 * k1)
        k3 = slope(s + 0.005 * k2)
        k4 = slope(s + 0.01 * k3)
        s += 0.01 / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return Row(f"Runge-Kutta {n}, {steps} steps", s, programs, {"rtol": 1.0e-3, "atol": 1.0e-4})


def newton_row(peers: Peers, n: int) -> Row:
    x = np.abs(random(n)).astype(np.float64) + 0.1
    programs = peers.launches("newton", n, [x], n, ["float64", "float64"])
    programs |= peers.cpp_program("newton", np.empty_like(x), n, x)
    return Row(f"Newton {n}, float64", np.sqrt(x), programs, {"rtol": 1.0e-12})


def sparse_row(peers: Peers, n: int) -> Row:
    rng = np.random.default_rng(1)
    first = np.concatenate([[0], np.cumsum(rng.integers(5, 10, n))]).astype(np.int32)
    values, columns = random(first[-1]), rng.integers(0, n, first[-1]).astype(np.int32)
    x = random(n)
    inputs, dtypes = [values, columns, first, x], ["float32", "int32", "int32", "float32", "float32"]
    programs = peers.launches("sparse", n, inputs, n, dtypes)
    programs |= peers.cpp_program("sparse", np.empty(n, np.float32), n, *inputs)
    exact = np.add.reduceat(values.astype(np.float64) * x[columns], first[:-1])
    return Row(f"sparse product {n}", exact, programs, {"rtol": 1.0e-3, "atol": 1.0e-4})


def rotate_row(peers: Peers, n: int) -> Row:
    q, v = random(n, 4), random(n, 3)
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    programs = peers.launches("rotate", n, [q, v], n, ["quat", "vec3", "vec3"])
    programs |= peers.cpp_program("rotate", np.empty_like(v), n, q, v)
    axis, w = q[:, :3].astype(np.float64), q[:, 3:].astype(np.float64)
    dot = np.sum(axis * v, axis=1, keepdims=True)
    exact = v * (2.0 * w * w - 1.0) + 2.0 * w * np.cross(axis, v) + 2.0 * axis * dot
    return Row(f"quaternions {n}", exact, programs, {"rtol": 1.0e-3, "atol": 1.0e-4})


ROWS = {
    saxpy_row: (2**24, 2**12),  # the size, and the one under --quick
    sine_row: (2**22, 2**12),
    jacobi_row: (2048, 64),
    nbody_row: (8192, 256),
    mandelbrot_row: (1024, 64),
    matmul_row: (512, 32),
    network_row: (2**17, 2**10),
    march_row: (512, 32),
    pendulum_row: (2**14, 2**6),
    newton_row: (2**16, 2**8),
    sparse_row: (2**18, 2**8),
    rotate_row: (2**20, 2**8),
}


def over_cpp(rows: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the geometric mean of each column's times over those of C++, for the rows that both have."""
    means = {}
    for column in COLUMNS:
        ratios = [times[column] / times["C++"] for times in rows.values() if column in times]
        if ratios:
            means[column] = float(np.exp(np.mean(np.log(ratios))))
    return means


def main(argv: list[str] | None = None) -> dict:
    options = harness.arguments(__doc__.splitlines()[0], argv)
    peers = Peers()
    rows = {}
    for make_row, sizes in ROWS.items():
        row = make_row(peers, sizes[options.quick])
        rows[row.name] = harness.measure_row(row.name, row.programs, row.expected, **row.tolerance)
    harness.report("throughput", "one launch, milliseconds", COLUMNS, rows, 1.0e3, options.json)
    if peers.cpp is not None:
        harness.print_table("times as long as C++", COLUMNS, {"geometric mean": over_cpp(rows)}, 1.0)
    return rows


if __name__ == "__main__":
    main()
