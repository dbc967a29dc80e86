"""The cache of compiled graphs: a second process compiles nothing, and other sources of the backend miss."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunProcess

PROGRAM = """
    import warnings
    warnings.simplefilter("ignore")
    import torch
    from torch._dynamo.utils import counters
    if {other!r}:
        import torch._inductor.codegen.common
        from torch_openreg.compile.cache_key import SourcesKey
        SourcesKey.uuid = lambda self: "another version"
    x = torch.arange(5.0, device="openreg")
    print(torch.compile(lambda x: (x * 2).exp() + 1)(x).sum().item())
    print(counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"])
"""


@pytest.mark.usefixtures("inductor")
def test_a_second_process_finds_the_graph(run_process: RunProcess, tmp_path: Path) -> None:
    def run(*, other: bool) -> list[str]:
        result = run_process(PROGRAM.format(other=other), TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
        assert result.returncode == 0, result.stderr
        return result.stdout.split("\n")

    first, second, third = run(other=False), run(other=False), run(other=True)
    assert first[0] == second[0] == third[0]
    assert (first[1], second[1], third[1]) == ("0 1", "1 0", "0 1")
