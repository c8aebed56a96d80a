"""What a gradient costs, beside warp-lang, JAX and PyTorch: forward, backward, and the two together.

    python examples/benchmarks/benchmark_backward.py --json backward.json

Every gradient is compared with NumPy's, in float64, before anything is timed, and a framework whose gradient
is wrong gets that word in place of a time; the arrays are float32. For the two Warps the backward pass is
``tape.zero(); tape.backward(...)`` of a tape recorded once, and it computes again what it needs of the
forward pass. PyTorch keeps its graph, and only its backward is timed. JAX does both in one compiled function,
so that its backward time is the difference to the forward one. warp-lang's CPU runs on one thread, the others
use all cores.

C++ is derived and vectorised by hand (``cpp/gradients.cpp``), for three of the problems: a floor.

The last table is the memory that the gradient needs on the stack of saved values for each thread of a
kernel. It is measured: the smallest ``wp.config.adjoint_stack_limit`` under which the backward pass of the
kernels succeeds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import cpp_reference
import harness
import numpy as np
from backward_problems import Problem, all_problems, joined

COLUMNS = [*harness.WARPS, "JAX", "PyTorch", "C++"]
LARGEST_STACK = 1 << 26


@dataclass
class Differentiated:
    """One framework's program: ``both`` runs forward and backward, which are None where they can't run alone."""

    forward: Callable[[], object] | None
    backward: Callable[[], object] | None
    both: Callable[[], object]
    result: Callable[[], np.ndarray]  # the output and the gradients


# --- the frameworks ----------------------------------------------------------------------------------------


def taped(wp, problem: Problem) -> Differentiated:
    types = [getattr(wp, name) for name in problem.dtypes]
    inputs = [wp.array(a, dtype=t, requires_grad=True) for a, t in zip(problem.inputs, types, strict=True)]
    out_type = wp.vec3 if problem.seed.ndim == 2 else wp.float32
    out = wp.zeros(len(problem.seed), dtype=out_type, requires_grad=True)
    seed = wp.array(problem.seed, dtype=out_type)
    launch, zeroed = problem.launches(wp, inputs, out)

    def forward():
        for array in zeroed:
            array.zero_()
        launch()

    tape = wp.Tape()
    with tape:
        launch()

    def backward():
        tape.zero()
        tape.backward(grads={out: seed})

    def both():
        forward()
        backward()

    return Differentiated(forward, backward, both, lambda: joined(out.numpy(), *(a.grad.numpy() for a in inputs)))


class TorchMath:
    def __init__(self, torch):
        self.torch, self.sin, self.tanh = torch, torch.sin, torch.tanh

    def indices(self, a: np.ndarray):
        return self.torch.from_numpy(a.astype(np.int64))

    def scatter(self, into, where, what):
        return into.index_add(0, where, what)

    def loop(self, steps: int, body, *state):
        for _ in range(steps):
            state = body(*state)
        return state


def autograd(torch, problem: Problem) -> Differentiated:
    inputs = [torch.from_numpy(a.copy()).requires_grad_() for a in problem.inputs]
    seed, xp = torch.from_numpy(problem.seed), TorchMath(torch)
    out = None

    def forward():
        nonlocal out
        out = problem.function(xp, *inputs)

    def backward():
        for a in inputs:
            a.grad = None
        out.backward(seed, retain_graph=True)

    def both():
        forward()
        backward()

    def result():
        return joined(out.detach().numpy(), *(a.grad.numpy() for a in inputs))

    return Differentiated(forward, backward, both, result)


class JaxMath:
    def __init__(self, jax):
        self.jax, self.sin, self.tanh = jax, jax.numpy.sin, jax.numpy.tanh

    def indices(self, a: np.ndarray):
        return self.jax.numpy.asarray(a)

    def scatter(self, into, where, what):
        return into.at[where].add(what)

    def loop(self, steps: int, body, *state):
        return self.jax.lax.fori_loop(0, steps, lambda _, state: body(*state), state)


def jitted(jax, problem: Problem) -> Differentiated:
    inputs, seed = [jax.numpy.asarray(a) for a in problem.inputs], jax.numpy.asarray(problem.seed)
    xp = JaxMath(jax)
    function = jax.jit(lambda *inputs: problem.function(xp, *inputs))

    @jax.jit
    def value_and_gradient(seed, *inputs):
        out, pull_back = jax.vjp(lambda *inputs: problem.function(xp, *inputs), *inputs)
        return out, *pull_back(seed)

    last = None

    def both():
        nonlocal last
        last = jax.block_until_ready(value_and_gradient(seed, *inputs))

    return Differentiated(
        lambda: jax.block_until_ready(function(*inputs)), None, both, lambda: joined(*map(np.asarray, last))
    )


def by_hand(library, problem: Problem) -> Differentiated | None:
    function = library.find(problem.cpp) if problem.cpp else None
    if function is None:
        return None
    results = [np.zeros_like(a) for a in (problem.seed, *problem.inputs)]
    run = cpp_reference.call(function, len(problem.inputs[0]), *problem.inputs, problem.seed, *results)
    return Differentiated(None, None, run, lambda: joined(*results))


MAKERS = {"JAX": jitted, "PyTorch": autograd, "C++": by_hand} | dict.fromkeys(harness.WARPS, taped)


# --- measuring ---------------------------------------------------------------------------------------------


def stack_bytes(wp, problem: Problem) -> int | None:
    """Return the least limit of the stack under which the gradient can be computed, by bisection."""
    small = taped(wp, problem)
    limit = wp.config.adjoint_stack_limit

    def fits(nbytes: int) -> bool:
        wp.config.adjoint_stack_limit = nbytes
        try:
            small.backward()
        except MemoryError:
            return False
        return True

    low, high = -1, LARGEST_STACK  # does not fit, fits
    try:
        if fits(0):
            return 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if fits(middle) else (middle, high)
    finally:
        wp.config.adjoint_stack_limit = limit
    return high


def right_ones(problem: Problem, programs: dict[str, Differentiated]) -> tuple[dict, dict]:
    """Return the programs whose gradient is right, and for the others, the reason that they get no time."""
    expected, right, reasons = problem.gradient(), {}, {}
    for column, program in programs.items():
        program.both()
        try:
            harness.check(problem.name, column, program.result(), expected, **problem.tolerance)
        except ValueError as error:
            if column in ("warp_like", "C++"):
                raise
            print(error)
            reasons[column] = "wrong"
        else:
            right[column] = program
    return right, reasons


def measure_problem(problem: Problem, frameworks: dict, budget: float) -> dict[str, dict]:
    """Return, for forward, backward and both, the seconds of each column."""
    made = {c: MAKERS[c](frameworks[c], problem) for c in COLUMNS if c in frameworks}
    programs = {column: program for column, program in made.items() if program is not None}
    right, reasons = right_ones(problem, programs)
    runs = {(c, part): getattr(p, part) for c, p in right.items() for part in ("forward", "backward", "both")}
    runs = {key: run for key, run in runs.items() if run}
    seconds = harness.measure(runs, seconds=0.01, budget=budget)
    times: dict[str, dict] = {part: dict(reasons) for part in ("forward", "backward", "both", "ratio")}
    for (column, part), value in seconds.items():
        times[part][column] = value
    for column in right:
        if (column, "forward") not in seconds:
            continue
        if (column, "backward") not in seconds:
            times["backward"][column] = max(0.0, times["both"][column] - times["forward"][column])
        times["ratio"][column] = times["backward"][column] / times["forward"][column]
    if "warp_like" in frameworks:
        times["stack"] = {"warp_like": stack_bytes(frameworks["warp_like"], problem)}
    return times


def main(argv: list[str] | None = None) -> dict:
    options = harness.arguments(__doc__.splitlines()[0], argv)
    frameworks: dict = harness.find_frameworks(COLUMNS[:-1])
    if (library := cpp_reference.load(cpp_reference.FAST)) is not None:
        frameworks["C++"] = library
    budget = harness.budget(options)
    measured = {p.name: measure_problem(p, frameworks, budget) for p in all_problems(options.quick)}
    titles = {
        "both": ("value and gradient, milliseconds", 1.0e3),
        "forward": ("forward, milliseconds", 1.0e3),
        "backward": ("backward, milliseconds", 1.0e3),
        "ratio": ("backward / forward", 1.0),
    }
    report = harness.Report("backward", "s (ratio: 1, stack: bytes)", options)
    for part, (title, scale) in titles.items():
        report.table(title, COLUMNS, {row: times[part] for row, times in measured.items()}, scale)
    stack = {row: times.get("stack", {}) for row, times in measured.items()}
    report.table("saved values, bytes a thread", ["warp_like"], stack, 1.0)
    report.finish(measured)
    return measured


if __name__ == "__main__":
    main()
