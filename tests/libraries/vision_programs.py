"""Programs of timm and torchvision."""

from __future__ import annotations

import random
from typing import Any

import torch

from tests.libraries.other_programs import library, numbers
from tests.libraries.programs import Program, Result


def torchvision() -> Any:
    """The module, also where its compiled operators cannot be loaded.

    A package index has it for CUDA, beside whose libraries a PyTorch for the CPU is missing. Models and transforms need
    no operator of it; its import, however, describes these two to the dispatcher, which must know them.
    """
    try:
        return library("torchvision")
    except RuntimeError as error:
        if "operator torchvision::nms does not exist" not in str(error):
            raise
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library("torchvision")


def timm(name: str = "") -> Any:
    """timm or one of its modules; it imports torchvision."""
    torchvision()
    return library(f"timm.{name}" if name else "timm")


def backbones(device: str) -> Result:
    """A small convolutional network and a small transformer, trained for two steps, then in eval mode."""
    values = []
    for name in ("test_efficientnet", "test_vit"):
        torch.manual_seed(8)
        model = timm().create_model(name, pretrained=False, num_classes=5).to(device)
        optimizer = timm("optim").create_optimizer_v2(model, "sgd", lr=0.01, momentum=0.9)
        images = numbers(4, *model.pretrained_cfg["input_size"]).to(device)
        classes = torch.arange(4, device=device)
        losses = []
        for _ in range(2):
            loss = torch.nn.functional.cross_entropy(model(images), classes)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            values.append([losses, model(images), model.forward_features(images)])
    return Result(values, values[-1][1].device.type)


def averaged(device: str) -> Result:
    """Images that are mixed, a loss for them, and the moving average of a model."""
    torch.manual_seed(9)
    model = timm().create_model("test_resnet", pretrained=False, num_classes=5).to(device)
    average = timm("utils").ModelEmaV3(model, decay=0.9)
    config = timm("data").resolve_model_data_config(model)
    mean, std = (torch.tensor(config[name], device=device).view(3, 1, 1) for name in ("mean", "std"))
    library("numpy.random").seed(0)  # draws how the images are mixed
    mix = timm("data").Mixup(mixup_alpha=0.4, cutmix_alpha=1.0, label_smoothing=0.1, num_classes=5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for seed in range(3):
        images = numbers(4, *config["input_size"]).roll(seed, 3).to(device)
        images, classes = mix((images - mean) / std, torch.arange(4, device=device))
        loss = timm("loss").SoftTargetCrossEntropy()(model(images), classes)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update(model)
        losses.append(loss.item())
    # Biases whose gradients cancel are compared by what the network makes of them.
    with torch.no_grad():
        scores = average.module.eval()(images)
    return Result([losses, scores], scores.device.type)


def vision(device: str) -> Result:
    """A network trained on images that are cropped, flipped, resized and normalized on the device."""
    models, transforms = torchvision().models, library("torchvision.transforms.v2")
    torch.manual_seed(10)
    random.seed(10)
    model = models.mobilenet_v3_small(num_classes=5, dropout=0.0).to(device)
    prepare = transforms.Compose([
        transforms.RandomCrop(48), transforms.RandomHorizontalFlip(), transforms.Resize(64, antialias=True),
        transforms.Normalize([0.1, 0.2, 0.3], [1.0, 0.9, 0.8]),
    ])  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(2):
        images = prepare(numbers(4, 3, 56, 56).to(device))
        loss = torch.nn.functional.cross_entropy(model(images), torch.arange(4, device=device), label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return Result([losses, images], images.device.type)


MOVED: dict[str, Any] = {"passes": "model.to(device)"}
PROGRAMS = [
    Program("timm", "two backbones trained, and their features", backbones, bound=1e-5, **MOVED),
    Program("timm", "mixup and cutmix, a moving average", averaged, bound=1e-5, **MOVED),
    Program("torchvision", "MobileNet trained, transforms on the device", vision, **MOVED),
]
