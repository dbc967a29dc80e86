"""Tests of the programs that other tests run in processes of their own (tests/processes.py)."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import RunProcess
from tests.processes import Processes

IMPORT = "import torch, sys; print('torch_openreg' in sys.modules)"


def test_a_program_is_the_main_module(run_process: RunProcess) -> None:
    code = "import sys; print(__name__, __spec__, sys.argv, repr(sys.path[0]), '__file__' in dir())"
    plain = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run_process(code).stdout == plain.stdout


@pytest.mark.parametrize(
    ("code", "status", "output"),
    [
        ("import atexit; atexit.register(print, 'at the end'); print('first')", 0, "first\nat the end\n"),
        ("raise SystemExit(7)", 7, ""),
        ("import os; os.kill(os.getpid(), 9)", -9, ""),
        ("import os; os.abort()", -signal.SIGABRT, ""),
        ("import warnings; print(1, flush=True); warnings.warn('an error')", 1, "1\n"),
    ],
)
def test_a_program_ends_like_any_other(run_process: RunProcess, code: str, status: int, output: str) -> None:
    ran = run_process(code, status=status)
    assert ran.stdout == output
    assert ("UserWarning: an error" in ran.stderr) == ("warn" in code)
    assert run_process("print('the next one')").stdout == "the next one\n"


def test_the_backend_is_loaded_by_the_import_of_the_program(run_process: RunProcess) -> None:
    assert run_process("import sys; print('torch' in sys.modules)").stdout == "False\n"
    assert run_process(IMPORT).stdout == "True\n"
    assert run_process(IMPORT, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout == "False\n"


def test_a_program_has_the_folder_and_the_environment_of_the_test(
    run_process: RunProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENREG_DEVICE_COUNT", "3")
    code = "import os, torch; print(os.getcwd(), torch.openreg.device_count(), os.environ.get('ONE'))"
    assert run_process(code).stdout == f"{tmp_path} 3 None\n"
    # Torch may read it while it is imported, so this program imports torch itself.
    assert run_process(code, ONE="1").stdout == f"{tmp_path} 3 1\n"
    monkeypatch.setenv("ONE", "2")
    assert run_process(code).stdout == f"{tmp_path} 3 2\n"
    monkeypatch.delenv("ONE")
    assert run_process(code).stdout == f"{tmp_path} 3 None\n"


def test_a_program_that_does_not_end_is_killed(processes: Processes, tmp_path: Path) -> None:
    code = f"import os, time; open({str(tmp_path / 'process')!r}, 'w').write(str(os.getpid())); print(1, flush=True)"
    with pytest.raises(subprocess.TimeoutExpired) as raised:
        processes.run(f"{code}; time.sleep(60)", seconds=1.0)
    assert raised.value.output == b"1\n"
    deadline = time.monotonic() + 10
    while Path(f"/proc/{(tmp_path / 'process').read_text()}").exists():
        assert time.monotonic() < deadline
    assert processes.run("print('the next one')").stdout == "the next one\n"
