"""Train a model with a kernel in it on two processes, with ``DistributedDataParallel``.

Each process has its share of the data; PyTorch averages the gradients. The result is
that of one process with all of the data. Run it plainly for two processes on this
machine, or on several machines with ``torchrun``:

    torchrun --nnodes 2 --nproc-per-node 8 ... examples/interop/torch_distributed.py
"""

import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

import warp_like as wp

SAMPLES, CENTRES = 64, 8


@wp.kernel
def gaussians(
    x: wp.array(dtype=float), centres: wp.array(dtype=float), y: wp.array2d[float]
):
    i, j = wp.tid()
    d = 4.0 * (x[i] - centres[j])
    y[i, j] = wp.exp(-d * d)


def both_lengths(x, centres):
    """One row for each sample, one column for each centre."""
    return x.shape[0], centres.shape[0]


features = wp.torch_op(gaussians, shapes={"y": both_lengths}, dim=both_lengths)


class Model(torch.nn.Module):
    """A sum of bells whose places and heights are learnt: (n) to (n)."""

    def __init__(self):
        super().__init__()
        self.centres = torch.nn.Parameter(torch.linspace(0.0, 1.0, CENTRES))
        self.heights = torch.nn.Parameter(torch.zeros(CENTRES))

    def forward(self, x):
        return features(x, self.centres) @ self.heights


def train(model, rank, world, steps):
    """Train on every ``world``-th sample; return the loss of all, before and after."""
    x = torch.linspace(0.0, 1.0, SAMPLES)
    y = torch.sin(6.0 * x)
    mine = slice(rank, None, world)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.no_grad():
        first = torch.nn.functional.mse_loss(model(x), y).item()
    for _ in range(steps):
        opt.zero_grad()
        torch.nn.functional.mse_loss(model(x[mine]), y[mine]).backward()
        opt.step()
    with torch.no_grad():
        return first, torch.nn.functional.mse_loss(model(x), y).item()


def work(rank, world, init_method, steps):
    """Each process's work; ``nccl`` replaces ``gloo`` where kernels run on GPUs."""
    dist.init_process_group(
        "gloo", init_method=init_method, rank=rank, world_size=world
    )
    parallel = Model()
    model = torch.nn.parallel.DistributedDataParallel(parallel)
    first, last = train(model, rank, world, steps)
    dist.barrier()
    dist.destroy_process_group()
    alone = Model()
    train(alone, 0, 1, steps)
    for ours, reference in zip(parallel.parameters(), alone.parameters(), strict=True):
        assert torch.allclose(ours, reference, atol=1e-5)
    assert last < 0.1 * first
    if rank == 0:
        print(f"loss {first:.4f} -> {last:.4f} on {world} processes, as on one")


def main(steps: int = 200, processes: int = 2) -> None:
    """Run the training."""
    if "RANK" in os.environ:  # started by torchrun
        work(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), "env://", steps)
        return
    with tempfile.TemporaryDirectory() as folder:
        meeting_place = (Path(folder) / "store").as_uri()
        torch.multiprocessing.spawn(
            work, (processes, meeting_place, steps), nprocs=processes
        )


if __name__ == "__main__":
    main()
