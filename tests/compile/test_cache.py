"""What is kept of compiled code: a second process compiles nothing, and other sources of the backend miss."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.conftest import RunProcess
from tests.offers import LAST_DEVICE

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


THREADS = """
    import os, sys, warnings
    warnings.simplefilter("ignore")
    import torch
    from torch._dynamo.utils import counters
    torch.set_num_threads(int(sys.argv[1]))
    x = torch.ones(1 << 20, device="openreg")
    print(torch.compile(lambda x: x.sum())(x).item(), counters["inductor"]["fxgraph_cache_miss"])
"""


# In a process of its own from the start: OpenMP reads its environment when it is loaded.
@pytest.mark.long
@pytest.mark.usefixtures("inductor")
def test_a_kernel_has_the_threads_for_which_it_was_generated(tmp_path: Path) -> None:
    """The thread of the driver would start more of them than the arrays on its stack have places for."""
    processors = os.cpu_count() or 1
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": str(processors + 6)}
    for threads in (processors, processors + 6, processors + 3):  # each generates its own code
        command = [sys.executable, "-c", textwrap.dedent(THREADS), str(threads)]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=200)
        assert (ran.returncode, ran.stdout) == (0, f"{float(1 << 20)} 1\n"), ran.stderr


STANDALONE = """
    import warnings
    warnings.simplefilter("ignore")
    import torch
    from torch._inductor import CompiledArtifact, config, standalone_compile
    from torch.fx.experimental.proxy_tensor import make_fx

    def function(x, weight):
        return (x @ weight * 2 + 1).relu().sum(0), x.sin()

    torch.manual_seed(0)
    arguments = [torch.randn(3, 4, device={device!r}), torch.randn(4, 5, device={device!r})]
    with config.patch(cpp_wrapper={cpp}):
        made = standalone_compile(make_fx(function)(*arguments), arguments, dynamic_shapes="from_example_inputs")
    made.save(path={path!r}, format="binary")
    for artifact in (made, CompiledArtifact.load(path={path!r}, format="binary")):
        torch.testing.assert_close(tuple(artifact(*arguments)), function(*arguments))
"""


@pytest.mark.long
@pytest.mark.usefixtures("inductor")
@pytest.mark.parametrize("cpp", [False, True])
def test_a_compiled_graph_is_saved_and_loaded(cpp: bool, run_process: RunProcess, tmp_path: Path) -> None:
    program = STANDALONE.format(device=LAST_DEVICE, cpp=cpp, path=str(tmp_path / "code"))
    result = run_process(program, TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"))
    assert result.returncode == 0, result.stderr


HEADERS = """
    import warnings
    warnings.simplefilter("ignore")
    import torch
    from torch._inductor import codecache, config
    asked = []
    codecache._precompile_header = lambda header, *_, **__: asked.append(header)  # None: the library includes the text
    config.cpp_cache_precompile_headers = {wanted}
    torch.compile(lambda x: x * {factor} + 1)(torch.ones(5, device="openreg"))
    print(asked)
"""


@pytest.mark.usefixtures("inductor")
@pytest.mark.parametrize(("wanted", "asked"), [(True, ["torch/csrc/inductor/cpp_prefix.h"]), (False, [])])
def test_the_header_of_all_kernels_is_compiled_once(
    run_process: RunProcess, tmp_path: Path, wanted: bool, asked: list[str]
) -> None:
    result = run_process(HEADERS.format(wanted=wanted, factor=2 + wanted), TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert result.stdout == f"{asked}\n", result.stderr
