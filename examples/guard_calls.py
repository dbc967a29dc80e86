"""Which members of the device guard a line of Python reaches, and what the line does when one of them is left out.

    python examples/guard_calls.py reached       lines of Python, and the members that they reach
    python examples/guard_calls.py accelerator   the same, for every name of torch.accelerator
    python examples/guard_calls.py lines LINE... the same, for lines given here, and members for streams and events
    python examples/guard_calls.py left-out      with one member after the other left out, a line that needs it

It compiles guard_calls.cpp, a guard that records each call, and registers it in front of the backend's guard.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

SOURCE = Path(__file__).with_suffix(".cpp")

# The names that the lines use.
# LITERALINCLUDE START: guard-calls-prepared
PREPARED = """
x = torch.ones(2, device="openreg:0", requires_grad=True)
stream = torch.Stream("openreg:0")
event, later = (torch.Event("openreg", enable_timing=True) for _ in range(2))
event.record(stream), later.record(stream)
future = torch.futures.Future(devices=["openreg:0"])
future.set_result(torch.ones(2, device="openreg:0"))
torch.accelerator.synchronize()
"""
# LITERALINCLUDE END: guard-calls-prepared

REACHED = """
torch.ones(2, requires_grad=True).sum().backward()
torch.empty(2, device="openreg")
torch.empty(2, device="openreg:1")
x.sum().backward()
(x.to("openreg:1") * 2).sum().backward()
torch.Stream("openreg")
stream.query()
stream.synchronize()
stream.is_capturing()
stream.native_handle
stream.__enter__()
stream.__exit__(None, None, None)
event.record(stream)
event.wait(stream)
event.query()
event.synchronize()
event.elapsed_time(later)
del later
stream.wait_stream(torch.Stream("openreg"))
future.wait()
future.then(lambda done: None)
torch.save(x, os.devnull)
torch.accelerator.synchronize()
torch.accelerator.get_device_capability()
"""

ACCELERATOR = """
torch.accelerator.is_available()
torch.accelerator.device_count()
torch.accelerator.current_accelerator()
torch.accelerator.current_device_index()
torch.accelerator.current_device_idx()
torch.accelerator.set_device_index(1)
torch.accelerator.set_device_idx(0)
torch.accelerator.device_index(1).__enter__()
torch.accelerator.get_device_capability(0)["supported_dtypes"] >= {torch.float32}
torch.accelerator.synchronize(1)
torch.accelerator.current_stream(1).stream_id
torch.accelerator.set_stream(stream)
torch.accelerator.memory_allocated(1)
torch.accelerator.max_memory_allocated(1)
torch.accelerator.memory_reserved(1)
torch.accelerator.max_memory_reserved(1)
torch.accelerator.memory_stats(1)["num_ooms"]
torch.accelerator.reset_peak_memory_stats(1)
torch.accelerator.reset_accumulated_memory_stats(1)
torch.accelerator.get_memory_info(1)
torch.accelerator.empty_cache()
torch.accelerator.empty_host_cache()
isinstance(torch.accelerator.Graph(), torch.accelerator.Graph)
"""

LEFT_OUT = """
getNewStream: torch.Stream("openreg").device
getStreamFromGlobalPool: future.then(lambda done: done.value()[0].item()).wait()
getStreamNativeHandle: stream.native_handle > 0
queryStream: stream.query()
synchronizeStream: stream.synchronize()
isStreamCapturing: stream.is_capturing()
recordDataPtrOnStream: state_of_a_block_that_a_busy_stream_uses()
record: torch.Event("openreg").record()
record: x.to("openreg:1").device
block: event.wait(stream)
queryEvent: event.query()
synchronizeEvent: event.synchronize()
elapsedTime: event.elapsed_time(later) >= 0
getDeviceCapability: uncached(torch.accelerator.get_device_capability)["supported_dtypes"] >= {torch.float32}
synchronizeDevice: torch.accelerator.synchronize()
destroyEvent: make_many_events()
"""


# LITERALINCLUDE START: guard-calls-silent
def state_of_a_block_that_a_busy_stream_uses() -> str:
    """Frees memory that another stream still uses, and returns its state in the allocator."""
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=["openreg:0"])
    value = torch.ones(2, device="openreg:0")
    address = value.data_ptr()
    future.set_result(value)
    with torch.Stream("openreg:0"):
        torch.openreg._sleep(400_000_000)
        future.wait()  # the value may be used on this stream from now on
        del future, value
        blocks = [block for segment in torch.openreg.memory_snapshot(0) for block in segment["blocks"]]
        return str(next(block["state"] for block in blocks if block["address"] == address))


def make_many_events() -> None:
    """Makes more events than the driver can hold, but never two at a time."""
    for _ in range(2**17 + 1):
        torch.Event("openreg").record()


# LITERALINCLUDE END: guard-calls-silent


OF_STREAMS_AND_EVENTS = "Stream|Event|^record$|^block$|^elapsedTime$"


def uncached(function: Callable[[], dict[str, set[torch.dtype]]]) -> dict[str, set[torch.dtype]]:
    """Calls a cached function as if for the first time."""
    function.cache_clear()
    return function()


def compile_guard() -> ctypes.CDLL:
    """Compiles the guard into a folder that is removed afterwards, and loads it."""
    torch_folder = Path(torch.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        library = str(Path(folder, "guard_calls.so"))
        compiler = [*shlex.split(os.environ.get("CXX") or "c++"), "-std=c++20", "-shared", "-fPIC"]
        headers = ["-isystem", str(torch_folder / "include")]
        link = [f"-L{torch_folder / 'lib'}", "-lc10"]
        subprocess.run([*compiler, *headers, str(SOURCE), "-o", library, *link], check=True)
        loaded = ctypes.CDLL(library)
    loaded.calls.restype = ctypes.c_char_p
    return loaded


def outcome(line: str, names: dict[str, object]) -> str:
    """Runs a line and says how it ends."""
    try:
        return repr(eval(line, names))
    except RuntimeError as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def print_reached(guard: ctypes.CDLL, names: dict[str, object]) -> None:
    """Prints the members that each line reaches, and those that none does."""
    unseen = set(re.findall(r'(?:note|has)\("(\w+)"\)', SOURCE.read_text(encoding="utf-8")))
    print(f"{len(unseen)} members")
    for line in REACHED.strip().splitlines():
        exec(line, names)
        seen = guard.calls().decode()
        print(f"{line}\n    {seen or 'none'}")
        unseen -= set(seen.split(", "))
    print(f"reached by no line: {', '.join(sorted(unseen))}")


def print_lines(guard: ctypes.CDLL, _names: dict[str, object]) -> None:
    """Prints which members for streams and events each line reaches. Lines see the names of earlier ones."""
    own: dict[str, object] = {"torch": torch}
    for line in sys.argv[2:]:
        exec(line, own)
        seen = [member for member in guard.calls().decode().split(", ") if re.search(OF_STREAMS_AND_EVENTS, member)]
        print(f"{line}\n    {', '.join(seen) or 'none'}")


def print_accelerator(guard: ctypes.CDLL, names: dict[str, object]) -> None:
    """Prints what each line returns, the members that it reaches, and the names of torch.accelerator without a line."""
    for line in ACCELERATOR.strip().splitlines():
        print(f"{line}\n    {outcome(line, names)}; {guard.calls().decode() or 'no member'}")
    public = [name for name in dir(torch.accelerator) if not name.startswith("_")]
    # Names imported from elsewhere are not the module's own.
    homes = {name: getattr(getattr(torch.accelerator, name), "__module__", "") for name in public}
    own = [name for name, home in homes.items() if home.startswith("torch.accelerator")]
    print(f"{len(own)} names, without a line: {[name for name in own if f'.{name}(' not in ACCELERATOR]}")


def print_left_out(guard: ctypes.CDLL, names: dict[str, object]) -> None:
    """Prints how each line ends with a member and without it."""
    for line in LEFT_OUT.strip().splitlines():
        member, _, call = line.partition(": ")
        print(f"{call}\n    with {member}: {outcome(call, names)}")
        guard.leave_out(member.encode())
        print(f"    without: {outcome(call, names)}")
        guard.leave_out(b"")


def main() -> None:
    """Prints the group that the command line names."""
    warnings.filterwarnings("ignore", "Use `.*_device_index` instead.", FutureWarning)
    names: dict[str, object] = {**globals()}
    guard = compile_guard()
    guard.stand_before_the_guard()
    exec(PREPARED, names)
    guard.calls()
    groups = {
        "reached": print_reached,
        "accelerator": print_accelerator,
        "lines": print_lines,
        "left-out": print_left_out,
    }
    groups[sys.argv[1]](guard, names)


if __name__ == "__main__":
    main()
