"""Models of the package `transformers` on the device: training, generation, files."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.models import checks
from tests.models.language import ATTENTIONS, FAMILIES, LANGUAGE_MODELS, WORDS
from tests.models.training import DEVICE, Batch, Training, pair

NEW_WORDS = 12


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_training_is_that_of_the_cpu(name: str) -> None:
    checks.training_is_that_of_the_cpu(LANGUAGE_MODELS[name])


@pytest.mark.needs("host kernels")
@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_nothing_falls_back(name: str) -> None:
    checks.nothing_falls_back(LANGUAGE_MODELS[name])


@pytest.mark.parametrize("dtype", checks.HALVES, ids=str)
@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_mixed_precision_stays_near_float32(name: str, dtype: torch.dtype) -> None:
    checks.mixed_precision_stays_near_float32(LANGUAGE_MODELS[name], dtype)


def trained(family: str, attention: str = "sdpa") -> tuple[Training, Training]:
    """Both trainings after some steps, with the models in evaluation mode."""
    both = pair(LANGUAGE_MODELS[f"{family}, {attention}"])
    for training in both:
        training.losses()
        training.model.eval()
    return both


def prompt(training: Training) -> Batch:
    """The model's prompt: the first words of the batch, or all of the audio."""
    if "input_features" in training.batch:
        return {"input_features": training.batch["input_features"]}
    words = training.batch["input_ids"][:, :8]
    return {"input_ids": words, "attention_mask": torch.ones_like(words)}


def written(training: Training, **options: Any) -> Tensor:
    """The words that the model generates, including the prompt where the model repeats it."""
    model: Any = training.model
    words: Tensor = model.generate(**prompt(training), min_new_tokens=NEW_WORDS, max_new_tokens=NEW_WORDS, **options)
    return words


@pytest.mark.needs("host kernels")
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize(
    ("family", "options"),
    # A decoder that has learned so little repeats one word, unless it is forbidden to.
    [("GPT-2", {}), ("Llama", {}), ("T5", {"no_repeat_ngram_size": 1}), ("Whisper", {"no_repeat_ngram_size": 1})],
)
def test_what_is_generated_is_what_the_cpu_generates(family: str, options: dict[str, int], attention: str) -> None:
    on_cpu, on_device = trained(family, attention)
    expected = written(on_cpu, do_sample=False, **options)
    assert len(expected.unique()) > 10
    torch.openreg.reset_fallback_stats()
    words = written(on_device, do_sample=False, **options)
    fallbacks = torch.openreg.fallback_stats()
    assert words.device.type == DEVICE
    assert words.tolist() == expected.tolist()
    assert written(on_device, do_sample=False, use_cache=False, **options).tolist() == expected.tolist()
    assert fallbacks == {}


def test_beams_are_those_of_the_cpu() -> None:
    on_cpu, on_device = trained("Llama")
    assert written(on_device, num_beams=3).tolist() == written(on_cpu, num_beams=3).tolist()


@pytest.mark.needs("host kernels")
@pytest.mark.parametrize("family", ["GPT-2", "Llama"])
def test_sampling_obeys_the_seed(family: str) -> None:
    _, training = trained(family)
    torch.openreg.reset_fallback_stats()
    words = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        words.append(written(training, do_sample=True, top_k=50, top_p=0.9, temperature=1.5).tolist())
    assert words[0] == words[1]
    assert words[0] != words[2]
    assert all(0 <= word < WORDS for sentence in words[0] for word in sentence)
    assert torch.openreg.fallback_stats() == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_saved_and_loaded_it_is_the_same_model(family: str, tmp_path: Path) -> None:
    _, training = trained(family)
    model: Any = training.model
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path, attn_implementation="sdpa")
    assert loaded.device.type == "cpu"
    loaded.to(DEVICE)
    for (name, ours), theirs in zip(loaded.state_dict().items(), model.state_dict().values(), strict=True):
        assert ours.tolist() == theirs.tolist(), name
    again = Training(training.subject, loaded, training.batch, DEVICE)
    assert again.step().item() == training.step().item()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_state_dict_goes_to_the_cpu_and_back(family: str, tmp_path: Path) -> None:
    on_cpu, on_device = trained(family)
    torch.save(on_device.model.state_dict(), tmp_path / "state.pt")
    on_cpu.model.load_state_dict(torch.load(tmp_path / "state.pt", map_location="cpu"))
    assert on_cpu.step().item() == pytest.approx(on_device.step().item(), rel=1e-5)
    on_device.model.load_state_dict(on_cpu.model.state_dict())
    for (name, ours), theirs in zip(
        on_device.model.state_dict().items(), on_cpu.model.state_dict().values(), strict=True
    ):
        assert ours.device.type == DEVICE
        assert ours.tolist() == theirs.tolist(), name


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_tied_stays_tied(family: str) -> None:
    def tied(model: nn.Module) -> set[frozenset[str]]:
        names: dict[int, set[str]] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            names.setdefault(id(parameter), set()).add(name)
        return {frozenset(group) for group in names.values()}

    model = LANGUAGE_MODELS[f"{family}, sdpa"].make()
    expected = tied(model)
    assert (max(map(len, expected)) > 1) == (family != "Llama")
    assert tied(copy.deepcopy(model).to(DEVICE)) == expected
    assert tied(model.to(DEVICE)) == expected
