"""The networks that are trained, built from PyTorch's own modules."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from tests.models.training import Batch, Subject

CLASSES = 10
WORDS = 100


class Residual(nn.Module):
    """Two convolutions with a shortcut."""

    def __init__(self, inward: int, outward: int, stride: int, activation: type[nn.Module]) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inward, outward, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outward),
            activation(inplace=True),
            nn.Conv2d(outward, outward, 3, padding=1, bias=False),
            nn.BatchNorm2d(outward),
        )
        self.activation = activation(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if (inward, stride) != (outward, 1):
            self.shortcut = nn.Sequential(nn.Conv2d(inward, outward, 1, stride, bias=False), nn.BatchNorm2d(outward))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.activation(self.body(x) + self.shortcut(x))
        return result


def residual_network(activation: type[nn.Module], pooling: type[nn.Module]) -> nn.Module:
    """The 18 layers of ResNet-18, a quarter as wide, after a stem for small images."""
    layers = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), activation(inplace=True)]
    layers.append(pooling(3, 2, padding=1))
    for inward, outward in pairwise([16, 16, 32, 64, 128]):
        layers.append(Residual(inward, outward, 1 + (inward != outward), activation))
        layers.append(Residual(outward, outward, 1, activation))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, CLASSES))


def resnet18() -> nn.Module:
    """As published, with kinks, at which rounding decides between two gradients (see `smooth_resnet18`)."""
    return residual_network(nn.ReLU, nn.MaxPool2d)


def smooth_resnet18() -> nn.Module:
    """The same without kinks, so that devices that round differently can be compared after many steps."""
    return residual_network(nn.SiLU, nn.AvgPool2d)


def lenet() -> nn.Module:
    """The first convolutional network."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.Sigmoid(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Sigmoid(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid(), nn.Linear(84, CLASSES),
    )  # fmt: skip


def perceptron() -> nn.Module:
    """Three linear layers."""
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, CLASSES))


class Patches(nn.Module):
    """A small vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, 64, 4, 4)
        self.first = nn.Parameter(torch.randn(1, 1, 64))
        self.places = nn.Parameter(torch.randn(1, 65, 64))
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        patches = self.cut(x).flatten(2).mT
        tokens = torch.cat([self.first.expand(len(x), -1, -1), patches], 1) + self.places
        scores: Tensor = self.head(self.layers(tokens)[:, 0])
        return scores


class Recurrent(nn.Module):
    """A recurrent language model with tied input and output embeddings."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, 64)
        self.recurrent = kind(64, 64, num_layers=2, batch_first=True)
        self.write = nn.Linear(64, WORDS)
        self.write.weight = self.table.weight

    def forward(self, words: Tensor) -> Tensor:
        scores: Tensor = self.write(self.recurrent(self.table(words))[0])
        return scores.transpose(1, 2)


class Causal(nn.Module):
    """A language model with causal attention, post-norm."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(WORDS, 64), nn.Embedding(32, 64)
        self.layers = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(64, 4, 128, dropout=0, activation="gelu", batch_first=True), 2
        )
        self.write = nn.Linear(64, WORDS, bias=False)
        self.write.weight = self.table.weight

    def forward(self, words: Tensor) -> Tensor:
        length = words.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=words.device)
        tokens = self.table(words) + self.places(torch.arange(length, device=words.device))
        scores: Tensor = self.write(self.layers(tokens, mask=mask, is_causal=True))
        return scores.transpose(1, 2)


def vectors() -> Batch:
    """Random vectors."""
    return {"inputs": torch.randn(32, 64), "targets": torch.randint(CLASSES, (32,))}


def images() -> Batch:
    """Noise in three channels."""
    return {"inputs": torch.randn(8, 3, 32, 32), "targets": torch.randint(CLASSES, (8,))}


def images_in_channels_last() -> Batch:
    """The same in channels_last."""
    batch = images()
    return batch | {"inputs": batch["inputs"].to(memory_format=torch.channels_last)}


def sentences() -> Batch:
    """Random words, each with the next as its target."""
    words = torch.randint(WORDS, (8, 33))
    return {"inputs": words[:, :-1], "targets": words[:, 1:]}


NETWORKS = {
    "MLP": Subject(perceptron, vectors),
    "LeNet": Subject(lenet, images),
    "ResNet-18": Subject(smooth_resnet18, images),
    "ResNet-18, channels_last": Subject(
        lambda: smooth_resnet18().to(memory_format=torch.channels_last), images_in_channels_last
    ),
    "vision transformer": Subject(Patches, images),
    "LSTM": Subject(lambda: Recurrent(nn.LSTM), sentences),
    "GRU": Subject(lambda: Recurrent(nn.GRU), sentences),
    "TransformerEncoder": Subject(Causal, sentences),
}
