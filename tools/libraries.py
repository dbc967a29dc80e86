"""``make libraries``: runs programs of users' libraries on the device, and writes what came of them.

Each program of tests/libraries runs on the CPU, on the device as the library is, and with the integration that it
needs. Each library has a process of its own. The result is committed; `make check` reports when it is out of date.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

from driver import result
from environment import ROOT, Fault, ensure_requirements, pip, requirements, say
from prerequisites import installed_torch
from results import LIBRARIES

# What the programs need: the extras of pyproject.toml that pin a release of each library.
EXTRAS = ("libraries", "more_libraries")
# These go into a folder of their own, without what they require: torchvision requires a torch that another package
# index has, and transformers cannot be imported beside it. All else that they import comes with the other extras.
APART = "libraries_apart"
# vLLM: it is built, from its sources, and needs more than thirty megabytes of packages that nothing else here does. It
# asks for older releases of some that the other extras install; its programs run with those.
SERVING, SERVING_REQUIRES, SERVING_BUILD = "libraries_serving", "serving_requires", "serving_build"
PINNED = (*EXTRAS, APART, SERVING)


def main() -> None:
    """Runs all programs and writes the result. Throws: ``Fault``, if one does not compute what the CPU does."""
    # Not among the extras of the command: the tests try each command with its extras, and install all of them.
    ensure_requirements(*EXTRAS)
    begun = time.monotonic()
    rows = [row for name in libraries() for row in _run(name)]
    faults = [f"{row['library']}: {row['program']}: {row['fault']}" for row in rows if row["fault"]]
    if faults:
        raise Fault("\n".join([*faults, f"make libraries: {len(faults)} of {len(rows)} programs failed; see above"]))
    written = result(LIBRARIES.path)
    found = {
        "date": str(date.today()),
        "PyTorch": str(installed_torch()),
        "programs": [{key: value for key, value in row.items() if key != "fault"} for row in rows],
    }
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    LIBRARIES.note()
    count = len({row["library"] for row in rows})
    print(
        f"make libraries: {len(rows)} programs of {count} libraries compute what the CPU does "
        f"({time.monotonic() - begun:.0f} s); the result is {written}"
    )


def libraries() -> list[str]:
    """The libraries whose releases are pinned."""
    return _names(*PINNED)


def _names(*extras: str) -> list[str]:
    return sorted(requirement.partition("==")[0] for requirement in requirements(*extras))


def _folder(name: str) -> Path:
    """Below build: one for each version of Python, since most of the packages have compiled modules."""
    return ROOT / "build" / f"{name}-{sys.implementation.cache_tag}"


def _folder_apart() -> Path:
    """The folder with what is installed apart; it is filled if the pinned releases are others than before."""
    folder, wanted = _folder("libraries_apart"), requirements(APART)
    complete = folder / "complete"
    if not complete.is_file() or complete.read_text(encoding="utf-8").split() != wanted:
        say(f"installing {' '.join(wanted)} into {folder}")
        shutil.rmtree(folder, ignore_errors=True)
        pip("install", "--quiet", "--no-deps", "--target", str(folder), *wanted)
        complete.write_text("\n".join(wanted), encoding="utf-8")
    return folder


def _folder_of_serving() -> Path:
    """The folder with vLLM and what it imports; it is filled as the other one is."""
    folder, wanted = _folder("libraries_serving"), requirements(SERVING, SERVING_REQUIRES, SERVING_BUILD)
    complete = folder / "complete"
    if not complete.is_file() or complete.read_text(encoding="utf-8").split("\n") != wanted:
        (vllm,) = requirements(SERVING)
        say(f"building {vllm} into {folder}")
        shutil.rmtree(folder, ignore_errors=True)
        pip("install", "--quiet", "--no-deps", "--target", str(folder), *requirements(SERVING_REQUIRES))
        # What builds it must not replace what builds this guide, and an isolated build would download another torch.
        with tempfile.TemporaryDirectory() as builder:
            pip("install", "--quiet", "--target", builder, *requirements(SERVING_BUILD))
            variables = {
                "PYTHONPATH": builder,
                "VLLM_TARGET_DEVICE": "empty",  # no compiled code
                "VLLM_VERSION_OVERRIDE": vllm.partition("==")[2],
                "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            }
            options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-binary", "vllm")
            pip("install", *options, "--target", str(folder), vllm, variables=variables)
        complete.write_text("\n".join(wanted), encoding="utf-8")
    return folder


def _run(library: str) -> list[dict[str, Any]]:
    """Runs the programs of one library in a new process. Throws: ``Fault``, if the process ends early."""
    say(library)
    command = [sys.executable, "-W", "ignore", "-m", "tests.libraries.run", library]
    paths = [ROOT]
    if library in _names(APART):
        paths.append(_folder_apart())
    if library in _names(SERVING):
        paths.append(_folder_of_serving())
    # No program downloads anything; if a library tried to, it should fail here and not on a reader's machine.
    variables = {"PYTHONPATH": os.pathsep.join(map(str, paths)), "HF_HUB_OFFLINE": "1"}
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        raise Fault(f"{ran.stdout}{ran.stderr}\nmake libraries: the programs of {library} ended early; see above")
    rows: list[dict[str, Any]] = json.loads(ran.stdout.splitlines()[-1])
    if not rows:
        raise Fault(f"make libraries: pyproject.toml pins {library}, and tests/libraries has no program for it")
    return rows
