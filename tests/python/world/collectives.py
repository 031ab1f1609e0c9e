"""Run by test_collectives.py: `collectives.py MODE STORE` starts two processes and compares every program of PROGRAMS with eager."""
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn

import escapement

WORLD = 2
SIZES = [200_000, 7, 1, 90_000, 0, 13]
EVEN = [200_000, 6, 2, 90_000, 4]     # of what is cut into as many parts as there are processes


def reduced(x):
    y = x * 2
    dist.all_reduce(y)
    return y + 1


def largest(x):
    y = torch.relu(x)
    dist.all_reduce(y, op=dist.ReduceOp.MAX)
    return y - x


def averaged_twice(x):
    y = x + 1
    dist.all_reduce(y)
    z = y / WORLD
    dist.all_reduce(z)
    return z, y


def gathered(x):
    parts = [torch.empty_like(x) for _ in range(WORLD)]
    dist.all_gather(parts, x + 1)
    return torch.cat(parts) * 2


def from_the_first(x):
    y = x + dist.get_rank()
    dist.broadcast(y, 0)
    return y * 2


def while_it_is_under_way(x):
    y = torch.relu(x)
    work = dist.all_reduce(y, async_op=True)
    z = torch.exp(-x * x)
    work.wait()
    return y + z


def functional_reduce(x):
    return functional.all_reduce(x * 2, "sum", dist.group.WORLD) + 1


def functional_gather(x):
    return functional.all_gather_tensor(x * 2, 0, dist.group.WORLD) + 1


def functional_scatter(x):
    return functional.reduce_scatter_tensor(x * 2, "sum", 0, dist.group.WORLD) + 1


def functional_exchange(x):
    return functional.all_to_all_single(torch.exp(-x * x), None, None, dist.group.WORLD) + 1


def what_is_read_meanwhile_stays(x):
    """The library reads `y` in a thread of its own, while temporaries are made."""
    y = x * 3
    parts = functional.all_gather_tensor(y, 0, dist.group.WORLD)
    z = torch.relu(x).sum() + torch.exp(-x * x).cumsum(0)
    return parts * 2, z.flip(0) * 2


PROGRAMS = [reduced, largest, averaged_twice, gathered, from_the_first, while_it_is_under_way, functional_reduce, functional_gather, functional_scatter,
            functional_exchange, what_is_read_meanwhile_stays]
COMPILED = [reduced, largest, averaged_twice, functional_reduce, functional_gather, functional_scatter]


def compiled(function, mode):
    if mode in ("torch.compile", "counted"):
        torch.compiler.reset()
        return torch.compile(function, backend="escapement")
    return escapement.jit(function, mode="replay" if mode == "replay" else "call")


def compare(function, mode, rank):
    fast = compiled(function, mode)
    for size in EVEN if function in (functional_scatter, functional_exchange) else SIZES:
        torch.manual_seed(size + rank)
        x = torch.randn(size)
        with torch.no_grad():
            torch.testing.assert_close(fast(x), function(x), msg=lambda text: f"{function.__name__} of {size}: {text}")


def compare_training(rank):
    """Gradients are averaged by hooks of DistributedDataParallel's."""
    torch.compiler.reset()
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    models = [nn.parallel.DistributedDataParallel(model) for model in models]
    steps = [models[0], torch.compile(models[1], backend="escapement")]
    for size in (4, 7, 1, 12):
        x = torch.randn(size, 8, generator=torch.Generator().manual_seed(size + rank))
        for model, step in zip(models, steps):
            model.zero_grad()
            step(x).square().mean().backward()
        for a, b in zip(*(model.parameters() for model in models)):
            torch.testing.assert_close(a.grad, b.grad)


def compare_groups(rank):
    """A group is an argument of the function: of both processes, and of this one alone."""
    def reduced_in(x, group):
        y = x * 2
        dist.all_reduce(y, group=group)
        return y + 1

    torch.compiler.reset()
    fast = torch.compile(reduced_in, backend="escapement")
    both, *alone = [dist.new_group(ranks) for ranks in ([0, 1], [0], [1])]
    for size in (5, 3, 7):
        for group in (dist.group.WORLD, both, alone[rank]):
            x = torch.arange(float(size)) + rank
            torch.testing.assert_close(fast(x, group), reduced_in(x, group))


def compare_tensor_parallel():
    """Distributed tensors: the graph hands back groups of processes, which its backward needs."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.compiler.reset()
    mesh = init_device_mesh("cpu", (WORLD,))

    def network():
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4))
        return parallelize_module(layers, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})

    models = [network(), network()]
    steps = [models[0], torch.compile(models[1], backend="escapement")]
    for rows in (4, 7, 1):
        x = torch.randn(rows, 8, generator=torch.Generator().manual_seed(rows))
        for model, step in zip(models, steps):
            model.zero_grad()
            step(x).square().mean().backward()
        for a, b in zip(*(model.parameters() for model in models)):
            torch.testing.assert_close(a.grad.to_local(), b.grad.to_local())


def work(rank, mode, store):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")   # whatever the machine's name resolves to
    dist.init_process_group("gloo", rank=rank, world_size=WORLD, init_method=f"file://{store}")
    for function in COMPILED if mode == "counted" else PROGRAMS:
        compare(function, mode, rank)
        counted = escapement.stats()   # since torch.compiler.reset
        if mode == "counted":
            grown = {name: counted.get(name, 0) for name in ("recordings", "eager_calls", "launches", "library_calls")}
            assert grown["recordings"] == 1 and not grown["eager_calls"], (function.__name__, grown)
            assert grown["launches"] >= len(EVEN) - 1 and grown["library_calls"] >= 2 * (len(EVEN) - 1), (function.__name__, grown)
    if mode == "torch.compile":
        compare_training(rank)
        compare_groups(rank)
        compare_tensor_parallel()
    dist.barrier()
    dist.destroy_process_group()
    print("as eagerly", flush=True)
    # The group's threads outlive its end once a functional collective has run, without `escapement` too: one that drops a work's last
    # tensor while the interpreter is finalised ends the process (torch's `decref` asks for the lock of an interpreter that is going).
    os._exit(0)


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, (sys.argv[1], sys.argv[2]), nprocs=WORLD)
