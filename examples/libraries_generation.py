"""Files of safetensors, pipelines of transformers, and a cache that is kept on the host."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import pipeline

from examples.libraries_quiet import quiet
from tests.libraries.networks import language_model, tokenizer
from torch_openreg.integrations import safetensors, transformers


# LITERALINCLUDE START: libraries-files
def files() -> None:
    """Tensors that are saved, and loaded to a device."""
    safetensors.register()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "x.safetensors")
        save_file({"x": torch.arange(3.0, device="openreg")}, file)
        for device in ("openreg:1", "cpu"):
            print("loaded:", load_file(file, device=device)["x"])
        try:
            load_file(file, device="openreg:7")
        except ValueError as error:
            print(error)
    safetensors.unregister()


# LITERALINCLUDE END: libraries-files


# LITERALINCLUDE START: libraries-pipelines
def pipelines() -> None:
    """The same words on every device, and where they were computed."""
    transformers.register()
    model = language_model()
    options: dict[str, Any] = {"max_new_tokens": 4, "do_sample": False, "return_full_text": False}
    for device in ("cpu", 1, None):
        pipe = pipeline("text-generation", model, tokenizer=tokenizer(), device=device)
        print(f"device={device!r}: {pipe('word2 word7', **options)[0]['generated_text']} on {pipe.device}")
    placed = language_model().to("openreg:1")
    placed.hf_device_map = {"": 1}  # as accelerate leaves it
    print("placed:", pipeline("text-generation", placed, tokenizer=tokenizer()).device)


def offloaded() -> None:
    """A cache that is kept on the host gives the same words."""
    model, prompt = language_model().to("openreg"), torch.tensor([[1, 5, 9]], device="openreg")
    words = model.generate(prompt, max_new_tokens=8, do_sample=False)
    same = model.generate(prompt, max_new_tokens=8, do_sample=False, cache_implementation="offloaded")
    print("offloaded:", torch.equal(words, same))
    transformers.unregister()
    try:
        model.generate(prompt, max_new_tokens=8, do_sample=False, cache_implementation="offloaded")
    except (RuntimeError, AssertionError) as error:
        print("without:", error)


# LITERALINCLUDE END: libraries-pipelines

if __name__ == "__main__":
    quiet()
    files()
    pipelines()
    offloaded()
