"""Models of the package `transformers`, small and with random parameters: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from tests.models.training import Batch, Subject

# Otherwise it logs that a model without a loss type gets the default loss.
transformers.logging.set_verbosity_error()

WORDS, WIDTH, LENGTH = 256, 128, 64
ATTENTIONS = ("eager", "sdpa")


def gpt2(**options: Any) -> nn.Module:
    """A decoder with learned positions; the input and output embeddings are tied."""
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=WORDS, n_positions=LENGTH, n_embd=WIDTH, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=1,
            resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **options,
        )
    )  # fmt: skip


def bert(**options: Any) -> nn.Module:
    """An encoder that predicts masked words; tied like GPT-2."""
    return transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=LENGTH,
            hidden_dropout_prob=0, attention_probs_dropout_prob=0, **options,
        )
    )  # fmt: skip


def llama(**options: Any) -> nn.Module:
    """A decoder with rotary positions and two query heads per key head; nothing is tied."""
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=LENGTH,
            bos_token_id=0, eos_token_id=1, **options,
        )
    )  # fmt: skip


def t5(**options: Any) -> nn.Module:
    """An encoder and a decoder with relative positions and one embedding for both."""
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=WORDS, d_model=WIDTH, d_kv=32, d_ff=2 * WIDTH, num_layers=2, num_heads=4, dropout_rate=0,
            # decoder_start_token_id is not an option of T5 alone: every encoder-decoder model has it.
            **{"decoder_start_token_id": 0} | options, feed_forward_proj="gated-gelu", pad_token_id=0,
        )
    )  # fmt: skip


def whisper(**options: Any) -> nn.Module:
    """A decoder after an audio encoder, which begins with two convolutions."""
    return transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(
            vocab_size=WORDS, d_model=WIDTH, num_mel_bins=16, encoder_layers=2, decoder_layers=2,
            encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=2 * WIDTH, decoder_ffn_dim=2 * WIDTH,
            max_source_positions=LENGTH, max_target_positions=LENGTH, dropout=0,
            bos_token_id=0, eos_token_id=1, pad_token_id=0, decoder_start_token_id=2, **options,
        )
    )  # fmt: skip


def sentences() -> Batch:
    """Words, each of which is to be predicted."""
    words = torch.randint(3, WORDS, (4, LENGTH))
    return {"input_ids": words, "labels": words}


def recordings() -> Batch:
    """Noise as audio, and random words as its transcript."""
    return {"input_features": torch.randn(4, 16, 2 * LENGTH), "labels": torch.randint(3, WORDS, (4, LENGTH // 2))}


def own_loss(model: nn.Module, batch: Batch) -> Tensor:
    """The loss that the model itself computes from inputs and labels."""
    loss: Tensor = model(**batch).loss
    return loss


def subject(make: Callable[..., nn.Module], draw: Callable[[], Batch], attention: str) -> Subject:
    """A model with PyTorch's attention (sdpa) or one written out in matrix products (eager)."""
    return Subject(lambda: make(attn_implementation=attention), draw, own_loss)


FAMILIES: dict[str, tuple[Callable[..., nn.Module], Callable[[], Batch]]] = {
    "GPT-2": (gpt2, sentences),
    "BERT": (bert, sentences),
    "Llama": (llama, sentences),
    "T5": (t5, sentences),
    "Whisper": (whisper, recordings),
}
LANGUAGE_MODELS = {
    f"{name}, {attention}": subject(*family, attention) for name, family in FAMILIES.items() for attention in ATTENTIONS
}
