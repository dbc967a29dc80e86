"""The table of stubs shows what the running PyTorch reads, and what this backend fills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import stubs
import torch

from docs._ext.stub_table import filled, read

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
Table = list[dict[str, Any]]
Reads = dict[str, set[tuple[str, str]]]  # by device type, operators with the stubs that they read

# Runs a variety of operators: elementwise, several inputs, reductions, derivatives, indexing, whole tensors, quantized.
SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
sys.path.append("tools")
import torch
from stubs.operators import reader_of, readers
from stubs.sweep import Probe

torch.set_num_threads(1)
probe, known = Probe(), readers()

def run(device):
    x = torch.tensor([[-1.5, 2.0, 0.5], [3.0, -0.5, 1.0]]).to(device).requires_grad_()
    for call in (torch.exp, torch.abs, torch.sigmoid, torch.nn.functional.gelu, torch.nn.functional.silu):
        call(x).sum().backward()
    y = x.detach()
    y + 1, y * y, y / 2, y.clamp(0, 1), y == 1, torch.atan2(y, y), torch.where(y > 0, y, y), torch.lerp(y, y, 0.5)
    y.mean(0), y.amax(1), y.std(), y.cumsum(0), y.sort(), y.mode(), y.flip(0), torch.cdist(y, y)
    y.new_zeros(3).fill_(2)
    (y + 1j).conj_physical()
    y.tril(), torch.nn.functional.interpolate(y[None], 6, mode="linear"), y.softmax(1)

def reads():
    return [[reader_of(known, name).name, *rest] for name, *rest in probe.take() if rest]

run("cpu")
torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8).relu()
on_cpu = reads()
run("openreg")
print(json.dumps([on_cpu, reads()]))
"""


@pytest.fixture(scope="module")
def table() -> Table:
    rows: Table = json.loads((ROOT / stubs.RESULT).read_text(encoding="utf-8"))["stubs"]
    return rows


@pytest.fixture(scope="module")
def reads(tmp_path_factory: pytest.TempPathFactory) -> Reads:
    probe = stubs.compiled_probe(tmp_path_factory.mktemp("probe"))
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(probe)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    on_cpu, on_device = json.loads(ran.stdout)
    return {
        "cpu": {(name, stub) for name, device, stub in on_cpu if device == "cpu"},
        "device": {(name, stub) for name, device, stub in on_device if device != "cpu"},
    }


def differences(table: Table, reads: Reads) -> set[tuple[str, str, str]]:
    """Reads that the table lacks, and pairs that only the table has, of operators that ran and stubs that were read."""
    found = set()
    for device, seen in reads.items():
        listed = {(entry["operator"], row["name"]) for row in table for entry in row["readers"] if entry[device]}
        operators, names = {name for name, _ in seen}, {stub for _, stub in seen}
        missing = {(name, stub) for name, stub in listed if name in operators and stub in names}
        found |= {(device, *pair) for pair in (seen - listed) | (missing - seen)}
    return found


def test_the_table_has_what_pytorch_reads(table: Table, reads: Reads) -> None:
    assert len({stub for _, stub in reads["cpu"]}) > 30
    assert differences(table, reads) == set()


@pytest.mark.parametrize(
    ("device", "operator", "stub"),
    [
        ("cpu", "exp.out", "exp_stub"),
        ("cpu", "sigmoid_backward.grad_input", "sigmoid_backward_stub"),
        ("cpu", "mode", "mode_stub"),
        ("cpu", "sort.values_stable", "sort_stub"),
        ("cpu", "relu", "qrelu_stub"),
        ("device", "add.out", "add_stub"),
        ("device", "abs.out", "abs_stub"),
        ("device", "where.self", "where_kernel"),
        ("device", "mean.out", "mean_stub"),
        ("cpu", "conj_physical.out", "conj_physical_stub"),
    ],
)
def test_a_wrong_entry_is_noticed(table: Table, reads: Reads, device: str, operator: str, stub: str) -> None:
    wrong = deepcopy(table)
    row = next(row for row in wrong if row["name"] == stub)
    entry = next(entry for entry in row["readers"] if entry["operator"] == operator)
    entry[device] = False
    assert differences(wrong, reads) == {(device, operator, stub)}
    entry[device], other = True, next(row for row in wrong if row["name"] == "mul_stub")
    other["readers"].append({**entry, "cpu": True, "device": True})
    assert (device, operator, "mul_stub") in differences(wrong, reads)


def test_what_serves_the_cpu_alone_is_not_read_for_the_device(table: Table, reads: Reads) -> None:
    cpu_alone = {row["name"] for row in table if not any(entry["device"] for entry in row["readers"])}
    assert {"GeluKernel", "mode_stub", "copy_stub"} <= cpu_alone
    assert cpu_alone.isdisjoint(stub for _, stub in reads["device"])


def test_a_probe_that_was_not_preloaded_ends_the_pass() -> None:
    """ld.so only warns of a path that it cannot read, and the table would be empty."""
    script = SCRIPT.partition("\n\ndef run")[0]
    variables = {**os.environ, "LD_PRELOAD": "no where/probe.so"}
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=variables, capture_output=True, text=True)
    assert ran.returncode == 1
    message = "no where/probe.so was not preloaded; use a clone and an environment without colons in their paths"
    assert ran.stderr.splitlines()[-1] == message


def test_the_probe_is_preloaded_from_a_folder_with_a_blank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = tmp_path / "my repo"
    (clone / stubs.BUILD).mkdir(parents=True)
    for name in ("csrc", "tools"):
        (clone / name).symlink_to(ROOT / name)
    monkeypatch.chdir(clone)
    probe = stubs.compiled_probe(stubs.BUILD)
    variables = {**os.environ, "LD_PRELOAD": str(probe)}
    script = SCRIPT.partition("\n\ndef run")[0]
    ran = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_table_without_reads_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = json.dumps([{"name": "abs_stub", "readers": []}])
    monkeypatch.setattr(stubs, "compiled_probe", lambda folder: folder / "probe.so")
    monkeypatch.setattr(stubs, "_pass", lambda *words: Path(words[-1]).write_text(rows) * 0)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(stubs.Fault, match="no operator was seen to read a stub, so the probe has recorded nothing"):
        stubs.main()
    assert not (tmp_path / stubs.RESULT).exists()


def test_the_slots_of_the_process_are_those_of_the_sources(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    from examples import stubs_table

    in_process = {row["name"] for row in table if row["exported"] and stubs_table.is_filled(row["name"])}
    assert in_process == filled(ROOT)
    assert in_process == {stub.name for stub in read(ROOT) if stub.filled}


def test_the_table_has_each_declaration(table: Table) -> None:
    from stubs.declared import declared

    found = declared(Path(torch.__file__).parent / "include")
    assert [(row["header"], row["name"]) for row in table] == [(stub.header, stub.name) for stub in found]
    names = [row["name"] for row in table]
    assert {"copy_stub", "cpublas::copy_stub"} <= set(names)
    assert len(names) == len(set(names))


def test_another_pytorch_makes_it_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert list(stubs.stale()) == []
    monkeypatch.setattr(stubs, "installed_torch", lambda: "2.14.0")
    assert "has changed since it was made: run `make stubs`" in "".join(stubs.stale())
