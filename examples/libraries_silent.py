"""What libraries do on a device of which they have not been told."""

from __future__ import annotations

import tempfile
from pathlib import Path

import lightning
import torch
from accelerate import Accelerator
from accelerate.utils import get_max_memory
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import TrainingArguments, pipeline

from examples.libraries_quiet import quiet
from tests.libraries.networks import language_model, tokenizer


# LITERALINCLUDE START: libraries-silent
def main() -> None:
    """Asks each library which device it takes, or prints its error."""
    print("PyTorch:", torch.accelerator.current_accelerator())
    print("Accelerator:", Accelerator().device)
    print("memory of:", *get_max_memory())
    with tempfile.TemporaryDirectory() as folder:
        print("Trainer:", TrainingArguments(output_dir=folder).device)
        print(
            "pipeline, device=0:", pipeline("text-generation", language_model(), tokenizer=tokenizer(), device=0).device
        )
        print("Fabric:", lightning.Fabric().device)
        file = Path(folder, "x.safetensors")
        save_file({"x": torch.ones(2, device="openreg")}, file)
        try:
            TrainingArguments(output_dir=folder, bf16=True)
        except ValueError as error:
            print(error)
        try:
            lightning.Trainer(accelerator="openreg", logger=False)
        except ValueError as error:
            print(str(error).partition(" Available")[0])
        try:
            load_file(file, device="openreg")
        except SafetensorError as error:
            print(error)


# LITERALINCLUDE END: libraries-silent

if __name__ == "__main__":
    quiet()
    main()
