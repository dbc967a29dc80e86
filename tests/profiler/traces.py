"""Reads what `torch.profiler` has recorded from its Chrome trace, the file that a user opens."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

CPU, DEVICE = ProfilerActivity.CPU, ProfilerActivity.PrivateUse1
BOTH = (CPU, DEVICE)
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


class Trace:
    """The events of one trace."""

    def __init__(self, recorded: profile, suffix: str = ".json") -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, f"trace{suffix}")
            recorded.export_chrome_trace(str(file))
            content = file.read_bytes()
        self.whole = json.loads(gzip.decompress(content) if suffix.endswith(".gz") else content)
        self.events: list[dict[str, Any]] = self.whole["traceEvents"]

    def of(self, *categories: str) -> list[dict[str, Any]]:
        """The events of these categories that have a duration, in the order of time."""
        found = [event for event in self.events if event["ph"] == "X" and event.get("cat") in categories]
        return sorted(found, key=lambda event: (event["ts"], -event["dur"]))

    def names(self, *categories: str) -> list[str]:
        """Their names, in the order of time."""
        return [event["name"] for event in self.of(*categories)]

    def on_device(self) -> list[dict[str, Any]]:
        """What ran on a device."""
        return self.of(*ON_DEVICE)

    def calls(self, name: str | None = None) -> list[dict[str, Any]]:
        """Calls of the driver."""
        return [event for event in self.of("privateuse1_runtime") if name in (None, event["name"])]

    def arrows(self, phase: str) -> dict[int, dict[str, Any]]:
        """The starts ("s") or the ends ("f") of the arrows from calls to the device, by number."""
        found = [event for event in self.events if event.get("cat") == "ac2g" and event["ph"] == phase]
        arrows = {event["id"]: event for event in found}
        assert len(arrows) == len(found), "two arrows have one number"
        return arrows

    def labels(self, kind: str) -> dict[tuple[int, int], str]:
        """The latest label of each row: `kind` is "process_name", "process_labels" or "thread_name"."""
        given = [event for event in self.events if event["ph"] == "M" and event["name"] == kind]
        given.sort(key=lambda event: event["ts"])
        return {(event["pid"], event["tid"]): next(iter(event["args"].values())) for event in given}

    def operators(self) -> dict[int, str]:
        """Names of operators and ranges by the external id, which the events that they started carry."""
        given = self.of("cpu_op", "user_annotation")
        return {event["args"]["External id"]: event["name"] for event in given if "External id" in event["args"]}

    def operator_of(self, event: dict[str, Any]) -> str | None:
        """The operator that started something."""
        return self.operators().get(event["args"].get("External id"))


def times(recorded: Any) -> dict[str, float]:
    """Microseconds on the device by name, from the table of a profile."""
    return {row.key: row.self_device_time_total for row in recorded.key_averages() if row.self_device_time_total}


def sum_of(recorded: Any, names: Iterable[str] | None = None) -> float:
    """The total microseconds on the device, each event counted once."""
    rows = [row for row in recorded.key_averages() if row.device_type == torch.autograd.DeviceType.PrivateUse1]
    return sum(float(row.self_device_time_total) for row in rows if names is None or row.key in names)
