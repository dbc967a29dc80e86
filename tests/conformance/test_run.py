"""The kit on the unmodified backend, and what a run leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.kit import KIT, ROOT, Ran, helped, run_kit

AREAS = "device,module,hooks,guard,memory,tensors,streams,events,random,serialization,autograd,amp,models"


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """All areas except the operators, because PyTorch's database of them takes seconds to import."""
    return run_kit(tmp_path_factory.mktemp("intact") / "report", f"--area={AREAS}", "--guide=https://guide.example/a/")


def test_the_backend_passes(intact: Ran) -> None:
    assert intact.found() == {}, intact.output
    assert intact.status == 0
    assert list(intact.report["scores"]) == AREAS.split(",")
    assert all(score["percent"] == 100 for score in intact.report["scores"].values())


def test_each_check_says_what_it_asks_and_names_a_chapter(intact: Ran) -> None:
    chapters = {path.stem for path in (ROOT / "docs/source/accelerator").glob("*.md")}
    for check in intact.report["checks"]:
        assert check["asks"].endswith("."), check["name"]
        assert check["chapter"] in chapters, check["name"]


def test_the_page_has_badges_and_all_checks(intact: Ran) -> None:
    page = (intact.folder / "report.html").read_text(encoding="utf-8")
    assert page.count("class='badge'") == len(AREAS.split(","))
    assert all(f"<code>{check['name']}</code>" in page.replace("&gt;", ">") for check in intact.report["checks"])


def test_operators_of_the_database(tmp_path: Path) -> None:
    ran = run_kit(tmp_path / "report", "--area=operators", "-k=[softmax- or [mul- or [multinomial-", "--level=complete")
    assert ran.status == 0, ran.output
    modes = {check["name"].split("-")[1] for check in ran.report["checks"]}
    assert modes == {"forward", "noncontiguous", "out", "in_place", "backward"}
    # Of the results of random operators, only the form is compared.
    assert ran.found() == {}


def test_resume_runs_what_is_left(tmp_path: Path) -> None:
    broken = ["--setup=tests.conformance.broken.wrong_stride", "--area=tensors", "-k=empty_strided"]
    first = run_kit(tmp_path / "report", *broken, "--maxfail=1")
    assert [check["outcome"] for check in first.report["checks"]] == ["passed", "failed"], first.output

    # Checks with a known outcome do not run again: an outcome that no check gives stays.
    content = first.report
    content["checks"][0] |= {"outcome": "failed", "reason": "known from before"}
    (first.folder / "report.json").write_text(json.dumps(content), encoding="utf-8")
    second = run_kit(tmp_path / "report", *broken, "--resume")
    assert [check["outcome"] for check in second.report["checks"]] == ["failed", "failed", "failed"], second.output
    assert "known from before" in second.output


def test_resume_keeps_the_outcomes_of_other_areas(tmp_path: Path) -> None:
    run_kit(tmp_path / "report", "--area=tensors", "-k=empty_strided")
    second = run_kit(tmp_path / "report", "--area=device", "-k=name_is_registered", "--resume")
    names = [check["name"] for check in second.report["checks"]]
    assert names == [*(f"tensors/empty_strided[{strides}]" for strides in ("(4, 1)", "(1, 3)", "(8, 2)")),
                     "device/name_is_registered"], second.output  # fmt: skip
    assert list(second.report["scores"]) == ["tensors", "device"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--resume"], "--resume: there is no run to resume: "),
        (["--area=device,colours"], "--area: there is no colours; areas are device, module"),
        (["--level=perfect"], "invalid choice: 'perfect'"),
        (["--device=openreg:0"], "--device: name the type alone, without an index"),
        (["-n2"], "without xdist's, with -n0"),
        (["--timeout=0"], "--timeout: give the seconds for a check, above 0 and at most 1000000, got 0"),
        (["--timeout=-3"], "above 0 and at most 1000000, got -3"),
        (["--timeout=nan"], "above 0 and at most 1000000, got nan"),
        (["--timeout=inf"], "above 0 and at most 1000000, got inf"),
        (["--report=/proc/x"], "--report: /proc/x cannot be written: No such file or directory; name another"),
        ([f"--report={__file__}"], f"--report: {__file__} cannot be written: File exists; name another with --report"),
    ],
)
def test_options_that_cannot_be_are_refused(options: list[str], message: str, tmp_path: Path) -> None:
    ran = run_kit(tmp_path / "report", *options)
    assert ran.status == 4
    assert message in ran.output


def test_the_options_can_be_read_without_a_device(tmp_path: Path) -> None:
    ran = helped(tmp_path / "none")
    assert ran.status == 0, ran.output
    assert "--device=DEVICE" in ran.output


def test_python_without_assertions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    ran = run_kit(tmp_path / "report", "--area=device")
    assert ran.status == 4
    assert "the checks are assert statements, which -O and PYTHONOPTIMIZE leave out: run without" in ran.output


def test_scores_are_shown_even_if_the_report_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "report" / "report.html").mkdir(parents=True)
    ran = run_kit(tmp_path / "report", "--area=device", "-k=name_is_registered")
    assert ran.status == 4
    assert "device            100 %" in ran.output
    assert (
        f"--report: {tmp_path / 'report'} cannot be written: Is a directory; name another with --report" in ran.output
    )


def test_a_list_of_checks_makes_no_folder(tmp_path: Path) -> None:
    ran = run_kit(tmp_path / "report", "--area=device", "--collect-only")
    assert ran.status == 0, ran.output
    assert not ran.folder.exists()


def test_resume_refuses_a_run_of_something_else(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    folder.mkdir()
    run = {"device": "acme", "level": "usable"}
    (folder / "report.json").write_text(json.dumps({"format": 1, "run": run, "checks": []}), encoding="utf-8")
    ran = run_kit(folder, "--resume")
    assert ran.status == 4
    assert "is of a run with device 'acme', not 'openreg'; run without --resume" in ran.output


def test_a_device_that_nobody_has_is_named(tmp_path: Path) -> None:
    ran = run_kit(tmp_path / "report", "--area=device", device="acme")
    assert ran.status == 1
    assert ran.found() == {}
    assert "PyTorch does not know the device: Expected one of" in ran.report["fault"]
    assert "device type at start of device string: acme" in ran.output


def test_the_kit_knows_no_backend() -> None:
    sources = list(KIT.rglob("*.py"))
    assert len(sources) > 20
    assert [path.name for path in sources if "openreg" in path.read_text(encoding="utf-8")] == []
