"""Two processes that train one model, with accelerate and with Lightning."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, DistributedSampler

from examples.distributed_ranks import on_ranks
from examples.libraries_quiet import quiet
from tests.libraries.networks import batches, network
from torch_openreg.integrations import accelerate, lightning


def as_torchrun() -> None:
    """Sets what `torchrun` would have set."""
    rank, size = str(dist.get_rank()), str(dist.get_world_size())
    os.environ |= {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "GROUP_RANK": "0"}
    os.environ |= {"TORCHELASTIC_RUN_ID": "example", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
    quiet()


# LITERALINCLUDE START: libraries-processes
def with_accelerate() -> tuple[str, list[float]]:
    """Each rank takes every second batch."""
    as_torchrun()
    accelerate.register()
    from accelerate import Accelerator

    accelerator = Accelerator()
    model: Any = network()
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), batches())
    for inputs, targets in loader:
        accelerator.backward(mse_loss(model(inputs), targets))
        optimizer.step()
        optimizer.zero_grad()
    return str(accelerator.device), accelerator.unwrap_model(model)[0].bias.tolist()


def with_lightning() -> tuple[str, list[float]]:
    """Each rank takes every second row."""
    as_torchrun()
    lightning.register()
    from lightning import Fabric

    fabric: Any = Fabric(accelerator="openreg", strategy="openreg_ddp", devices=2)
    fabric.launch()
    model: Any = network()
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    data = batches().dataset
    rows: Any = DistributedSampler(data, 2, fabric.global_rank, shuffle=False)
    for inputs, targets in fabric.setup_dataloaders(DataLoader(data, batch_size=8, sampler=rows)):
        fabric.backward(mse_loss(model(inputs), targets))
        optimizer.step()
        optimizer.zero_grad()
    return str(fabric.device), model.module[0].bias.tolist()


def alone() -> list[float]:
    """One process on the CPU, with all the rows that both ranks see in a step."""
    model, (inputs, targets) = network(), batches().dataset[:]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in (slice(16), slice(16, 32)):
        mse_loss(model(inputs[step]), targets[step]).backward()
        optimizer.step()
        optimizer.zero_grad()
    bias: list[float] = model[0].bias.tolist()
    return bias


# LITERALINCLUDE END: libraries-processes

if __name__ == "__main__":
    trained = {train.__name__: on_ranks(train) for train in (with_accelerate, with_lightning)}
    expected = torch.tensor(alone())
    for name, ((first, ours), (second, theirs)) in trained.items():
        difference = float((torch.tensor(ours) - expected).abs().max())
        print(f"{name}: {first} and {second}, equal: {ours == theirs}, as on the CPU: {difference < 1e-6}")
