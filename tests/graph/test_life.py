"""The life of a graph: kept, instantiated, dumped, captured again, and the end of the process."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.conftest import RunProcess
from tests.graph.capture import captured, module, replayed
from tests.offers import LAST_DEVICE

pytestmark = pytest.mark.needs("graphs", "kernels")


def test_a_kept_graph_is_instantiated_by_its_first_replay_or_by_hand() -> None:
    x = torch.ones(3, device=LAST_DEVICE)
    for by_hand in (False, True):
        graph = torch.accelerator.Graph(keep_graph=True)
        with torch.Stream(device=LAST_DEVICE), graph:
            y = x * 2
        if by_hand:
            graph.instantiate()
            graph.instantiate()
        replayed(graph)
        assert y.cpu().tolist() == [2.0] * 3


def test_a_reset_graph_captures_again() -> None:
    x = torch.ones(3, device=LAST_DEVICE)
    graph, y = captured(lambda: x * 2)
    replayed(graph)
    graph.reset()
    with pytest.raises(RuntimeError, match="nothing has been captured"):
        graph.replay()
    with torch.Stream(device=LAST_DEVICE), graph:
        z = x * 5
    x.fill_(3)
    replayed(graph)
    assert (y.cpu().tolist(), z.cpu().tolist()) == ([2.0] * 3, [15.0] * 3)


def test_a_graph_with_a_pool_captures_again() -> None:
    x = torch.ones(3, device=LAST_DEVICE)
    torch.accelerator.synchronize(LAST_DEVICE)
    graph, stream = torch.accelerator.Graph(pool=module.graph_pool_handle()), torch.Stream(device=LAST_DEVICE)
    for factor in (2, 5, 7):
        with stream:
            graph.capture_begin()  # `with graph` would empty the caches, and what the pool had with them
            y = x * factor
            pinned = torch.empty(3, pin_memory=True).copy_(y, non_blocking=True)
            graph.capture_end()
        replayed(graph)
        assert y.tolist() == pinned.tolist() == [float(factor)] * 3
        graph.reset()


@pytest.mark.needs("simulator")
def test_the_dump_shows_kernels_and_their_order(tmp_path: Path) -> None:
    x = torch.ones(3, device=LAST_DEVICE)
    side = torch.Stream(device=LAST_DEVICE)
    graph = torch.accelerator.Graph()
    graph.enable_debug_mode()
    with torch.Stream(device=LAST_DEVICE) as stream, graph:
        a = x * 2
        side.wait_stream(stream)
        with side:
            b = a.clone()
        c = a.exp()
        stream.wait_stream(side)
        total = b + c
    graph.debug_dump(str(tmp_path / "graph.dot"))
    text = (tmp_path / "graph.dot").read_text()
    assert [line.split('"')[1].split("\\n")[0] for line in text.splitlines() if "label" in line] == [
        "0: mul", "1: copy of 12 bytes", "2: exp", "3: add"
    ]  # fmt: skip
    assert [line.strip() for line in text.splitlines() if "->" in line] == [
        "n0 -> n1;", "n0 -> n2;", "n2 -> n3;", "n1 -> n3;"
    ]  # fmt: skip
    with pytest.raises(RuntimeError, match=r"'/no/such/folder/graph.dot' cannot be written: No such file"):
        graph.debug_dump("/no/such/folder/graph.dot")
    replayed(graph)
    torch.testing.assert_close(total.cpu(), torch.full((3,), 2 + torch.e**2))


@pytest.mark.parametrize("launch", ["auto", "async", "inline"])
def test_every_launch_mode_and_the_end_of_the_process(run_process: RunProcess, launch: str) -> None:
    """A graph that is still referenced when the process ends, with a replay in flight."""
    ended = run_process(
        """
        import torch
        x = torch.zeros(1000, device="openreg")
        graph = torch.accelerator.Graph()
        with torch.Stream(), graph:
            x.add_(1)
            torch.openreg._sleep(1000)
            y = torch.nn.functional.dropout(x, 0.5) * 2
        for _ in range(300):
            graph.replay()
        print(x.cpu().unique().tolist(), sorted(y.cpu().unique().tolist()))
        graph.replay()
        """,
        OPENREG_LAUNCH=launch,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "[300.0] [0.0, 1200.0]\n"


def test_a_profiler_sees_each_kernel_of_a_replay() -> None:
    x = torch.ones(3, device=LAST_DEVICE)
    graph, _ = captured(lambda: (x * 2).exp())
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    with torch.profiler.profile(activities=activities) as profile:
        replayed(graph)
    names = [event.name for event in profile.events()]
    assert "orGraphLaunch" in names
    assert {"mul", "exp"} <= set(names)
