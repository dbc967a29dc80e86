"""Loops with accelerate, and the Trainer of transformers, on the CPU and on the device."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import GradScalerKwargs, get_max_memory
from torch.nn.functional import mse_loss

from examples.libraries_quiet import quiet
from tests.libraries.networks import WORDS, batches, language_model, network
from torch_openreg.integrations import accelerate as integration
from torch_openreg.integrations import transformers as transformers_integration


def forget() -> None:
    """The library chooses a device once in a process. A program has no need of this; the comparison has."""
    AcceleratorState._reset_state(True)
    GradientState._reset_state()


# LITERALINCLUDE START: libraries-accelerate-loop
def losses(**options: Any) -> tuple[list[float], Accelerator]:
    """Trains for one pass over the data. No line names a device."""
    accelerator = Accelerator(**options)
    model = network()
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), batches())
    seen = []
    for inputs, targets in loader:
        loss = mse_loss(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        seen.append(round(loss.item(), 4))
    return seen, accelerator


def loops() -> None:
    """The loop on the CPU, on the device, and there in half precision."""
    print("CPU:", losses()[0])
    forget()
    integration.register()
    found, accelerator = losses()
    print(f"{accelerator.device}: {found}")
    for precision in ("bf16", "fp16"):
        forget()
        found, accelerator = losses(mixed_precision=precision, kwargs_handlers=[GradScalerKwargs(init_scale=128.0)])
        print(f"{precision}, {'with' if accelerator.scaler else 'without'} a scaler: {found}")


# LITERALINCLUDE END: libraries-accelerate-loop


# LITERALINCLUDE START: libraries-accelerate-checkpoint
def restored() -> None:
    """Random numbers of the device after a checkpoint, and again after it is loaded."""
    accelerator = Accelerator()
    with tempfile.TemporaryDirectory() as folder:
        accelerator.save_state(folder)
        first = torch.rand(2, device=accelerator.device).tolist()
        accelerator.load_state(folder)
        print("the same after loading:", torch.rand(2, device=accelerator.device).tolist() == first)
        forget()
        integration.register(1)
        elsewhere = Accelerator()
        elsewhere.load_state(folder)
        print(f"the same on {elsewhere.device}:", torch.rand(2, device=elsewhere.device).tolist() == first)
        Path(folder, "openreg_random_states_0.pt").unlink()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            elsewhere.load_state(folder)
        print(str(caught[0].message).replace(folder, "FOLDER"))
    forget()
    integration.register(0)


# LITERALINCLUDE END: libraries-accelerate-checkpoint


# LITERALINCLUDE START: libraries-trainer
def trained(folder: str, checkpoint: str | None = None, dropout: float = 0.0, **options: Any) -> list[float]:
    """The losses of a Trainer. The library chooses the device."""
    words = torch.randint(3, len(WORDS), (16, 12), generator=torch.Generator().manual_seed(2))
    arguments = transformers.TrainingArguments(
        output_dir=folder, logging_steps=1, per_device_train_batch_size=4, optim="sgd", learning_rate=0.1,
        report_to=[], disable_tqdm=True, **{"max_steps": 3, "save_strategy": "no", **options},
    )  # fmt: skip
    rows = [{"input_ids": row, "labels": row} for row in words]
    trainer = transformers.Trainer(model=language_model(dropout), args=arguments, train_dataset=rows)
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train(resume_from_checkpoint=checkpoint)
    return [round(entry["loss"], 4) for entry in trainer.state.log_history if "loss" in entry]


def trainers(folder: str) -> None:
    """The Trainer on the CPU, on the device, and there in bfloat16."""
    print("CPU:", trained(folder, use_cpu=True))
    print("device:", trained(folder))
    transformers_integration.register()
    print("bf16:", trained(folder, bf16=True))


# LITERALINCLUDE END: libraries-trainer


# LITERALINCLUDE START: libraries-resumed
def resumed(folder: str) -> None:
    """Ten steps with dropout, and the last five once more by a new Trainer, which reads the first five losses."""
    options: dict[str, Any] = {"dropout": 0.5, "max_steps": 10, "save_strategy": "steps", "save_steps": 5}
    straight, checkpoint = trained(folder, **options), str(Path(folder, "checkpoint-5"))
    print("resumed:", trained(folder, checkpoint, **options)[5:] == straight[5:])
    transformers_integration.unregister()
    print("as the library is:", trained(folder, checkpoint, **options)[5:] == straight[5:])


# LITERALINCLUDE END: libraries-resumed


# LITERALINCLUDE START: libraries-accelerate-refused
def refused() -> None:
    """Mistakes, and the way back."""
    print("limits:", get_max_memory({0: "2KB", "cpu": 100}))
    for mistake in (lambda: integration.register(7), lambda: get_max_memory({7: 100}), lambda: integration.register(1)):
        try:
            mistake()
        except (ValueError, RuntimeError) as error:
            print(error)
    forget()
    Accelerator(mixed_precision="fp16")
    try:
        Accelerator(mixed_precision="fp16", kwargs_handlers=["no handler"])
    except AssertionError:
        print("still:", Accelerator().mixed_precision)
    integration.unregister()
    forget()
    print("undone:", Accelerator().device, *get_max_memory())


# LITERALINCLUDE END: libraries-accelerate-refused

if __name__ == "__main__":
    quiet()
    transformers.logging.disable_progress_bar()
    loops()
    print("memory of:", *get_max_memory())
    restored()
    with tempfile.TemporaryDirectory() as directory:
        trainers(directory)
        resumed(directory)
    refused()
