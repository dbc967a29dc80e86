"""Programs of vLLM. Each runs in a process of its own, as vLLM chooses a platform once in a process.

As a module, this file is that process: it reads what to run from standard input, and prints what came of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch

from tests.libraries.networks import tokenizer
from tests.libraries.other_programs import library
from tests.libraries.programs import Program, Result

TOKENS = 16
# Two that begin alike, three others; one fills whole blocks of the cache.
PROMPTS = [[(7 * place * place + 3 * place) % 50 + 4 for place in range(length)] for length in (3, 40, 90)]
PROMPTS += [[*PROMPTS[1][:32], 9, 8, 7], [11] * 16]
# What a user may request in vain, and the message: `LLM(**request)`.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"quantization": "fp8"}, "openreg: vLLM on this device has no kernel for quantization='fp8'"),
    ({"kv_cache_dtype": "fp8"}, "openreg: no attention for this model: kv_cache_dtype not supported"),
    ({"enable_lora": True}, "openreg: vLLM on this device has no LoRA (enable_lora)"),
    (
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}},
        "openreg: vLLM on this device has no speculative decoding (speculative_config)",
    ),
    ({"pipeline_parallel_size": 2}, "openreg: vLLM on this device has no pipeline or data parallelism"),
    (
        {"attention_backend": "FLASH_ATTN"},
        "openreg: the device has no attention backend FLASH_ATTN: leave it out, or pass attention_backend='CUSTOM'",
    ),
]


def model(window: int | None = None) -> Any:
    """A decoder of two layers. Its parameters are large enough that the most likely token is clearly so."""
    transformers = library("transformers")
    torch.manual_seed(1)
    kind, more = ("Llama", {}) if window is None else ("Mistral", {"sliding_window": window})
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.3, bos_token_id=1, eos_token_id=2,
        pad_token_id=2, **more,
    )  # fmt: skip
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval()


def expected(window: int | None = None) -> tuple[list[list[int]], list[list[float]]]:
    """The tokens that transformers generates on the CPU, and the logarithms of their probabilities."""
    tokens, logprobs = [], []
    decoder = model(window)
    for prompt in PROMPTS:
        generated = decoder.generate(
            torch.tensor([prompt]), do_sample=False, max_new_tokens=TOKENS, min_new_tokens=TOKENS, eos_token_id=None
        )
        chosen = generated[0, len(prompt) :]
        with torch.no_grad():
            scores = decoder(generated).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        tokens.append(chosen.tolist())
        logprobs.append(scores.gather(1, chosen[:, None])[:, 0].tolist())
    return tokens, logprobs


def greedy(device: str) -> Result:
    """Prompts of several lengths at once, in chunks of 32 tokens; again, when their beginnings are in the cache."""
    if device == "cpu":
        tokens, logprobs = expected()
        return Result([tokens, tokens, logprobs, True], "cpu")
    return _in_process("_greedy", max_num_batched_tokens=32, max_num_seqs=4)


def preempted(device: str) -> Result:
    """A cache that is too small for all requests: some are stopped, and computed again."""
    if device == "cpu":
        return Result([expected()[0], True], "cpu")
    return _in_process("_preempted", num_gpu_blocks_override=14)


def windowed(device: str) -> Result:
    """A model in which each token sees the last sixteen."""
    if device == "cpu":
        return Result(expected(16)[0], "cpu")
    return _in_process("_generated", window=16, max_num_batched_tokens=32, max_num_seqs=4)


def seeded(device: str) -> Result:
    """Sampled tokens are the same for the same seed, and others for another; alone and with other requests."""
    return Result([True, True, True], "cpu") if device == "cpu" else _in_process("_seeded")


def asynchronous(device: str) -> Result:
    """The engine of a server, in a process of its own: each request arrives while others run."""
    return Result(expected()[0], "cpu") if device == "cpu" else _in_process("_asynchronous")


def parallel(device: str) -> Result:
    """Each layer on two devices, with a process for each."""
    return Result(expected()[0], "cpu") if device == "cpu" else _in_process("_generated", tensor_parallel_size=2)


def embedded(device: str) -> Result:
    """The last hidden state of each prompt, normalized."""
    if device != "cpu":
        return _in_process("_embedded", runner="pooling", convert="embed", skip_tokenizer_init=False)
    with torch.no_grad():
        states = [model().model(torch.tensor([prompt])).last_hidden_state[0, -1] for prompt in PROMPTS]
    return Result([torch.nn.functional.normalize(state, dim=0) for state in states], "cpu")


def refused(device: str) -> Result:
    """What the platform refuses, with its messages."""
    messages = [message for _, message in REFUSED]
    return Result(messages, "cpu") if device == "cpu" else _in_process("_refused")


def _in_process(name: str, window: int | None = None, **options: Any) -> Result:
    """Runs a function below in a new process. Throws: ``RuntimeError``, with the last line of what was raised there."""
    with tempfile.TemporaryDirectory() as folder:
        model(window).save_pretrained(folder)
        tokenizer().save_pretrained(folder)
        request = {"name": name, "options": {"model": folder, **options}}
        # The program is tested, not the speed of a thread pool; and vLLM reports to its authors unless told not to.
        variables = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1"}
        ran = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "tests.libraries.vllm_programs"],
            env={**os.environ, **variables}, input=json.dumps(request), capture_output=True, text=True, check=False,
        )  # fmt: skip
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr.strip().splitlines()[-1].partition(": ")[2] or ran.stderr)
    found = json.loads(ran.stdout.splitlines()[-1])
    values = found["values"]
    if name == "_embedded":
        values = [torch.tensor(vector) for vector in values]
    return Result(values, "openreg" if found["places"] == ["openreg"] else " and ".join(found["places"]))


class Places:
    """A part of the worker, which vLLM adds to the worker's class: it knows where everything is."""

    model_runner: Any

    def places(self) -> list[str]:
        """The types of the devices of the parameters and the cache, and the operators that ran on the CPU instead."""
        tensors = [*self.model_runner.model.parameters(), *self.model_runner.kv_caches]
        return sorted({tensor.device.type for tensor in tensors} | set(torch.openreg.fallback_stats()))


# LITERALINCLUDE START: serving-program
def _options(**options: Any) -> dict[str, Any]:
    """A small part of the memory suffices here. The worker gets one method more, which says where everything is."""
    return {  # NOT PROVEN: needs vLLM
        "dtype": "float32", "max_model_len": 128, "gpu_memory_utilization": 0.02, "skip_tokenizer_init": True,
        "seed": 0, "worker_extension_cls": "tests.libraries.vllm_programs.Places", **options,
    }  # fmt: skip


def _engine(**options: Any) -> Any:
    return library("vllm").LLM(**_options(**options))  # NOT PROVEN: needs vLLM


def _generate(engine: Any, prompts: list[list[int]], **options: Any) -> list[Any]:
    requests = [{"prompt_token_ids": prompt} for prompt in prompts]  # NOT PROVEN: needs vLLM
    return list(engine.generate(requests, _sampling(**options), use_tqdm=False))  # NOT PROVEN: needs vLLM


def _sampling(**options: Any) -> Any:
    standard = {  # NOT PROVEN: needs vLLM
        "temperature": 0.0, "max_tokens": TOKENS, "ignore_eos": True, "detokenize": False,
    }  # fmt: skip
    return library("vllm").SamplingParams(**{**standard, **options})  # NOT PROVEN: needs vLLM


# LITERALINCLUDE END: serving-program


def _tokens(outputs: list[Any]) -> list[list[int]]:
    return [list(output.outputs[0].token_ids) for output in outputs]


def _places(engine: Any) -> list[str]:
    return sorted({place for places in engine.collective_rpc("places") for place in places})


# LITERALINCLUDE START: serving-greedy
def _greedy(**options: Any) -> tuple[Any, list[str]]:
    engine = _engine(**options)  # NOT PROVEN: needs vLLM
    first, second = (_generate(engine, PROMPTS, logprobs=0) for _ in range(2))  # NOT PROVEN: needs vLLM
    logprobs = [  # NOT PROVEN: needs vLLM
        [entry[token].logprob for entry, token in zip(found.logprobs, found.token_ids, strict=True)]
        for found in (output.outputs[0] for output in second)
    ]
    # All whole blocks of 16 tokens but the one with the last token, which must be computed.
    cached = [output.num_cached_tokens for output in second] == [0, 32, 80, 32, 0]  # NOT PROVEN: needs vLLM
    return [_tokens(first), _tokens(second), logprobs, cached], _places(engine)  # NOT PROVEN: needs vLLM


# LITERALINCLUDE END: serving-greedy


def _preempted(**options: Any) -> tuple[Any, list[str]]:
    engine = _engine(disable_log_stats=False, **options)
    tokens = _tokens(_generate(engine, PROMPTS))
    counts = [metric.value for metric in engine.get_metrics() if metric.name == "vllm:num_preemptions"]
    return [tokens, sum(counts) > 0], _places(engine)


def _seeded(**options: Any) -> tuple[Any, list[str]]:
    engine = _engine(**options)
    likely = {"temperature": 1.0, "top_p": 0.9, "top_k": 40}
    first, again, other = (_tokens(_generate(engine, PROMPTS, seed=seed, **likely)) for seed in (5, 5, 6))
    alone = _tokens(_generate(engine, PROMPTS[:1], seed=5, **likely))
    return [first == again, first != other, alone == first[:1]], _places(engine)


def _asynchronous(**options: Any) -> tuple[Any, list[str]]:
    vllm = library("vllm")

    async def generate(engine: Any, number: int) -> list[int]:
        await asyncio.sleep(0.02 * number)
        tokens: list[int] = []
        request = {"prompt_token_ids": PROMPTS[number]}
        async for output in engine.generate(request, _sampling(), request_id=str(number)):
            tokens = list(output.outputs[0].token_ids)
        return tokens

    async def all_of_them() -> tuple[list[list[int]], list[str]]:
        engine = library("vllm.v1.engine.async_llm").AsyncLLM.from_engine_args(
            vllm.AsyncEngineArgs(**_options(**options))
        )
        tokens = await asyncio.gather(*(generate(engine, number) for number in range(len(PROMPTS))))
        places = sorted({place for places in await engine.collective_rpc("places") for place in places})
        engine.shutdown()
        return list(tokens), places

    return asyncio.run(all_of_them())


def _generated(**options: Any) -> tuple[Any, list[str]]:
    engine = _engine(**options)
    return _tokens(_generate(engine, PROMPTS)), _places(engine)


def _embedded(**options: Any) -> tuple[Any, list[str]]:
    engine = _engine(**options)
    outputs = engine.embed([{"prompt_token_ids": prompt} for prompt in PROMPTS], use_tqdm=False)
    return [output.outputs.embedding for output in outputs], _places(engine)


def _refused(**options: Any) -> tuple[Any, list[str]]:
    messages = []
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # in this process, whose exceptions can be caught
    for request, _ in REFUSED:
        try:
            _engine(**options, **request)
            messages.append("")
        except NotImplementedError as error:
            messages.append(str(error))
    return messages, ["openreg"]


def main() -> None:
    """Runs one function, and prints its values and where they were computed."""
    request = json.load(sys.stdin)
    run: Callable[..., tuple[Any, list[str]]] = globals()[request["name"]]
    values, places = run(**request["options"])
    print("\n" + json.dumps({"values": values, "places": places}))


# vLLM finds the device by itself. Without its plug-in, the error is the same for all programs.
WITHOUT: dict[str, Any] = {"hidden": {"VLLM_PLUGINS": ""}, "without": "Device string must not be empty"}
PROGRAMS = [
    Program("vllm", "prompts in chunks, a prefix cache, logprobs", greedy, bound=1e-5, **WITHOUT),
    Program("vllm", "a cache that is too small: preemption", preempted, **WITHOUT),
    Program("vllm", "a sliding window", windowed, **WITHOUT),
    Program("vllm", "sampling with a seed", seeded, **WITHOUT),
    Program("vllm", "AsyncLLM, requests at any time", asynchronous, **WITHOUT),
    Program("vllm", "a model on two devices", parallel, passes="tensor_parallel_size=2", **WITHOUT),
    Program("vllm", "embeddings", embedded, bound=1e-5, passes='runner="pooling"', **WITHOUT),
    Program("vllm", "what is refused", refused, **WITHOUT),
]

if __name__ == "__main__":
    main()
