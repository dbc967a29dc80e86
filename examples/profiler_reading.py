"""Reads a trace of torch.profiler: which bars it has, in which rows, and which operator and call they belong to."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

os.environ["KINETO_LOG_LEVEL"] = "99"  # otherwise the profiler logs its start to stderr

import torch
from torch.profiler import profile, record_function


# LITERALINCLUDE START: profiler-reading-trace
def show(events: list[dict[str, Any]]) -> None:
    """Prints what ran on the devices, and the call and the operator behind it."""
    bars = sorted((event for event in events if event["ph"] == "X"), key=lambda bar: bar["ts"])
    rows = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    operators = {bar["args"]["External id"]: bar["name"] for bar in bars if bar["cat"] in ("cpu_op", "user_annotation")}
    calls = {bar["args"]["correlation"]: bar["name"] for bar in bars if bar["cat"] == "privateuse1_runtime"}
    arrows = {event["id"] for event in events if event.get("cat") == "ac2g" and event["ph"] == "f"}
    for bar in bars:
        if bar["cat"] in ("kernel", "gpu_memcpy"):
            call = bar["args"]["correlation"]
            row = f"openreg:{bar['pid']}, {rows[bar['pid'], bar['tid']].partition(' (')[0]}"
            line = f"{row}: {bar['name']} <- {calls[call]} <- {operators[bar['args']['External id']]}"
            print(line if call in arrows else f"{line}, without an arrow")
        elif bar["cat"] == "gpu_user_annotation":
            print(f"openreg:{bar['pid']}, range: {bar['name']}")


# LITERALINCLUDE END: profiler-reading-trace


def main() -> None:
    """Records work on two streams and two devices."""
    host = torch.rand(16).pin_memory()
    torch.rand(16, device="openreg") + 1
    with profile() as recorded:
        with record_function("inputs"):
            x = host.to("openreg", non_blocking=True)
        with torch.Stream("openreg") as stream:
            stream.wait_stream(torch.openreg.default_stream())
            y = x * x
        torch.openreg.default_stream().wait_stream(stream)
        y.clone().to("openreg:1").cpu()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        recorded.export_chrome_trace(str(file))
        show(json.loads(file.read_text(encoding="utf-8"))["traceEvents"])


if __name__ == "__main__":
    main()
