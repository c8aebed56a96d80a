"""One wave on several processes

A wave runs through water of changing depth, and each process computes a band of it.
After every step the processes send each other the rows along their borders.

Group: Optimisation and learning
You learn: a solver on several processes, with ``wp.to_torch`` for messages of
    ``torch.distributed`` without copies.
Check: the wave is the same, bit by bit, as that of one process with the whole grid.
Method: domain decomposition with one row of halo; W. Gropp, E. Lusk, A. Skjellum,
    "Using MPI", 1994, chapter 4.
Not timed: messages between the processes take most of the time.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pictures

import warp_like as wp


@wp.kernel
def advance(
    before: wp.array2d(dtype=float),
    now: wp.array2d(dtype=float),
    speed: wp.array2d(dtype=float),
    after: wp.array2d(dtype=float),
):
    """Write all rows but the first and last, which are the neighbours' or the shore."""
    i, j = wp.tid()
    i += 1
    if j > 0 and j + 1 < now.shape[1]:
        around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1]
        push = speed[i, j] * (around - 4.0 * now[i, j])
        after[i, j] = 2.0 * now[i, j] - before[i, j] + push


def problem(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a drop, and the squared Courant number: slow over round shoals."""
    y, x = np.mgrid[0:n, 0:n] / n
    distance = np.hypot(x - 0.3, y - 0.36)
    drop = np.cos(distance * 110.0) * np.exp(-((distance / 0.09) ** 2))
    speed = np.full((n, n), 0.45)
    for cx, cy, r in ((0.62, 0.3, 0.13), (0.35, 0.7, 0.1), (0.75, 0.72, 0.15)):
        speed -= 0.3 / (1.0 + np.exp((np.hypot(x - cx, y - cy) - r) / 0.008))
    return drop, speed


class Band:
    """The rows of one process, with a row of each neighbour around them."""

    def __init__(self, n: int, rank: int, size: int):
        drop, speed = (np.pad(field, ((1, 1), (0, 0))) for field in problem(n))
        rows = slice(n * rank // size, n * (rank + 1) // size + 2)
        self.rank, self.size = rank, size
        self.speed = wp.array(speed[rows], dtype=float)
        self.before = wp.array(drop[rows], dtype=float)
        self.now = wp.clone(self.before)
        self.after = wp.zeros_like(self.now)

    def step(self) -> None:
        rows, columns = self.now.shape
        inputs = [self.before, self.now, self.speed]
        wp.launch(advance, dim=(rows - 2, columns), inputs=inputs, outputs=[self.after])
        self.before, self.now, self.after = self.now, self.after, self.before
        if self.size > 1:
            self.exchange()

    def exchange(self) -> None:
        """Send our outer rows, and receive those of the neighbours around them."""
        import torch.distributed as dist

        rows = wp.to_torch(self.now)
        messages = []
        for other, ours, theirs in ((self.rank - 1, 1, 0), (self.rank + 1, -2, -1)):
            if 0 <= other < self.size:
                messages.append(dist.P2POp(dist.isend, rows[ours], other))
                messages.append(dist.P2POp(dist.irecv, rows[theirs], other))
        for request in dist.batch_isend_irecv(messages):
            request.wait()


def work(quick: bool, out: Path) -> None:
    """What each process does; the first one checks and draws."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    n = 64 if quick else 280
    band = Band(n, dist.get_rank(), dist.get_world_size())
    alone = Band(n, 0, 1) if band.rank == 0 else None
    frames = []
    for _ in range(4 if quick else 24):
        for _ in range(10 if quick else 16):
            band.step()
            if alone:
                alone.step()
        parts = [torch.empty(n // band.size, n) for _ in range(band.size)]
        dist.gather(wp.to_torch(band.now)[1:-1], parts if alone else None)
        if alone:
            field = torch.cat(parts).numpy()
            same = np.array_equal(field, alone.now.numpy()[1:-1])
            pictures.require(
                same, "the processes together have another wave than one process"
            )
            frames.append(draw(field, band.size))
    if alone:
        print(f"{band.size} processes have exactly the wave of one")
        pictures.save_gif(out / "halo_exchange.gif", frames, seconds=2.4, shades=16)
    dist.destroy_process_group()


def draw(field: np.ndarray, size: int) -> np.ndarray:
    """Return the wave; a thin line shows where one process ends and the next begins."""
    n = len(field)
    image = pictures.colours(field, "storm", -0.22, 0.22)
    shoal = problem(n)[1] < 0.3
    image[shoal] = image[shoal] // 8 * 7 + 26
    for rank in range(1, size):
        image[n * rank // size, ::4] = 255
    return image


def main(quick: bool, out: Path, processes: int = 2) -> None:
    """Work as one process of ``torchrun``, or start two processes on this machine."""
    if "RANK" in os.environ:
        return work(quick, out)
    with socket.socket() as s:
        s.bind(("localhost", 0))
        port = str(s.getsockname()[1])
    command = [sys.executable, __file__, "--out", str(out)] + ["--quick"] * quick
    address = {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
    address |= {**os.environ, "WORLD_SIZE": str(processes)}
    team = [
        subprocess.Popen(command, env=address | {"RANK": str(rank)})
        for rank in range(processes)
    ]
    failed = [p.wait() for p in team]
    pictures.require(not any(failed), f"the processes ended with {failed}")


if __name__ == "__main__":
    main(**pictures.options())
