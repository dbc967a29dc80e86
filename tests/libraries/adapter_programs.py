"""Programs of safetensors and of peft, which loads through it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from tests.libraries.networks import language_model, network, parameters
from tests.libraries.programs import Program, Result
from tests.libraries.transformers_programs import rows


def file(device: str) -> Result:
    """Tensors of a device, saved and loaded to it."""
    from safetensors.torch import load_file, load_model, save_file

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "network.safetensors")
        model = network().to(device)
        save_file(model.state_dict(), path)
        loaded = load_file(path, device=device)
        load_model(model, path, device=device)
    return Result([loaded, parameters(model)], loaded["0.weight"].device.type)


def adapter(device: str) -> Result:
    """An adapter that is trained, saved, and loaded for another copy of the model."""
    import peft

    words = torch.stack([row["input_ids"] for row in rows()[:4]]).to(device)
    torch.manual_seed(3)
    model = peft.get_peft_model(language_model().to(device), peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=0.05)
    losses = []
    for _ in range(4):
        loss = model(input_ids=words, labels=words).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = peft.PeftModel.from_pretrained(language_model().to(device), folder, torch_device=device)
    with torch.no_grad():
        scores = loaded(input_ids=words).logits
    return Result([losses, scores], scores.device.type)


PROGRAMS = [
    Program(
        "safetensors", "save_file, load_file, load_model", file, ("safetensors",), "is invalid", passes="device=device"
    ),
    Program(
        "peft", "LoRA: trained, saved, loaded", adapter, ("safetensors",), "is invalid", passes="torch_device=device"
    ),
]
