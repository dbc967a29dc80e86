"""Programs of libraries that need no integration: a tensor or a model has a device, and they compute there.

These libraries are imported by name, late: the tests run where they are missing, and skip these programs.
"""

from __future__ import annotations

import importlib
import tempfile
from typing import Any

import torch
from torch import nn
from torch.nn.functional import mse_loss

from tests.libraries.networks import WORDS, batches, network, parameters, tokenizer
from tests.libraries.programs import Program, Result


def library(name: str) -> Any:
    """A module of a library."""
    return importlib.import_module(name)


def numbers(*shape: int) -> torch.Tensor:
    """Random numbers, always the same."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(4))


def metrics(device: str) -> Result:
    """Three metrics over several batches."""
    torchmetrics = library("torchmetrics")
    accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=5).to(device)
    scores = torchmetrics.MetricCollection(
        [torchmetrics.MeanSquaredError(), torchmetrics.PearsonCorrCoef(), torchmetrics.R2Score()]
    ).to(device)
    for seed in range(3):
        logits = torch.randn(32, 5, generator=torch.Generator().manual_seed(seed)).to(device)
        accuracy.update(logits, (logits.roll(1, 1) + logits).argmax(1))
        scores.update(logits[:, 0], logits[:, 0] + 0.1 * logits[:, 1])
    values = accuracy.compute()
    return Result([values, dict(scores.compute())], values.device.type)


def rearranged(device: str) -> Result:
    """A layer and functions."""
    einops, layers = library("einops"), library("einops.layers.torch")
    images = numbers(2, 3, 8, 8).to(device)
    patches = einops.rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4)
    means = layers.Reduce("b (h p) c -> b h c", "mean", p=2)(patches)
    products = einops.einsum(patches, patches, "b i c, b j c -> b i j")
    return Result([patches, means, einops.repeat(means, "b h c -> b h c r", r=2), products], products.device.type)


def diffusion(device: str) -> Result:
    """A step of training of a small UNet, and three steps of denoising."""
    diffusers = library("diffusers")
    torch.manual_seed(5)
    model = diffusers.UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(32, 32),
        norm_num_groups=8, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ).to(device)  # fmt: skip
    scheduler = diffusers.DDIMScheduler(num_train_timesteps=50)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, noise = numbers(2, 1, 8, 8).to(device), numbers(2, 1, 8, 8).flip(0).to(device)
    steps = torch.tensor([3, 30], device=device)
    loss = mse_loss(model(scheduler.add_noise(images, noise, steps), steps).sample, noise)
    loss.backward()
    optimizer.step()
    scheduler.set_timesteps(3, device=device)
    with torch.no_grad():
        for step in scheduler.timesteps:
            images = scheduler.step(model(images, step).sample, step, images).prev_sample
    return Result([loss, images], images.device.type)


def sentences(device: str) -> Result:
    """Embeddings of sentences by a small encoder, whose device the program names."""
    transformers, package = library("transformers"), library("sentence_transformers")
    modules = library("sentence_transformers.sentence_transformer.modules")
    torch.manual_seed(6)
    encoder = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=len(WORDS), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        encoder.save_pretrained(folder)
        tokenizer().save_pretrained(folder)
        words = modules.Transformer(folder)
        model = package.SentenceTransformer(modules=[words, modules.Pooling(32)], device=device)
        vectors = model.encode(["word1 word2", "word3 word4 word5"], convert_to_tensor=True)
        similar = model.similarity(vectors, vectors)
    return Result([vectors, similar], vectors.device.type)


def graph(device: str) -> Result:
    """Two convolutions on a graph, trained."""
    geometric = library("torch_geometric.nn")
    torch.manual_seed(7)

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = geometric.GCNConv(4, 8), geometric.GATConv(8, 2, heads=2)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> Any:
            return geometric.global_mean_pool(self.second(self.first(x, edges).tanh(), edges), None)

    model = Network().to(device)
    edges = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]], device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        loss = model(numbers(5, 4).to(device), edges).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return Result([losses, parameters(model)], next(model.parameters()).device.type)


def dictionary(device: str) -> Result:
    """Tensors under names, indexed, stacked and moved together, and a module that reads them."""
    package, modules = library("tensordict"), library("tensordict.nn")
    data = package.TensorDict({"x": numbers(6, 8), "more": {"y": numbers(6, 2)}}, batch_size=[6]).to(device)
    module = modules.TensorDictModule(network().to(device), in_keys=["x"], out_keys=["z"])
    result = module(package.stack([data[:3], data[3:]]).reshape(-1))
    return Result([result["z"], result["more", "y"]], result["z"].device.type)


def attribution(device: str) -> Result:
    """What the inputs contribute to an output."""
    captum = library("captum.attr")
    model = network().to(device)
    inputs = next(iter(batches()))[0].to(device)
    gradients = captum.IntegratedGradients(model).attribute(inputs, target=0, n_steps=16)
    ablated = captum.FeatureAblation(model).attribute(inputs, target=0)
    return Result([gradients, ablated], gradients.device.type)


def process(device: str) -> Result:
    """A Gaussian process: its hyperparameters, trained, and its predictions."""
    gpytorch = library("gpytorch")

    class Model(gpytorch.models.ExactGP):  # type: ignore[misc, name-defined]
        def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean, self.kernel = (
                gpytorch.means.ConstantMean(),
                gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()),
            )

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    x = torch.linspace(0, 1, 20, device=device)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(device)
    model = Model(x, (6 * x).sin(), likelihood).to(device)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(4):
        loss = -objective(model(x), (6 * x).sin())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        predicted = model(torch.linspace(0, 1, 7, device=device)).mean
    return Result([losses, predicted], predicted.device.type)


MOVED: dict[str, Any] = {"passes": "model.to(device)"}
PROGRAMS = [
    Program("torchmetrics", "accuracy, error, correlation", metrics, passes="metric.to(device)"),
    Program("einops", "rearrange, reduce, repeat, einsum", rearranged),
    Program("diffusers", "a UNet trained, and DDIM", diffusion, **MOVED),
    Program("sentence-transformers", "embeddings and similarity", sentences, passes="device=device"),
    Program("torch-geometric", "two convolutions trained", graph, **MOVED),
    Program("tensordict", "names, slices, a module", dictionary, **MOVED),
    Program("captum", "integrated gradients, ablation", attribution, **MOVED),
    Program("gpytorch", "a Gaussian process trained", process, bound=1e-5, **MOVED),
]
