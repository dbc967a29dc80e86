"""The small networks, the data and the tokenizer of the programs. Nothing is downloaded."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WORDS = ["<unk>", "<s>", "</s>", *(f"word{number}" for number in range(61))]


def network(dropout: float = 0.0) -> nn.Sequential:
    """Two layers, always with the same parameters."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 1))


def batches() -> DataLoader[Any]:
    """Four batches of eight rows, always the same."""
    inputs = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=8)


def parameters(model: nn.Module) -> dict[str, torch.Tensor]:
    """The parameters and buffers, copied to the host."""
    return {name: value.detach().float().cpu().clone() for name, value in model.state_dict().items()}


def language_model(dropout: float = 0.0) -> Any:
    """A decoder of two layers, with random parameters that are always the same."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(WORDS), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=2,
        attention_dropout=dropout,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def tokenizer() -> Any:
    """One number for each word."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
