"""The order of registration: what the package leaves behind when a step of its import fails, and what comes first."""

from __future__ import annotations

import pytest

from tests.conftest import RunProcess

OFF = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


@pytest.mark.parametrize("module", ["torch_openreg._C", "torch_openreg.openreg"])
def test_a_package_that_cannot_load_leaves_no_name(module: str, run_process: RunProcess) -> None:
    done = run_process(
        f"""
        import sys, torch
        sys.modules["{module}"] = None
        before = torch.accelerator.current_accelerator()  # none, or that of another backend in the same PyTorch
        try:
            import torch_openreg
        except ImportError:
            print(torch._C._get_privateuse1_backend_name(), torch.accelerator.current_accelerator() == before)
        """,
        **OFF,
    )
    assert done.stdout == "privateuseone True\n", done.stderr


def test_programs_on_the_cpu_work_beside_the_backend(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        x = torch.ones(2, requires_grad=True)
        y = torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False)
        y.sum().backward()
        with torch.random.fork_rng([]):
            torch.manual_seed(1)
        print(torch.openreg.is_initialized())
        torch.compile(torch.sin, backend="eager")(torch.ones(2))
        """
    )
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


def test_a_second_backend_that_takes_the_name_first_leaves_a_warning(run_process: RunProcess) -> None:
    done = run_process(
        """
        import warnings, torch, torch_openreg_autoload
        torch.utils.rename_privateuse1_backend("somebody_elses")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch_openreg_autoload.autoload()
        print(caught[-1].message)
        """,
        **OFF,
    )
    assert "The openreg backend was not loaded: ImportError: PyTorch has one place" in done.stdout, done.stderr
    assert "'somebody_elses' was loaded into this process before openreg" in done.stdout
