"""Programs of accelerate."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from torch import nn
from torch.nn.functional import mse_loss

from tests.libraries.networks import batches, network, parameters
from tests.libraries.programs import HALF, Program, Result, forget


def fresh(**options: Any) -> Any:
    """An `Accelerator` as in a new process."""
    from accelerate import Accelerator

    forget()
    return Accelerator(**options)


def prepared(accelerator: Any, dropout: float = 0.0) -> tuple[Any, Any, Any]:
    """Model, optimizer and data, on the device that the library has chosen."""
    model = network(dropout)
    prepared: tuple[Any, Any, Any] = accelerator.prepare(
        model, torch.optim.AdamW(model.parameters(), lr=0.02), batches()
    )
    return prepared


def epoch(accelerator: Any, model: Any, optimizer: Any, loader: Any) -> list[float]:
    """The losses of one pass over the data."""
    losses = []
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            loss = mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def loop(**options: Any) -> Result:
    """Two passes, two batches for each step."""
    accelerator = fresh(gradient_accumulation_steps=2, **options)
    model, optimizer, loader = prepared(accelerator)
    losses = [loss for _ in range(2) for loss in epoch(accelerator, model, optimizer, loader)]
    # Adam divides by the size of a gradient, so near 0 the sign of a rounding error decides a step in half precision.
    values = [losses] if options else [losses, parameters(accelerator.unwrap_model(model))]
    return Result(values, accelerator.device.type)


def training(_device: str) -> Result:
    """In float32."""
    return loop()


def in_bfloat16(_device: str) -> Result:
    """With autocast."""
    return loop(mixed_precision="bf16")


def in_float16(_device: str) -> Result:
    """With autocast and scaled gradients. On the CPU accelerate has no float16, and computes in float32."""
    from accelerate.utils import GradScalerKwargs

    # With the usual scale of 65536, the first gradients are infinite in float16, and their steps are left out.
    return loop(mixed_precision="fp16", kwargs_handlers=[GradScalerKwargs(init_scale=128.0)])


def checkpoint(_device: str) -> Result:
    """A run that is saved, continued, and continued once more from what was saved."""
    with tempfile.TemporaryDirectory() as folder:
        accelerator = fresh()
        states = prepared(accelerator)
        epoch(accelerator, *states)
        accelerator.save_state(folder)
        continued = epoch(accelerator, *states)
        accelerator.load_state(folder)
        resumed = epoch(accelerator, *states)
    assert resumed == continued
    return Result([continued, resumed, parameters(states[0])], accelerator.device.type)


def with_dropout(folder: str, checkpoint: bool) -> tuple[list[float], dict[str, torch.Tensor], str]:
    """Losses, parameters and device of the second of two passes with dropout; the first may be that of a checkpoint."""
    accelerator = fresh()
    states = prepared(accelerator, dropout=0.5)
    if checkpoint:
        accelerator.load_state(folder)
    else:
        epoch(accelerator, *states)
        accelerator.save_state(folder)
    return epoch(accelerator, *states), parameters(states[0]), accelerator.device.type


def interrupted(_device: str) -> Result:
    """Two passes with dropout, and the second once more by a new `Accelerator`: bit for bit the same.

    The values are not compared with the CPU's, which draws other masks.
    """
    with tempfile.TemporaryDirectory() as folder:
        straight, resumed = with_dropout(folder, checkpoint=False), with_dropout(folder, checkpoint=True)
    assert resumed[0] == straight[0]
    assert all(torch.equal(value, straight[1][name]) for name, value in resumed[1].items())
    return Result("the same", resumed[2])


def dispatched(_device: str) -> Result:
    """A model that is divided among the devices that the library finds, and the host."""
    from accelerate import dispatch_model, infer_auto_device_map
    from accelerate.utils import get_max_memory

    torch.manual_seed(0)
    layers = (nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.Linear(16, 1))
    model = nn.Sequential(*layers)
    inputs = next(iter(batches()))[0]
    limits: dict[int | str, Any] = {key: ROOM.get(key, 10_000) for key in get_max_memory()}
    placed = infer_auto_device_map(model, max_memory=limits)
    assert set(placed.values()) == set(limits)
    model = dispatch_model(model, placed)
    with torch.no_grad():
        output = model(inputs)
    return Result(output, next(model.parameters()).device.type)


# Bytes. The first device has room for the first layer and for the largest that is fetched from the host, the second for
# the next layer. The host gets the rest.
ROOM: dict[int | str, int] = {0: 1700, 1: 1150}
PROGRAMS = [
    Program("accelerate", "a training loop, gradients of two batches", training, ("accelerate",), "the CPU"),
    Program("accelerate", "mixed precision, bfloat16", in_bfloat16, ("accelerate",), "the CPU", bound=HALF),
    Program("accelerate", "mixed precision, float16", in_float16, ("accelerate",), "the CPU", bound=HALF),
    Program("accelerate", "a checkpoint, saved and loaded", checkpoint, ("accelerate",), "the CPU"),
    Program("accelerate", "dropout after a checkpoint", interrupted, ("accelerate",), "the CPU"),
    Program("accelerate", "a model on all devices", dispatched, ("accelerate",), "the CPU"),
]
