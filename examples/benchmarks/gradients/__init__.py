"""The problems of ``benchmark_backward.py``, one file a kind."""

from .elementwise import Rosenbrock, Saxpy
from .loops import Pendulum
from .problem import Problem, joined
from .scatter import Springs
from .sums import DeepNetwork, Energy, Network

__all__ = ["Problem", "all_problems", "joined"]


def all_problems(quick: bool) -> list[Problem]:
    """Return the rows of the tables, with their data."""
    return [
        Saxpy(2**10 if quick else 2**22),
        Rosenbrock(2**8 if quick else 2**20),
        Energy(64 if quick else 2048),
        Network(2**6 if quick else 2**14),
        DeepNetwork(2**6 if quick else 2**16),
        Pendulum(2**6 if quick else 2**16, steps=16),
        Pendulum(2**4 if quick else 2**12, steps=1000),
        Springs(8 if quick else 128),
    ]
