"""Programs of transformers."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tests.libraries.networks import WORDS, language_model, parameters, tokenizer
from tests.libraries.programs import HALF, Program, Result

PROMPT = [[1, 5, 9, 23, 42, 17]]


def rows() -> list[dict[str, torch.Tensor]]:
    """Sixteen sentences, always the same."""
    generator = torch.Generator().manual_seed(2)
    words = torch.randint(3, len(WORDS), (16, 12), generator=generator)
    return [{"input_ids": row, "labels": row} for row in words]


def trainer(folder: str, dropout: float = 0.0, callbacks: Sequence[Any] = (), **options: Any) -> Any:
    """A Trainer of four steps, which saves its state after the second."""
    import transformers

    transformers.logging.set_verbosity_error()
    arguments = transformers.TrainingArguments(**{
        "output_dir": folder, "per_device_train_batch_size": 4, "max_steps": 4, "save_steps": 2, "logging_steps": 1,
        "report_to": [], "learning_rate": 0.1, "optim": "sgd", "disable_tqdm": True, "dataloader_pin_memory": False,
        **options,
    })  # fmt: skip
    model = language_model(dropout)
    return transformers.Trainer(
        model=model, args=arguments, train_dataset=rows(), eval_dataset=rows()[:4], callbacks=[*callbacks]
    )


def trained(folder: str, resume: bool = False, **options: Any) -> Result:
    """The losses, the loss of an evaluation and the parameters."""
    run = trainer(folder, **options)
    run.train(resume_from_checkpoint=str(Path(folder, "checkpoint-2")) if resume else None)
    values = [losses(run), run.evaluate()["eval_loss"], *([] if options else [parameters(run.model)])]
    return Result(values, run.args.device.type)


def losses(run: Any) -> list[float]:
    """The loss of each step. A Trainer that is resumed has those before its checkpoint from there."""
    return [entry["loss"] for entry in run.state.log_history if "loss" in entry]


def with_dropout(folder: str, step: int, checkpoint: str | None = None) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The losses and parameters of ten steps with dropout, with a checkpoint after `step`, or resumed from one."""
    run = trainer(folder, dropout=0.5, max_steps=10, save_steps=step)
    run.train(resume_from_checkpoint=checkpoint)
    return losses(run), parameters(run.model)


def interrupted(_device: str) -> Result:
    """Ten steps with dropout, and the last five once more by a new Trainer: bit for bit the same.

    The values are not compared with the CPU's, which draws other masks.
    """
    with tempfile.TemporaryDirectory() as folder:
        straight, resumed = with_dropout(folder, 5), with_dropout(folder, 5, str(Path(folder, "checkpoint-5")))
        where = trainer(folder).args.device.type
    assert resumed[0] == straight[0]
    assert all(torch.equal(value, straight[1][name]) for name, value in resumed[1].items())
    return Result("the same", where)


def training(_device: str) -> Result:
    """Four steps and an evaluation, and the last two steps once more from the checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        whole = trained(folder)
        resumed = trained(folder, resume=True)
    assert resumed.values[2].keys() == whole.values[2].keys()
    return Result([whole.values, resumed.values], whole.where)


def in_bfloat16(device: str) -> Result:
    """With `bf16=True`."""
    with tempfile.TemporaryDirectory() as folder:
        return trained(folder, bf16=True, use_cpu=device == "cpu")


def in_float16(device: str) -> Result:
    """With `fp16=True`. On the CPU accelerate has no float16, and computes in float32."""
    with tempfile.TemporaryDirectory() as folder:
        return trained(folder, fp16=True)


def written(device: str, **options: Any) -> Result:
    """The words that a model generates."""
    model = language_model().to(device)
    words = model.generate(torch.tensor(PROMPT, device=device), max_new_tokens=16, do_sample=False, **options)
    return Result(words, words.device.type)


def generation(device: str) -> Result:
    """Greedy, with beams, with a cache of a fixed size."""
    results = [written(device), written(device, num_beams=3), written(device, cache_implementation="static")]
    return Result([result.values for result in results], results[-1].where)


def offloaded(device: str) -> Result:
    """With a cache that is kept on the host; on the CPU, where it exists for CUDA alone, with the usual one."""
    return written(device, **({} if device == "cpu" else {"cache_implementation": "offloaded"}))


def piped(device: str) -> Result:
    """A pipeline that gets the index of a device, and one that gets nothing."""
    import transformers

    results = []
    for index in (0, None) if device != "cpu" else (-1, -1):
        pipe = transformers.pipeline("text-generation", model=language_model(), tokenizer=tokenizer(), device=index)
        results.append(pipe("word2 word7 word40", max_new_tokens=12, do_sample=False)[0]["generated_text"])
    return Result(results, pipe.model.device.type)


def automatic_map(_device: str) -> Result:
    """A model that is loaded with `device_map="auto"`."""
    import transformers

    with tempfile.TemporaryDirectory() as folder:
        language_model().save_pretrained(folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, device_map="auto").eval()
        with torch.no_grad():
            scores = model(torch.tensor(PROMPT, device=model.device)).logits
    return Result(scores, model.device.type)


def flexible(device: str) -> Result:
    """The loss and the gradients of a padded batch; on the CPU, where flex attention has none, by SDPA."""
    model = language_model().train()
    model.set_attn_implementation("sdpa" if device == "cpu" else "flex_attention")
    model.to(device)
    batch = torch.stack([row["input_ids"] for row in rows()[:2]]).to(device)
    seen = torch.ones_like(batch)
    seen[1, 9:] = 0
    loss = model(input_ids=batch, attention_mask=seen, labels=batch).loss
    loss.backward()
    return Result([loss.detach(), [parameter.grad for parameter in model.parameters()]], loss.device.type)


BOTH = ("accelerate", "transformers")
PROGRAMS = [
    Program("transformers", "Trainer, a checkpoint and an evaluation", training, ("accelerate",), "the CPU"),
    Program("transformers", "Trainer with dropout, resumed", interrupted, BOTH, "the CPU"),
    Program("transformers", "Trainer, `bf16=True`", in_bfloat16, BOTH, "doesn't support bf16/gpu", bound=HALF),
    Program("transformers", "Trainer, `fp16=True`", in_float16, ("accelerate",), "the CPU", bound=HALF),
    Program("transformers", "generate: greedy, beams, static cache", generation, passes="model.to(device)"),
    Program(
        "transformers", "generate with an offloaded cache", offloaded, ("transformers",), "CUDA",
        passes="model.to(device)",
    ),
    Program("transformers", '`attn_implementation="flex_attention"`, trained', flexible, passes="model.to(device)"),
    Program("transformers", "pipeline, `device=0` and none", piped, ("transformers",), "the CPU"),
    Program("transformers", '`device_map="auto"`', automatic_map, ("accelerate",), "the CPU"),
]  # fmt: skip
