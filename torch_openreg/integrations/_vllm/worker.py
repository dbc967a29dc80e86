"""The worker: one for each device. It owns the model and the cache, and executes what the scheduler has decided.

vLLM creates it in the user's process, in the engine's, or in one for each device.
"""

from __future__ import annotations

import contextlib
import gc
from typing import Any

import torch
from vllm.platforms import current_platform
from vllm.utils.mem_utils import MemorySnapshot
from vllm.utils.torch_utils import set_random_seed
from vllm.v1.worker.gpu_worker import Worker, init_worker_distributed_environment
from vllm.v1.worker.utils import request_memory
from vllm.v1.worker.worker_base import CompilationTimes


# LITERALINCLUDE START: vllm-worker
class DeviceWorker(Worker):
    """vLLM's worker for GPUs, without the parts that name CUDA.

    It loads the model, measures how much memory a step needs, and allocates the cache, all by `torch.accelerator`.
    """

    def init_device(self) -> None:
        """Selects the device, joins the process groups, and creates the model runner.

        Raises:
            RuntimeError: if there is no device for this rank, or this process was forked from one that used a device.
            ValueError: if less memory is free than `gpu_memory_utilization` says.
            NotImplementedError: if the device cannot compute in the data type of the model.
        """
        self.device = torch.device("openreg", self.local_rank)  # NOT PROVEN: needs vLLM
        current_platform.set_device(self.device)  # NOT PROVEN: needs vLLM
        current_platform.check_if_supports_dtype(self.model_config.dtype)  # NOT PROVEN: needs vLLM
        init_worker_distributed_environment(  # NOT PROVEN: needs vLLM
            self.vllm_config, self.rank, self.distributed_init_method, self.local_rank, current_platform.dist_backend
        )
        set_random_seed(self.model_config.seed)  # NOT PROVEN: needs vLLM
        # What is free now, less a margin, is what weights, activations and the cache may take together.
        gc.collect()  # NOT PROVEN: needs vLLM
        torch.accelerator.empty_cache()  # NOT PROVEN: needs vLLM
        self.init_snapshot = MemorySnapshot(device=self.device)  # NOT PROVEN: needs vLLM
        self.requested_memory = request_memory(self.init_snapshot, self.cache_config)  # NOT PROVEN: needs vLLM
        self._init_workspace_and_model_runner()  # NOT PROVEN: needs vLLM

    def _maybe_get_memory_pool_context(self, tag: str) -> contextlib.AbstractContextManager[Any]:
        """No pool: the base class takes the allocator of sleep mode for any device but a few that it lists."""
        return contextlib.nullcontext()  # NOT PROVEN: needs vLLM

    def compile_or_warm_up_model(self) -> CompilationTimes:
        """Nothing to compile. The base class would import the kernels of many models, which need CUDA.

        The seed is set again: measuring memory has drawn random numbers.
        """
        set_random_seed(self.model_config.seed)  # NOT PROVEN: needs vLLM
        return CompilationTimes(language_model=0.0, encoder=0.0)  # NOT PROVEN: needs vLLM


# LITERALINCLUDE END: vllm-worker
