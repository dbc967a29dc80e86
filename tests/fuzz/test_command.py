"""``make fuzz``: its last line, its file, and its status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from environment import ROOT

# A wrong kernel, which must be registered after the backend, and a list of operators with only that one.
DEFECT = """
made = fuzz._session
def with_defect(options):
    session = made(options)
    library.append(torch.library.Library("aten", "IMPL"))
    library[0].impl("flip", lambda self, dims: self.clone(), "PrivateUse1", allow_override=True)
    from tests.fuzz import generator
    generator.OPERATORS = [operator for operator in generator.OPERATORS if operator.name == "flip"]
    return session
fuzz._session, library = with_defect, []
"""


def run(folder: Path, *arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the command in a folder, as tools/dev.py would."""
    code = f"import fuzz, sys, torch\nfrom environment import Fault\n{before}\n"
    code += f"try: fuzz.main({list(arguments)})\nexcept Fault as fault: sys.exit(str(fault))\n"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tools"))), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_programs_of_a_seed_agree_in_all_modes(tmp_path: Path) -> None:
    ran = run(tmp_path, "--seed", "1", "--program", "1")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    last = ran.stdout.splitlines()[-1]
    assert last.startswith("make fuzz: nothing found: 3 programs, ")
    assert last.endswith("seed 1, modes auto, async, inline; the result is build/fuzz.json")
    result = json.loads((tmp_path / "build" / "fuzz.json").read_text())
    assert result["programs"] == {"auto": 1, "async": 1, "inline": 1}
    assert result["found"] == []
    assert result["seed"] == 1


def test_so_many_programs_of_a_seed(tmp_path: Path) -> None:
    ran = run(tmp_path, "--seed", "1", "--programs", "85")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    result = json.loads((tmp_path / "build" / "fuzz.json").read_text())
    assert result["programs"] == {"auto": 40, "async": 40, "inline": 5}


def test_no_programs_at_all_are_refused(tmp_path: Path) -> None:
    ran = run(tmp_path, "--programs", "0")
    assert ran.returncode == 1
    assert ran.stderr.endswith("make fuzz: --programs is how many to try, at least 1; got 0\n")


def test_what_is_found_is_an_error(tmp_path: Path) -> None:
    ran = run(tmp_path, "--seed", "1", "--seconds", "5", "--mode", "auto", before=DEFECT)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "make fuzz: " in ran.stderr
    assert "torch.flip(" in ran.stdout
    assert "FOUND 1: seed 1, program " in ran.stdout
    result = json.loads((tmp_path / "build" / "fuzz.json").read_text())
    assert any("torch.flip(" in found for found in result["found"])
