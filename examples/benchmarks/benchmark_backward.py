"""A value and its gradient, beside warp-lang and PyTorch; milliseconds for both together.

    python examples/benchmarks/benchmark_backward.py --json backward.json

Two functions: the chained Rosenbrock function, where a thread reads two neighbours, and the potential energy
of bodies under gravity, where every thread reads all bodies in a dynamic loop, so that all gradients meet at
all bodies. PyTorch runs its autograd on whole tensors. The gradients are checked against formulas in NumPy
(float64) before anything is timed; the arrays are float32.
"""

import harness
import numpy as np
from harness import Program

SOFTENING = 1.0e-2  # added to the squared distance of two bodies


def make_rosenbrock(wp):
    @wp.kernel
    def rosenbrock(x: wp.array(dtype=float), value: wp.array(dtype=float)):
        i = wp.tid()
        a = 1.0 - x[i]
        b = x[i + 1] - x[i] * x[i]
        wp.atomic_add(value, 0, a * a + 100.0 * b * b)

    return rosenbrock


def make_energy(wp):
    @wp.kernel
    def energy(positions: wp.array(dtype=wp.vec3), value: wp.array(dtype=float)):
        i = wp.tid()
        total = wp.float32(0.0)
        for j in range(positions.shape[0]):
            d = positions[j] - positions[i]
            total += 1.0 / wp.sqrt(wp.dot(d, d) + SOFTENING)
        wp.atomic_add(value, 0, -0.5 * total)

    return energy


def taped(wp, kernel, dim: int, values: np.ndarray, dtype) -> Program:
    """Return a launch and its backward pass; the tape is recorded once."""
    x = wp.array(values, dtype=dtype, requires_grad=True)
    value = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(kernel, dim=dim, inputs=[x], outputs=[value])

    def run():
        tape.zero()
        value.zero_()
        wp.launch(kernel, dim=dim, inputs=[x], outputs=[value])
        tape.backward(loss=value)

    return Program(run, lambda: np.append(x.grad.numpy(), value.numpy()))


def autograd(torch, function, values: np.ndarray) -> Program:
    x = torch.from_numpy(values.copy()).requires_grad_()
    value = torch.zeros(())

    def run():
        nonlocal value
        x.grad = None
        value = function(x)
        value.backward()

    return Program(run, lambda: np.append(x.grad.numpy(), value.item()))


def rosenbrock_expected(x: np.ndarray) -> np.ndarray:
    """Return the gradient, and the value behind it."""
    x = x.astype(np.float64)
    a, b = 1.0 - x[:-1], x[1:] - x[:-1] ** 2
    gradient = np.zeros_like(x)
    gradient[:-1] = -2.0 * a - 400.0 * x[:-1] * b
    gradient[1:] += 200.0 * b
    return np.append(gradient, np.sum(a * a + 100.0 * b * b))


def energy_expected(positions: np.ndarray) -> np.ndarray:
    """Return the gradient, flat, and the value behind it."""
    p, gradient, value = positions.astype(np.float64), np.zeros(positions.shape), 0.0
    for i in range(len(p)):
        d = p[i] - p
        inverse = (np.sum(d * d, axis=1) + SOFTENING) ** -0.5
        gradient[i] = inverse**3 @ d
        value -= 0.5 * inverse.sum()
    return np.append(gradient, value)


def rosenbrock_torch(x):
    return ((1.0 - x[:-1]) ** 2 + 100.0 * (x[1:] - x[:-1] ** 2) ** 2).sum()


def energy_torch(p):
    d = p[None, :] - p[:, None]
    return -0.5 * ((d * d).sum(dim=2) + SOFTENING).rsqrt().sum()


def main(argv: list[str] | None = None) -> dict:
    options = harness.arguments(__doc__.splitlines()[0], argv)
    frameworks = harness.find_frameworks()
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, 2**8 if options.quick else 2**20).astype(np.float32)
    p = rng.standard_normal((64 if options.quick else 2048, 3)).astype(np.float32)

    warps = {column: frameworks[column] for column in harness.WARPS if column in frameworks}
    kernels = {column: (make_rosenbrock(wp), make_energy(wp)) for column, wp in warps.items()}
    chain = {c: taped(wp, kernels[c][0], len(x) - 1, x, float) for c, wp in warps.items()}
    pairs = {c: taped(wp, kernels[c][1], len(p), p, wp.vec3) for c, wp in warps.items()}
    if torch := frameworks.get("PyTorch"):
        chain["PyTorch"] = autograd(torch, rosenbrock_torch, x)
        pairs["PyTorch"] = autograd(torch, energy_torch, p)

    tolerance = {"rtol": 1.0e-3, "atol": 1.0e-2}
    rows = {
        f"Rosenbrock {len(x)}": harness.measure_row("chain", chain, rosenbrock_expected(x), **tolerance),
        f"n-body energy {len(p)}": harness.measure_row("pairs", pairs, energy_expected(p), **tolerance),
    }
    columns = [*harness.WARPS, "PyTorch"]
    harness.report("backward", "value and gradient, milliseconds", columns, rows, 1.0e3, options.json)
    return rows


if __name__ == "__main__":
    main()
