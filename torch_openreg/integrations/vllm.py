"""vLLM: the plug-in, which vLLM finds by an entry point of the package. A user installs it, and does nothing more."""

from __future__ import annotations

from torch_openreg import openreg


# LITERALINCLUDE START: vllm-entry-point
def platform() -> str | None:
    """Names the class of the platform. vLLM calls this in each of its processes, before it is imported completely.

    So this imports nothing of vLLM, and neither does its file.

    Returns:
        The qualified name, which vLLM imports; None where there is no device, which leaves the choice to vLLM.
    """
    return "torch_openreg.integrations._vllm.platform.DevicePlatform" if openreg.is_available() else None


# LITERALINCLUDE END: vllm-entry-point
