"""Lightning: the Trainer and Fabric on the CPU and on the device."""

from __future__ import annotations

from typing import Any

import lightning
import torch
from lightning.fabric.accelerators import ACCELERATOR_REGISTRY
from torch.nn.functional import mse_loss

from examples.libraries_quiet import quiet
from tests.libraries.networks import batches, network
from torch_openreg.integrations import lightning as integration


# LITERALINCLUDE START: libraries-lightning-fit
class Model(lightning.LightningModule):
    """A network that records its losses, and the dtype of its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.network, self.losses, self.dtype_seen = network(), list[float](), torch.float32

    def training_step(self, batch: Any, _index: int) -> torch.Tensor:
        """The loss of a batch."""
        output = self.network(batch[0])
        loss = mse_loss(output, batch[1])
        self.losses.append(round(loss.item(), 4))
        self.dtype_seen = output.dtype
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Plain gradient descent."""
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(**options: Any) -> None:
    """Trains for one pass over the data."""
    model = Model()
    trainer = lightning.Trainer(
        **options, max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, batches())
    print(f"{trainer.strategy.root_device}, {trainer.precision_plugin.precision}, {model.dtype_seen}: {model.losses}")


def trainers() -> None:
    """The Trainer on the CPU, on the device, and there in bfloat16."""
    integration.register()
    integration.register()  # again: the names are there
    fit(accelerator="cpu")
    fit(accelerator="openreg", strategy="openreg", devices=1)
    fit(accelerator="openreg", strategy="openreg", devices="1,", precision="bf16-mixed")


# LITERALINCLUDE END: libraries-lightning-fit


# LITERALINCLUDE START: libraries-lightning-fabric
def fabric() -> None:
    """A loop of one's own."""
    for options in ({"accelerator": "cpu"}, {"accelerator": "openreg", "strategy": "openreg", "devices": [1]}):
        made: Any = lightning.Fabric(**options, precision="bf16-mixed")
        made.launch()
        model: Any = network()
        model, optimizer = made.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
        losses = []
        for inputs, targets in made.setup_dataloaders(batches()):
            loss = mse_loss(model(inputs), targets)
            made.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(round(loss.item(), 3))
        print(f"{made.device}, autocast for {made._precision.device}: {losses}")
    stats = made.accelerator.get_device_stats(made.device)
    print(f"statistics of {made.accelerator.name()}:", stats["allocated_bytes.all.current"] > 0)


# LITERALINCLUDE END: libraries-lightning-fabric


# LITERALINCLUDE START: libraries-lightning-refused
def refused() -> None:
    """Mistakes, and the way back."""
    for options in (
        {"devices": 7},
        {"devices": [0, 0]},
        {"devices": "all"},
        {"devices": 2, "strategy": "openreg"},
        {"devices": 1},
    ):
        try:
            lightning.Fabric(accelerator="openreg", **options).launch()
        except ValueError as error:
            print(error)
    everything: Any = lightning.Fabric(accelerator="openreg", strategy="openreg_ddp", devices="auto")
    print("auto:", everything.strategy.parallel_devices)
    integration.unregister()
    print("undone:", "openreg" not in ACCELERATOR_REGISTRY)


# LITERALINCLUDE END: libraries-lightning-refused

if __name__ == "__main__":
    quiet()
    trainers()
    fabric()
    refused()
