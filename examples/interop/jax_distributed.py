"""Train a model with a kernel on several processes: ``jax.distributed``, ``shard_map``.

Each process holds its share of the samples; the parameters are the same everywhere. JAX
sums the gradients over the devices of all processes, since it knows which arrays they
share. The result is that of one process with all the data.

Run it plainly for two processes on this machine. On several machines, start it once on
each, with ranks from 0 on:

    python jax_distributed.py --coordinator HOST:PORT --processes 2 --rank 0
"""

import argparse
import multiprocessing
import socket

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import warp_like as wp

SAMPLES, BELLS = 64, 8


@wp.kernel
def bells(
    x: wp.array(dtype=float),
    centres: wp.array(dtype=float),
    heights: wp.array(dtype=float),
    y: wp.array(dtype=float),
):
    i = wp.tid()
    total = float(0.0)  # noqa: UP018 -- a variable of the loop, and no constant
    for k in range(centres.shape[0]):
        d = 4.0 * (x[i] - centres[k])
        total += heights[k] * wp.exp(-d * d)
    y[i] = total


model = wp.jax_kernel(bells, enable_backward=True)


def squared_error(params, x, y):
    """The sum over the samples here."""
    (found,) = model(x, params["centres"], params["heights"])
    return jnp.sum((found - y) ** 2)


def local(x):
    """An array that is the same everywhere, as NumPy's."""
    return np.asarray(x.addressable_data(0))


def train(mesh, x, y, steps):
    """Follow the gradient; return the first and the last loss, and the parameters."""
    shares = jax.shard_map(
        lambda params, x, y: (
            jax.lax.psum(squared_error(params, x, y), "data") / SAMPLES
        ),
        mesh=mesh,
        in_specs=(P(), P("data"), P("data")),
        out_specs=P(),
    )

    def everything(params, x, y):
        return squared_error(params, x, y) / SAMPLES

    @jax.jit
    def update(params, x, y):
        loss, gradients = jax.value_and_grad(shares)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.05 * g, params, gradients), loss

    everywhere = NamedSharding(mesh, P())
    start = {
        "centres": np.linspace(0.0, 1.0, BELLS, dtype=np.float32),
        "heights": np.zeros(BELLS, np.float32),
    }
    params = {
        k: jax.make_array_from_process_local_data(everywhere, v)
        for k, v in start.items()
    }
    # Plain jit splits the launches in the same way, as the kernel allows it, and sums
    # over all processes as well.
    one = jax.jit(jax.grad(shares))(params, x, y)
    two = jax.jit(jax.grad(everything))(params, x, y)
    assert all(np.allclose(local(one[k]), local(two[k]), atol=1e-5) for k in params)
    losses = []
    for _ in range(steps):
        params, loss = update(params, x, y)
        losses.append(float(loss))
    return losses[0], losses[-1], {k: local(v) for k, v in params.items()}


def work(rank, processes, coordinator, steps):
    """What each process does."""
    jax.distributed.initialize(coordinator, processes, rank)
    x = np.linspace(0.0, 1.0, SAMPLES, dtype=np.float32)
    y = np.sin(6.0 * x)

    mesh = Mesh(np.array(jax.devices()), ("data",))
    mine = np.array_split(np.arange(SAMPLES), processes)[rank]
    spread = NamedSharding(mesh, P("data"))
    share_x, share_y = (
        jax.make_array_from_process_local_data(spread, v[mine], (SAMPLES,))
        for v in (x, y)
    )
    first, last, params = train(mesh, share_x, share_y, steps)

    alone = Mesh(np.array(jax.local_devices()[:1]), ("data",))
    all_x, all_y = (jax.device_put(v, alone.devices.flat[0]) for v in (x, y))
    _, _, reference = train(alone, all_x, all_y, steps)
    for name, p in params.items():
        assert np.allclose(p, reference[name], atol=1e-4), name
    assert last < 0.1 * first
    if rank == 0:
        print(
            f"loss {first:.4f} -> {last:.4f} "
            f"on {jax.process_count()} processes, as on one",
            flush=True,
        )
    jax.distributed.shutdown()


def main(steps=200, processes=2):
    """Run the training with all processes on this machine."""
    with socket.socket() as s:
        s.bind(("localhost", 0))
        coordinator = f"localhost:{s.getsockname()[1]}"
    context = multiprocessing.get_context("spawn")
    team = [
        context.Process(target=work, args=(rank, processes, coordinator, steps))
        for rank in range(processes)
    ]
    for p in team:
        p.start()
    for p in team:
        p.join()
    if any(p.exitcode for p in team):
        raise RuntimeError("a process failed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train on several processes.")
    parser.add_argument(
        "--coordinator",
        help="HOST:PORT of the process with rank 0; left out: all on this machine",
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    if args.coordinator:
        work(args.rank, args.processes, args.coordinator, args.steps)
    else:
        main(args.steps, args.processes)
