"""Jobs of torchrun: ranks on two hosts, and ranks that are started again after one of them has ended."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.distributed.hosts import two_hosts
from tests.distributed.training import STEPS, batch, loss_of, network

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "tests.distributed.on_hosts"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")


def results(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]


def weights_of_one_process() -> torch.Tensor:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, *batch(step)).backward()
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def check(ranks: list[dict[str, Any]], size: int) -> None:
    """Every rank has the collectives' values, and the weights of one process on the CPU."""
    assert sorted(rank["rank"] for rank in ranks) == list(range(size))
    expected = weights_of_one_process()
    for rank in ranks:
        assert rank["sum"] == [sum(10.0 * other + i for other in range(size)) for i in range(3)]
        assert rank["parts"] == [10.0 * other + i for other in range(size) for i in range(3)]
        assert rank["swapped"] == [100.0 * other + rank["rank"] for other in range(size)]
        torch.testing.assert_close(torch.tensor(rank["weights"]), expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("ranks_of_host", [1, 2])
def test_ranks_of_two_hosts_train_as_one_process(tmp_path: Path, ranks_of_host: int) -> None:
    with two_hosts() as hosts:
        running = [
            host.start(
                *TORCHRUN,
                "--nnodes=2",
                f"--node-rank={index}",
                f"--nproc-per-node={ranks_of_host}",
                f"--master-addr={hosts[0].address}",
                "--master-port=29571",
                "-m",
                PROGRAM,
                str(tmp_path),
                PYTHONPATH=str(ROOT),
            )
            for index, host in enumerate(hosts)
        ]
        try:
            errors = [process.communicate(timeout=120)[1] for process in running]
        finally:
            for process in running:
                process.kill()
                process.wait()
    assert [process.returncode for process in running] == [0, 0], "\n".join(errors)
    ended = results(tmp_path)
    check(ended, 2 * ranks_of_host)
    assert {(rank["rank"] // ranks_of_host, rank["host"]) for rank in ended} == {(0, "0"), (1, "1")}


def test_torchrun_starts_the_ranks_again_when_one_has_ended(tmp_path: Path) -> None:
    ran = subprocess.run(
        [
            *TORCHRUN,
            "--standalone",
            "--nproc-per-node=2",
            "--max-restarts=1",
            "-m",
            PROGRAM,
            str(tmp_path),
            "restart",
        ],
        cwd=ROOT,
        # Without it, ranks that are started again find the addresses of those before: pytorch/pytorch issue 135712.
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    ranks = results(tmp_path)
    check(ranks, 2)
    assert [rank["attempt"] for rank in ranks] == ["1", "1"]
    assert torch.load(tmp_path / "checkpoint.pt")["step"] == STEPS
