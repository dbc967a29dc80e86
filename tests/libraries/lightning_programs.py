"""Programs of Lightning."""

from __future__ import annotations

import functools
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import mse_loss

from tests.libraries.networks import batches, network, parameters
from tests.libraries.programs import HALF, Program, Result


@functools.cache
def module_class() -> Any:
    """A LightningModule. The class is made late, since Lightning takes seconds to import."""
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = network()
            self.losses: list[float] = []
            self.dtypes: set[torch.dtype] = set()

        def training_step(self, batch: Any, _index: int) -> Any:
            output = self.network(batch[0])
            self.dtypes.add(output.dtype)
            loss = mse_loss(output, batch[1])
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=0.02)

    return Module


def chosen(device: str) -> dict[str, Any]:
    """What a user passes to the Trainer and to Fabric."""
    return {"accelerator": "cpu", "devices": 1} | (
        {} if device == "cpu" else {"accelerator": device, "strategy": device}
    )


def fit(device: str, module: Any, folder: str, resume: str | None = None, **options: Any) -> Any:
    """One Trainer; without log, progress bar and warnings about a machine."""
    import lightning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(
            **chosen(device), logger=False, enable_progress_bar=False, enable_model_summary=False,
            default_root_dir=folder, **options,
        )  # fmt: skip
        trainer.fit(module, batches(), ckpt_path=resume)
    return trainer


def training(device: str) -> Result:
    """Two epochs, and the second once more from a checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "one.ckpt"))
        first = module_class()()
        fit(device, first, folder, max_epochs=1).save_checkpoint(file)
        resumed = module_class()()
        trainer = fit(device, resumed, folder, file, max_epochs=2)
    return Result([first.losses, resumed.losses, parameters(resumed)], trainer.strategy.root_device.type)


def in_bfloat16(device: str) -> Result:
    """With `precision="bf16-mixed"`. The dtype of the output shows that it is in force."""
    with tempfile.TemporaryDirectory() as folder:
        module = module_class()()
        trainer = fit(device, module, folder, max_epochs=2, precision="bf16-mixed", gradient_clip_val=1.0)
    return Result([module.losses, sorted(map(str, module.dtypes))], trainer.strategy.root_device.type)


def looped(device: str, **options: Any) -> Result:
    """A loop of the user's own, with Fabric."""
    import lightning

    fabric = lightning.Fabric(**chosen(device), **options)
    fabric.launch()
    model: Any = network()
    model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters(), lr=0.02))
    loader: Any = fabric.setup_dataloaders(batches())
    losses = []
    for inputs, targets in loader:
        loss = mse_loss(model(inputs), targets)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return Result([losses, parameters(model.module)], fabric.device.type)


def fabric(device: str) -> Result:
    """In float32."""
    return looped(device)


def fabric_in_bfloat16(device: str) -> Result:
    """With `precision="bf16-mixed"`."""
    result = looped(device, precision="bf16-mixed")
    return Result(result.values[0], result.where)


PASSES = 'accelerator="openreg", strategy="openreg"'
REFUSED = "invalid strategy name"
OPTIONS: dict[str, Any] = {"integrations": ("lightning",), "without": REFUSED, "passes": PASSES}
PROGRAMS = [
    Program("lightning", "Trainer, two epochs and a checkpoint", training, **OPTIONS),
    Program("lightning", 'Trainer, `precision="bf16-mixed"`', in_bfloat16, bound=HALF, **OPTIONS),
    Program("lightning", "Fabric, a loop", fabric, **OPTIONS),
    Program("lightning", 'Fabric, `precision="bf16-mixed"`', fabric_in_bfloat16, bound=HALF, **OPTIONS),
]
