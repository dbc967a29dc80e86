"""Checks the files by which people and external programs find their way in the repository."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import commands
import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a separate package, not worth one test
from environment import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def lines(workflow: Path) -> list[str]:
    """The commands of a workflow, with a matrix expanded."""
    found = []
    for job in read(workflow)["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        runs = [step["run"] for step in job["steps"] if "run" in step]
        found += [line for run in runs for line in (matrix["command"] if run == "${{ matrix.command }}" else [run])]
    return found


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_the_commands_that_a_developer_calls(workflow: Path) -> None:
    called = lines(workflow)
    assert called
    for line in called:
        target = re.match(r"make (\w+)(?: ARGS=\"[^\"]*\"| DRIVER=[\w/]+| HOST_KERNELS=OFF)*$", line)
        assert line == ".ci/run" or "apt-get install" in line or (target and target[1] in commands.COMMANDS), line


def test_the_tools_of_a_commit_are_those_of_make_check() -> None:
    wanted = set(PROJECT["optional-dependencies"]["format"])
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    used = {package for hook in repository["hooks"] for package in hook["additional_dependencies"]}
    assert used
    assert used <= wanted


def test_the_version_is_the_same_everywhere() -> None:
    assert read(ROOT / "CITATION.cff")["version"] == PROJECT["version"]
    headings = re.findall(r"^## (.*?) \(PyTorch", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] in ("Not released", PROJECT["version"])
    assert PROJECT["version"] in headings


def test_the_container_is_built_from_a_file_that_is_there() -> None:
    folder = ROOT / ".devcontainer"
    described = json.loads((folder / "devcontainer.json").read_text(encoding="utf-8"))
    assert (folder / described["build"]["dockerfile"]).is_file()
    assert described["postCreateCommand"] == "make build"


def test_the_map_of_changes_names_files_that_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text[text.index("## Where a change goes") : text.index("## Add a source or an operator")]
    named = [name for name in re.findall(r"`([\w./]+/[\w./]+)`", table) if "<" not in name]
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []
