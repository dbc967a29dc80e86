"""The platform: what vLLM asks of a device before it uses one, in the user's process and in each of its own.

vLLM creates one object of the class in each process, when something first reads `vllm.platforms.current_platform`, and
calls its members on the main thread. Members that only a feature needs which the platform refuses are not here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from vllm.platforms.interface import Platform, PlatformEnum

from torch_openreg import openreg
from torch_openreg.integrations import _library

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.attention.backends.registry import AttentionBackendEnum
    from vllm.v1.attention.selector import AttentionSelectorConfig

# vLLM imports these by their names.
_WORKER = "torch_openreg.integrations._vllm.worker.DeviceWorker"
_SLOTS = "vllm.v1.worker.block_table.ComputeSlotMappingKernel.kernel"


# LITERALINCLUDE START: vllm-platform
class DevicePlatform(Platform):
    """The device as vLLM sees it."""

    _enum = PlatformEnum.OOT
    device_name = "openreg"
    device_type = "openreg"
    # vLLM registers operators of its own for this key; attention is one of them.
    dispatch_key = "PrivateUse1"
    dist_backend = "staged"
    # For the few functions that vLLM compiles alone, such as a part of the sampler.
    simple_compile_backend = "eager"

    def __init__(self) -> None:
        # Not where vLLM looks for platforms: it ignores what is raised there.
        _library.require("vllm", "0.32")  # NOT PROVEN: needs vLLM

    # LITERALINCLUDE END: vllm-platform

    # LITERALINCLUDE START: vllm-device
    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """The name that vLLM prints."""
        return openreg.get_device_name(device_id)  # NOT PROVEN: needs vLLM

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """All memory of a device, in bytes."""
        return torch.accelerator.get_memory_info(device_id)[1]  # NOT PROVEN: needs vLLM

    @classmethod
    def get_current_memory_usage(cls, device: torch.types.Device | None = None) -> float:
        """What tensors occupy now, in bytes. vLLM logs how much a model has added."""
        return torch.accelerator.memory_allocated(device)  # NOT PROVEN: needs vLLM

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        """Makes a device the current one of this thread."""
        torch.accelerator.set_device_index(device)  # NOT PROVEN: needs vLLM

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Seeds the generators of all devices."""
        openreg.manual_seed_all(seed)  # NOT PROVEN: needs vLLM

    @classmethod
    def check_if_supports_dtype(cls, dtype: torch.dtype) -> None:
        """Refuses a data type of a model.

        Raises:
            NotImplementedError: if attention has no kernel for it.
        """
        from torch_openreg.integrations._vllm.attention import PagedAttentionBackend  # NOT PROVEN: needs vLLM

        if not PagedAttentionBackend.supports_dtype(dtype):  # NOT PROVEN: needs vLLM
            raise NotImplementedError(  # NOT PROVEN: needs vLLM
                f"openreg: models in {dtype} are not supported: pass dtype='bfloat16', 'float16' or 'float32'"
            )

    # LITERALINCLUDE END: vllm-device

    # LITERALINCLUDE START: vllm-config
    @classmethod
    def check_and_update_config(cls, vllm_config: VllmConfig) -> None:
        """Names the worker, switches off what the device has no use for, and refuses what it cannot do.

        Raises:
            NotImplementedError: names all that was requested in vain.
        """
        from vllm.config import CompilationMode, CUDAGraphMode  # NOT PROVEN: needs vLLM

        refused = list(_refused(vllm_config))  # NOT PROVEN: needs vLLM
        if refused:  # NOT PROVEN: needs vLLM
            what = ", no ".join(refused)  # NOT PROVEN: needs vLLM
            raise NotImplementedError(f"openreg: vLLM on this device has no {what}")  # NOT PROVEN: needs vLLM
        if vllm_config.model_config is not None:  # NOT PROVEN: needs vLLM
            vllm_config.model_config.enforce_eager = True  # NOT PROVEN: needs vLLM
        compilation = vllm_config.compilation_config  # NOT PROVEN: needs vLLM
        compilation.mode = CompilationMode.NONE  # NOT PROVEN: needs vLLM
        compilation.cudagraph_mode = CUDAGraphMode.NONE  # NOT PROVEN: needs vLLM
        compilation.cudagraph_capture_sizes, compilation.max_cudagraph_capture_size = [], 0  # NOT PROVEN: needs vLLM
        # vLLM overlaps a step with the next one by streams and events of torch.cuda, which it names.
        vllm_config.scheduler_config.async_scheduling = False  # NOT PROVEN: needs vLLM
        if vllm_config.parallel_config.worker_cls == "auto":  # NOT PROVEN: needs vLLM
            vllm_config.parallel_config.worker_cls = _WORKER  # NOT PROVEN: needs vLLM
        # vLLM forks unless CUDA or XPU has been initialized, and no other runtime survives a fork either.
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"  # NOT PROVEN: needs vLLM

    # LITERALINCLUDE END: vllm-config

    # LITERALINCLUDE START: vllm-choices
    @classmethod
    def verify_quantization(cls, quant: str) -> None:
        """Refuses a model with quantized weights. An empty `supported_quantization` would allow all of them.

        Raises:
            NotImplementedError: always.
        """
        what = f"quantization={quant!r}"  # NOT PROVEN: needs vLLM
        raise NotImplementedError(f"openreg: vLLM on this device has no kernel for {what}")  # NOT PROVEN: needs vLLM

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: AttentionBackendEnum | None,
        attn_selector_config: AttentionSelectorConfig,
        num_heads: int | None = None,
    ) -> str:
        """Names the class of the attention backend; vLLM calls this for each attention layer of a model.

        Raises:
            NotImplementedError: if the user has selected another backend, or the layer needs what this one lacks.
        """
        from torch_openreg.integrations._vllm.attention import PagedAttentionBackend  # NOT PROVEN: needs vLLM

        backend, name = PagedAttentionBackend, PagedAttentionBackend.get_name()  # NOT PROVEN: needs vLLM
        if selected_backend is not None and selected_backend.name != name:  # NOT PROVEN: needs vLLM
            raise NotImplementedError(  # NOT PROVEN: needs vLLM
                f"openreg: the device has no attention backend {selected_backend.name}: leave it out, or pass "
                f"attention_backend={name!r}"
            )
        needs = attn_selector_config._asdict()  # NOT PROVEN: needs vLLM
        # The capability is a number of CUDA.
        reasons = backend.validate_configuration(device_capability=None, **needs)  # NOT PROVEN: needs vLLM
        if reasons:  # NOT PROVEN: needs vLLM
            why = ", ".join(reasons)  # NOT PROVEN: needs vLLM
            raise NotImplementedError(f"openreg: no attention for this model: {why}")  # NOT PROVEN: needs vLLM
        return ".".join(backend.full_cls_name())  # NOT PROVEN: needs vLLM

    @classmethod
    def register_triton_kernel_overrides(cls) -> None:
        """Replaces the one kernel that vLLM launches for every model, and has in Triton only."""
        from vllm.triton_utils.dispatcher import register_kernels  # NOT PROVEN: needs vLLM

        from torch_openreg.integrations._vllm.kernels import compute_slot_mapping  # NOT PROVEN: needs vLLM

        register_kernels({_SLOTS: compute_slot_mapping})  # NOT PROVEN: needs vLLM

    # LITERALINCLUDE END: vllm-choices


# LITERALINCLUDE START: vllm-refused
def _refused(config: VllmConfig) -> Iterator[str]:
    """What was requested and is not supported. Without these, each would fail later, in code for CUDA or Triton."""
    model, parallel = config.model_config, config.parallel_config  # NOT PROVEN: needs vLLM
    if config.speculative_config is not None:  # NOT PROVEN: needs vLLM
        yield "speculative decoding (speculative_config)"  # NOT PROVEN: needs vLLM
    if config.lora_config is not None:  # NOT PROVEN: needs vLLM
        yield "LoRA (enable_lora)"  # NOT PROVEN: needs vLLM
    if config.kv_transfer_config is not None:  # NOT PROVEN: needs vLLM
        yield "transfer of the cache between engines (kv_transfer_config)"  # NOT PROVEN: needs vLLM
    if parallel.pipeline_parallel_size > 1 or parallel.data_parallel_size > 1:  # NOT PROVEN: needs vLLM
        yield "pipeline or data parallelism"  # NOT PROVEN: needs vLLM
    if max(parallel.decode_context_parallel_size, parallel.prefill_context_parallel_size) > 1:  # NOT PROVEN: needs vLLM
        yield "context parallelism"  # NOT PROVEN: needs vLLM
    if config.use_v2_model_runner:  # NOT PROVEN: needs vLLM
        yield "model runner 2, whose kernels are Triton's (VLLM_USE_V2_MODEL_RUNNER)"  # NOT PROVEN: needs vLLM
    if model is not None and model.is_multimodal_model:  # NOT PROVEN: needs vLLM
        yield "models with images or sound"  # NOT PROVEN: needs vLLM
    if model is not None and model.is_encoder_decoder:  # NOT PROVEN: needs vLLM
        yield "models with an encoder and a decoder"  # NOT PROVEN: needs vLLM
    if model is not None and (model.has_inner_state or model.is_attention_free):  # NOT PROVEN: needs vLLM
        yield "models with a state, such as Mamba"  # NOT PROVEN: needs vLLM
    if model is not None and model.is_moe:  # NOT PROVEN: needs vLLM
        yield "mixtures of experts"  # NOT PROVEN: needs vLLM


# LITERALINCLUDE END: vllm-refused
