"""transformers: pipelines by index, `TrainingArguments(bf16=True)`, a cache on the host, a Trainer that is resumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_openreg.integrations import _library, _random_states


# LITERALINCLUDE START: transformers-register
def register() -> None:
    """Makes transformers use the device where it has a choice.

    Idempotent. `torch_openreg.integrations.accelerate` chooses the device of the Trainer and of `device_map="auto"`. A
    Trainer that saves checkpoints, or is resumed from one, needs both integrations.

    Raises:
        ImportError: if transformers is missing or too old.
        RuntimeError: if this release of transformers lacks a function that is replaced.
    """
    _library.require("transformers", "5.0")
    _library.install(_REPLACEMENTS)


def unregister() -> None:
    """Undoes `register()`. Idempotent."""
    for replacement in _REPLACEMENTS:
        replacement.remove()


# LITERALINCLUDE END: transformers-register


# LITERALINCLUDE START: transformers-bf16
def _bf16_available(original: Callable[..., Any]) -> Callable[..., Any]:
    """Whether `TrainingArguments(bf16=True)` is accepted.

    The library has a branch for each vendor (https://github.com/huggingface/transformers/pull/37568 adds one). Autocast
    computes in bfloat16 on this device, whatever the index.
    """

    def is_torch_bf16_gpu_available() -> bool:
        return True

    return is_torch_bf16_gpu_available


# LITERALINCLUDE END: transformers-bf16


# LITERALINCLUDE START: transformers-pipeline
def _pipeline(original: Callable[..., Any]) -> Callable[..., Any]:
    """Creates a pipeline on the device that an index means.

    The library turns the index into the name of the first vendor that it finds, or takes the CPU. No index means 0.
    """

    def create(self: Any, *arguments: Any, **options: Any) -> None:
        given = _library.bound(original, self, *arguments, **options)
        device, model = given.arguments.get("device"), given.arguments["model"]
        placed = getattr(model, "hf_device_map", None)  # by accelerate, which does not let a model be moved
        if placed is None and (device is None or (isinstance(device, int) and device >= 0)):
            given.arguments["device"] = _library.device(device or 0)
        original(*given.args, **given.kwargs)
        first = next(iter(placed.values())) if placed else None
        if isinstance(first, int):
            self.device = _library.device(first)

    return create


# LITERALINCLUDE END: transformers-pipeline


# LITERALINCLUDE START: transformers-offloaded
def _offloaded_update(original: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the keys and values of a layer to a cache whose other layers are on the host.

    The library waits for CUDA's streams here. The order is the same: this layer must have arrived; the next one is
    fetched by a stream of its own, behind the copies to the host that the current stream has queued.
    """

    def update(
        self: Any, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *arguments: Any, **options: Any
    ) -> Any:
        if not self.offloading or key_states.device.type != "openreg":
            return original(self, key_states, value_states, layer_idx, *arguments, **options)
        current = torch.accelerator.current_stream(key_states.device)
        current.wait_stream(self.prefetch_stream)
        self.offloading = False
        try:
            cached = original(self, key_states, value_states, layer_idx, *arguments, **options)
        finally:
            self.offloading = True
        self.prefetch_stream.wait_stream(current)
        self.prefetch(layer_idx + 1, self.only_non_sliding)
        self.offload(layer_idx, self.only_non_sliding)
        return cached

    return update


# LITERALINCLUDE END: transformers-offloaded


# LITERALINCLUDE START: transformers-random
def _save_rng_state(original: Callable[..., Any]) -> Callable[..., Any]:
    """Saves the random numbers of the devices beside those that the Trainer saves.

    It has a branch for each vendor, and no registry. A callback would not do: none learns from which checkpoint a
    Trainer is resumed.
    """

    def save(self: Any, output_dir: str) -> None:
        original(self, output_dir)
        if self.args.device.type == "openreg":
            _random_states.save(output_dir, self.args.process_index, self.args.device)

    return save


def _load_rng_state(original: Callable[..., Any]) -> Callable[..., Any]:
    """Loads them, when the Trainer loads its own."""

    def load(self: Any, checkpoint: str | None) -> None:
        original(self, checkpoint)
        if checkpoint is not None and self.args.device.type == "openreg":
            _random_states.load(checkpoint, self.args.process_index, self.args.device)

    return load


_REPLACEMENTS = (
    _library.Replacement("transformers.utils.import_utils", "is_torch_bf16_gpu_available", "", _bf16_available),
    _library.Replacement("transformers.pipelines.base.Pipeline", "__init__", "self model tokenizer", _pipeline),
    _library.Replacement(
        "transformers.cache_utils.Cache", "update", "self key_states value_states layer_idx", _offloaded_update
    ),
    _library.Replacement("transformers.trainer.Trainer", "_save_rng_state", "self output_dir", _save_rng_state),
    _library.Replacement("transformers.trainer.Trainer", "_load_rng_state", "self checkpoint", _load_rng_state),
)
# LITERALINCLUDE END: transformers-random
