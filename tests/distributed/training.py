"""What the tests of training run on every rank. Each function returns what is compared with one process on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

STEPS = 4
ROWS = 8  # of the whole batch
State = dict[str, Tensor]


class Network(nn.Module):
    """Two layers, and one that is not used if the batch is negative."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.second = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Computes the two layers."""
        result: Tensor = self.second(torch.tanh(self.first(x)))
        return result


def network() -> Network:
    """The same initial weights in every process."""
    torch.manual_seed(5)
    return Network()


def batch(step: int) -> tuple[Tensor, Tensor]:
    """The inputs and targets of a step, on the CPU."""
    generator = torch.Generator().manual_seed(step)
    return torch.randn(ROWS, 6, generator=generator), torch.randn(ROWS, 4, generator=generator)


def loss_of(model: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    """The mean over the batch: the mean of the ranks' means is that of the whole batch."""
    loss: Tensor = (model(x) - y).square().mean()
    return loss


def on_cpu() -> State:
    """One process, the whole batch."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), 0.05)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, *batch(step)).backward()
        optimizer.step()
    return {name: value.detach() for name, value in model.state_dict().items()}


def mine(step: int) -> tuple[Tensor, Tensor]:
    """The rows of this rank, on its device."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x, y = (tensor.chunk(size)[rank].to("openreg") for tensor in batch(step))
    return x, y


def host(module: nn.Module) -> State:
    """The parameters on the CPU, whole."""
    state = {}
    for name, value in module.state_dict().items():
        whole = value.full_tensor() if isinstance(value, DTensor) else value
        state[name.removeprefix("module.")] = whole.detach().cpu()
    return state


def gradients(module: nn.Module) -> State:
    """The gradients on the CPU."""
    parameters = module.named_parameters()
    return {name.removeprefix("module."): value.grad.cpu() for name, value in parameters if value.grad is not None}


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> State:
    """All steps, on the rows of this rank."""
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, *mine(step)).backward()
        optimizer.step()
    return host(model)


def in_bfloat16(state, bucket):  # type: ignore[no-untyped-def]  # PyTorch reads annotations, and takes no strings
    """PyTorch's hook, which it refuses by its name unless the backend is one of its own."""
    return default_hooks.bf16_compress_hook(state, bucket)


def data_parallel(hook: Callable[..., Any] | None = None, **options: Any) -> State:
    """DistributedDataParallel."""
    if options.pop("with_device_ids", False):
        options["device_ids"] = [torch.accelerator.current_device_index()]
    model = DistributedDataParallel(network().to("openreg"), **options)
    if hook is not None:
        model.register_comm_hook(dist.group.WORLD, hook)
    return train(model, torch.optim.AdamW(model.parameters(), 0.05))


def power_sgd() -> State:
    """DDP with PowerSGD, whose callbacks start collectives: a bucket for each parameter, matrices of full rank."""
    model = DistributedDataParallel(network().to("openreg"), bucket_cap_mb=1e-6)
    state = powerSGD_hook.PowerSGDState(None, 8, start_powerSGD_iter=2, min_compression_rate=0.01)

    def synchronized(done: torch.futures.Future[Tensor]) -> Tensor:
        # PyTorch's hook does it for CUDA alone: its callbacks use tensors on streams that are not theirs.
        torch.accelerator.synchronize()
        return done.value()

    model.register_comm_hook(state, lambda state, bucket: powerSGD_hook.powerSGD_hook(state, bucket).then(synchronized))
    trained = train(model, torch.optim.AdamW(model.parameters(), 0.05))
    assert len(state.p_memory_dict) > 1  # buckets
    return trained


def accumulated() -> State:
    """Two backward passes for each step; only the second exchanges gradients."""
    model = DistributedDataParallel(network().to("openreg"))
    optimizer = torch.optim.AdamW(model.parameters(), 0.05)
    for step in range(STEPS):
        optimizer.zero_grad()
        x, y = mine(step)
        half = len(x) // 2
        with model.no_sync():
            (loss_of(model, x[:half], y[:half]) / 2).backward()
        (loss_of(model, x[half:], y[half:]) / 2).backward()
        optimizer.step()
    return host(model)


def uneven() -> tuple[State, State]:
    """The gradients of the last step of this rank, of two; rank 0, which has a step less, joins the other's third.

    Returns those of one process, too. DDP divides by the number of all ranks, also where only one has data.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    model, whole = DistributedDataParallel(network().to("openreg")), network()
    last = 1 + rank
    with Join([model]):
        for step in range(last + 1):
            model.zero_grad()
            loss_of(model, *mine(step)).backward()
    x, y = batch(last) if rank == 0 else (tensor.cpu() for tensor in mine(last))
    (loss_of(whole, x, y) / (1 if rank == 0 else size)).backward()
    return gradients(model), gradients(whole)


def sharded(**options: Any) -> State:
    """FSDP2."""
    model = network() if "offload_policy" in options else network().to("openreg")
    mesh = init_device_mesh("openreg", (dist.get_world_size(),))
    for layer in (model.first, model.second, model):
        fully_shard(layer, mesh=mesh, **options)
    optimizer = torch.optim.AdamW(model.parameters(), 0.05)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, *mine(step)).backward()
        optimizer.step()
    return {name: value.to("openreg").full_tensor().detach().cpu() for name, value in model.state_dict().items()}


def half_precision() -> State:
    """FSDP2 that computes in bfloat16."""
    return sharded(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))


def offloaded() -> State:
    """FSDP2 that keeps parameters on the host."""
    return sharded(offload_policy=CPUOffloadPolicy(pin_memory=True))


def tensor_parallel() -> State:
    """The layers cut over the ranks; every rank sees the whole batch."""
    mesh = init_device_mesh("openreg", (dist.get_world_size(),))
    model = network().to("openreg")
    parallelize_module(model, mesh, {"first": ColwiseParallel(), "second": RowwiseParallel()})
    optimizer = torch.optim.AdamW(model.parameters(), 0.05)
    for step in range(STEPS):
        optimizer.zero_grad()
        x, y = (tensor.to("openreg") for tensor in batch(step))
        loss_of(model, x, y).backward()
        optimizer.step()
    return host(model)


def pipeline() -> State:
    """GPipe: a layer for each of two ranks. Returns the layers of this rank."""
    rank = dist.get_rank()
    whole = network().to("openreg")
    part = nn.Sequential(whole.first, nn.Tanh()) if rank == 0 else whole.second
    device = torch.device("openreg", torch.accelerator.current_device_index())
    stage = PipelineStage(part, rank, 2, device)
    schedule = ScheduleGPipe(stage, 4, loss_fn=lambda out, target: (out - target).square().mean())
    optimizer = torch.optim.AdamW(part.parameters(), 0.05)
    for step in range(STEPS):
        optimizer.zero_grad()
        x, y = (tensor.to(device) for tensor in batch(step))
        if rank == 0:
            schedule.step(x)
        else:
            schedule.step(target=y)
        optimizer.step()
    names = ("first", "0.") if rank == 0 else ("second", "")
    return {f"{names[0]}.{key.removeprefix(names[1])}": value for key, value in host(part).items()}


def zero() -> State:
    """ZeRO-1: the state of the optimizer is cut over the ranks."""
    # Importing it compiles with torch.jit.script, which warns.
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(network().to("openreg"))
    return train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.05))


def batch_norm(device: str, *, whole: bool) -> tuple[Tensor, ...]:
    """The output, gradients and running statistics of SyncBatchNorm, or of BatchNorm with the whole batch."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(ROWS, 3, 5, generator=generator)
    grad = torch.randn(ROWS, 3, 5, generator=generator)
    if not whole:
        rank, size = dist.get_rank(), dist.get_world_size()
        x, grad = x.chunk(size)[rank], grad.chunk(size)[rank]
    layer: nn.Module = nn.BatchNorm1d(3)
    if not whole:
        layer = nn.SyncBatchNorm.convert_sync_batchnorm(layer)
    layer = layer.to(device)
    x = x.to(device).requires_grad_()
    out = layer(x)
    out.backward(grad.to(device))
    assert x.grad is not None
    weight, bias = layer.weight.grad, layer.bias.grad
    if not whole:
        dist.all_reduce(weight)
        dist.all_reduce(bias)
    return tuple(t.detach().cpu() for t in (out, x.grad, weight, bias, layer.running_mean, layer.running_var))


def redistributed() -> tuple[Tensor, Tensor]:
    """A DTensor multiplied in shards, and cut along another dimension."""
    mesh = init_device_mesh("openreg", (dist.get_world_size(),))
    generator = torch.Generator().manual_seed(2)
    a, b = torch.randn(8, 6, generator=generator), torch.randn(6, 4, generator=generator)
    left = distribute_tensor(a.to("openreg"), mesh, [Shard(0)])
    right = distribute_tensor(b.to("openreg"), mesh, [Shard(0)])
    product = left @ right
    other = product.redistribute(placements=[Shard(1)])
    assert other.to_local().shape[1] == 4 // dist.get_world_size()
    return other.full_tensor().cpu(), a @ b


def _fsdp() -> nn.Module:
    model = network().to("openreg")
    fully_shard(model, mesh=init_device_mesh("openreg", (dist.get_world_size(),)))
    return model


def save(folder: str) -> State:
    """Trains a sharded model and saves it as a distributed checkpoint."""
    model = _fsdp()
    train(model, torch.optim.AdamW(model.parameters(), 0.05))
    checkpoint.save({"model": get_model_state_dict(model)}, checkpoint_id=Path(folder))
    return host(model)


def load(folder: str) -> State:
    """Loads it into a model that is sharded over another number of ranks."""
    model = _fsdp()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    state = {"model": get_model_state_dict(model)}
    checkpoint.load(state, checkpoint_id=Path(folder))
    set_model_state_dict(model, state["model"])
    return host(model)


JOBS: dict[str, Callable[[], State]] = {
    "plain": data_parallel,
    "device_ids": functools.partial(data_parallel, with_device_ids=True),
    "find_unused": functools.partial(data_parallel, find_unused_parameters=True),
    "static_graph": functools.partial(data_parallel, static_graph=True),
    "bucket_view": functools.partial(data_parallel, gradient_as_bucket_view=True),
    "allreduce_hook": functools.partial(data_parallel, default_hooks.allreduce_hook),
    "no_sync": accumulated,
    "fsdp": sharded,
    "fsdp_offload": offloaded,
    "tensor_parallel": tensor_parallel,
    "zero": zero,
}


def sync_batch_norm() -> tuple[Tensor, ...]:
    """SyncBatchNorm on the rows of this rank."""
    return batch_norm("openreg", whole=False)
