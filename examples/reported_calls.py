"""What the runtime reports of each line: to tools that trace the device, and to the profiler, the calls of the driver.

    python examples/reported_calls.py 'event = torch.Event("openreg")' 'event.record()'

A line sees the names of earlier ones. Events and streams are numbered in the order in which they are created.
"""

from __future__ import annotations

import os
import sys
from functools import partial

os.environ["KINETO_LOG_LEVEL"] = "99"  # otherwise the profiler logs its start to stderr

import torch
from torch._utils import CallbackRegistry

from torch_openreg.openreg import _gpu_trace


# LITERALINCLUDE START: reported-calls
def report_to(heard: list[str]) -> None:
    """Appends to the list what the backend reports to PyTorch's trace from now on, for the whole process."""
    stream = torch.accelerator.current_stream()
    labels = {stream.native_handle: "the default stream"}
    created = {"event": 0, "stream": 0}

    def hear(report: str, *handles: int) -> None:
        what, _, happened = report.partition(" ")
        if happened == "creation" and what in created:
            created[what] += 1
            labels[handles[0]] = f"{what} {created[what]}"
        heard.append(f"{report} ({', '.join(labels.get(each, 'unknown') for each in handles)})" if handles else report)

    for registry in vars(_gpu_trace).values():
        if isinstance(registry, CallbackRegistry) and not registry.name.startswith("openreg memory"):
            registry.add_callback(partial(hear, registry.name.removeprefix("openreg ")))
    torch._C._activate_gpu_trace()


def main() -> None:
    """Prints the reports of each line."""
    names: dict[str, object] = {"torch": torch}
    heard: list[str] = []
    report_to(heard)
    for line in sys.argv[1:]:
        with torch.profiler.profile() as profile:
            heard.clear()
            exec(line, names)
            reports = list(heard)
        # The last call is the profiler's own: at its end it waits for the device.
        calls = [each.name for each in profile.events() if each.name.startswith("or")][:-1]
        kinds = {each.partition(" (")[0] for each in reports}
        told = f"{len(reports)} x {kinds.pop()}" if len(reports) > 3 and len(kinds) == 1 else ", ".join(reports)
        print(f"{line}\n    trace: {told or 'nothing'}\n    calls: {', '.join(calls) or 'none'}")


# LITERALINCLUDE END: reported-calls

if __name__ == "__main__":
    main()
