"""The documentation of another project, the folder ``example``, with the weaver installed from its folder by pip."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.build.venvs import ROOT, ForeignVenv, foreign_venv

EXAMPLE = Path(__file__).with_name("example")
MISSED = "shapes/__init__.py:8: shown by index, executed by no example there: "


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> ForeignVenv:
    """An environment with the weaver, but without this repository."""
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(ROOT / "weaver", folder / "weaver")  # the build writes next to its sources
    made = foreign_venv(folder / "venv")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    ran = made.run("pip", "install", *options, str(folder / "weaver"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "build"))
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    return folder


def weave(made: ForeignVenv, project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return made.run("python", "-m", *words, cwd=project)


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def html(made: ForeignVenv, project: Path) -> subprocess.CompletedProcess[str]:
    return weave(made, project, "sphinx", "--fail-on-warning", "-b", "html", "docs/source", "docs/build/html")


def test_the_installed_weaver_is_whole(installed: ForeignVenv) -> None:
    def files(folder: Path) -> set[str]:
        return {str(path.relative_to(folder)) for path in folder.rglob("*.*") if path.suffix != ".pyc"}

    assert files(installed.site_packages / "weaver") == files(ROOT / "weaver" / "weaver")


def test_pages_show_regions_with_their_source(installed: ForeignVenv, project: Path) -> None:
    done = html(installed, project)
    assert done.returncode == 0, done.stderr
    page = (project / "docs/build/html/index.html").read_text(encoding="utf-8")
    assert 'href="sources/shapes/__init__.py.html#L5">shapes/__init__.py:5-9</a>' in page
    assert "Not measured: run <code" in page
    assert "python -m weaver proof" in page.replace('</span> <span class="pre">', " ")
    assert (project / "docs/build/html/bundles/index.zip").is_file()


def test_the_gate_refuses_code_that_nothing_runs(installed: ForeignVenv, project: Path) -> None:
    change(project / "docs/source/index.md", "# Shapes\n", "# Shapes\n\n```python\nrectangle(1, 2)\n```\n")
    done = html(installed, project)
    assert done.returncode != 0
    assert "docs/source/index.md:4: WARNING: unproven code block (python)" in done.stderr


@pytest.mark.long
def test_every_snippet_is_executed_and_compared(installed: ForeignVenv, project: Path) -> None:
    done = weave(installed, project, "weaver", "doctest")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "doctest: 4 examples on 1 pages passed, 1 listings" in done.stdout
    change(project / "docs/source/index.md", "[6, 0, 0]", "[6, 0, 1]")
    done = weave(installed, project, "weaver", "doctest")
    assert done.returncode == 1
    assert "docs/source/index.md:10: WARNING: [rectangle(2, 3)" in done.stderr


@pytest.mark.long
def test_lines_and_mutants_are_measured(installed: ForeignVenv, project: Path) -> None:
    done = weave(installed, project, "weaver", "proof")
    assert done.returncode == 0, done.stdout + done.stderr
    done = weave(installed, project, "weaver", "mutate")
    assert done.returncode == 0, done.stdout + done.stderr
    (region,) = json.loads((project / "docs/proof/mutants.json").read_text(encoding="utf-8"))["regions"]
    assert (region["region"], region["survived"]) == ("shapes-rectangle", [])
    assert region["killed"] > 5
    assert html(installed, project).returncode == 0
    page = (project / "docs/build/html/index.html").read_text(encoding="utf-8")
    assert "3 of 3 lines executed by this page" in page
    assert f"{region['killed']} of {region['killed']} mutants killed" in page


def test_a_line_that_no_example_executes_is_named(installed: ForeignVenv, project: Path) -> None:
    page = project / "docs/source/index.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(text[: text.index(">>> rectangle(-1")] + text[text.index("```\n\n```{whole") :], encoding="utf-8")
    done = weave(installed, project, "weaver", "proof")
    assert done.returncode == 1
    assert MISSED in done.stdout
    assert done.stderr.endswith("1 displayed lines are executed by no example of a page that shows them\n")


@pytest.mark.parametrize("words", [[], ["prove"]], ids=["without a command", "one that is not there"])
def test_without_a_command_of_its_own_it_lists_them(installed: ForeignVenv, project: Path, words: list[str]) -> None:
    done = weave(installed, project, "weaver", *words)
    assert done.returncode == 2
    assert "{doctest,lock,proof,mutate}" in done.stderr


def test_a_key_that_is_not_known_is_named(installed: ForeignVenv, project: Path) -> None:
    change(project / "weaver.toml", "modules", "module")
    done = weave(installed, project, "weaver", "doctest")
    assert done.returncode == 1
    assert done.stderr.startswith("weaver: weaver.toml: [measure]: module is no key; there are imported, ")
