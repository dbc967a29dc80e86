"""Process exit: waits until the threads of PyTorch's autograd engine are idle before the interpreter shuts down."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from pathlib import Path

import torch
from torch.utils._python_dispatch import _disable_current_modes

from torch_openreg import openreg


def settle_autograd_at_exit() -> None:
    """Makes the exiting process wait until each device's engine thread has released its last graph.

    On an accelerator, backward runs on a thread of the engine, and `backward()` returns before that thread has released
    the whole graph. The release needs the interpreter, because PyTorch gives each backward the Python context of its
    caller. If the interpreter is gone by then, CPython (before 3.14) ends the thread inside a C++ destructor, and the
    process aborts with "terminate called without an active exception".
    """
    atexit.register(_settle)


# LITERALINCLUDE START: errors-exit-settle
def _settle() -> None:
    if openreg._is_in_bad_fork():
        # The engine's threads are its parent's: PyTorch would wait ten seconds for them, and lets none run here.
        os.environ["TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT"] = "0"
        return
    if not openreg.is_initialized() or not _engine_has_threads():
        return
    for index in range(openreg.device_count()):
        # Another thread may be inside a backward that waits for a device that never responds.
        if threading.active_count() == 1 or _comes_to_rest(index):
            _pass_through_engine(index)


# LITERALINCLUDE END: errors-exit-settle


# LITERALINCLUDE START: errors-exit-pass
def _pass_through_engine(index: int) -> None:
    """Runs a backward on the engine's thread, which starts it after finishing its earlier work.

    The tensors are empty and the only operator is a view, so no kernel is launched and nothing waits for the device.
    The engine is called directly, because `Tensor.backward` would again leave the thread a Python context.
    """
    # The program may end in any mode of PyTorch.
    with (
        torch._C.DisableTorchFunction(),
        torch.inference_mode(mode=False),
        torch.enable_grad(),
        _disable_current_modes(),
    ):
        leaf = torch.empty(0, device=torch.device("openreg", index), requires_grad=True)
        gradient = torch.empty_like(leaf)
        torch.autograd.Variable._execution_engine.run_backward(
            (leaf.view(0),), (gradient,), False, False, (), allow_unreachable=True, accumulate_grad=True
        )


def _comes_to_rest(index: int) -> bool:
    deadline = time.monotonic() + 1
    try:
        while not openreg.current_stream(index).query():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
    except torch.AcceleratorError:
        pass  # A failed device drops its work, so nothing is left to wait for.
    return True


def _engine_has_threads() -> bool:
    for name in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # The thread has ended in the meantime.
            if name.read_text().startswith("pt_autograd"):
                return True
    return False


# LITERALINCLUDE END: errors-exit-pass
