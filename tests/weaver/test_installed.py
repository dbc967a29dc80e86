from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from weaver.pages import lock
from weaver.sources import installed

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository

HEADER = "int a;\nint first() {\n  return 1;\n}\nint second() {\n  return 2;\n}\n"
SHOW = "```{literalinclude} torch:ATen/A.h\n:start-at: int first\n:end-at: }\n:emphasize-text: return\n```\n"


@pytest.fixture
def torch(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """The repository with a torch that is not the installed one."""
    monkeypatch.setattr(installed, "folder", lambda package: repository.root / package)
    release(monkeypatch, "2.13.0")
    repository.write("torch/include/ATen/A.h", HEADER)
    repository.write("torch/random.py", "def seed():\n    return 1\n")
    return repository


def release(patch: pytest.MonkeyPatch, version: str) -> None:
    for module in (installed, lock):
        patch.setattr(module, "release", lambda package: version)


def test_locked_region_is_shown_with_release_and_lines(torch: Repository) -> None:
    torch.add(SHOW + "```{literalinclude} torch-py:random.py\n:pyobject: seed\n```\n")
    lock.update(torch.configuration)
    result = torch.build()
    assert result.status == 0, result.warnings
    html = (result.output / "index.html").read_text()
    assert 'href="sources/torch/ATen/A.h.html#L2">torch 2.13.0: ATen/A.h:2-4</a>' in html
    assert "torch 2.13.0: random.py:1-2" in html
    assert (result.output / "sources/torch/ATen/A.h.html").is_file()


def test_a_caption_leads_to_the_lines_in_the_repository(torch: Repository) -> None:
    table = {
        "package": "torch",
        "title": "PyTorch",
        "prefixes": {"torch": "include", "torch-py": ""},
        "repository": "https://forge.example/torch/blob/v{release}/{path}",
        "folders": {"torch:ATen/": "aten/src/ATen/", "torch:ATen/ops/": "", "torch-py:": "torch/"},
        "added": "#if ADDED",
    }
    torch.configure(installed=table)
    torch.write("torch/include/ATen/ops/B.h", HEADER)
    torch.write("torch/include/c10/C.h", HEADER)
    torch.write("torch/include/ATen/D.h", "#if ADDED\n" + HEADER + "#endif\n")
    shown = SHOW + "".join(SHOW.replace("ATen/A.h", name) for name in ("ATen/ops/B.h", "c10/C.h", "ATen/D.h"))
    torch.add(shown + "```{literalinclude} torch-py:random.py\n:pyobject: seed\n```\n")
    lock.update(torch.configuration)
    result = torch.build()
    assert result.status == 0, result.warnings
    html = (result.output / "index.html").read_text(encoding="utf-8")
    at = "https://forge.example/torch/blob/v2.13.0/"
    assert re.findall(r'<a class="home reference external" href="([^"]*)">in PyTorch.s repository</a>', html) == [
        f"{at}aten/src/ATen/A.h#L2-L4",
        f"{at}aten/src/ATen/D.h#L2-L4",  # lines 3 to 5 of the installed file
        f"{at}torch/random.py#L1-L2",
    ]
    whole = (result.output / "sources/torch/ATen/A.h.html").read_text(encoding="utf-8")
    assert f'<a class="reference external" href="{at}aten/src/ATen/A.h">' in whole


def test_region_without_a_lock_fails_and_says_what_to_do(torch: Repository) -> None:
    line = torch.add(SHOW)
    torch.build().assert_fault(f"index.md:{line}", "is not in the lock file", "run `make lock`")


def test_changed_text_fails_until_it_is_locked_anew(torch: Repository) -> None:
    line = torch.add(SHOW)
    lock.update(torch.configuration)
    assert torch.build().status == 0
    torch.write("torch/include/ATen/A.h", HEADER.replace("return 1", "return 3"))
    for _ in range(2):
        torch.build().assert_fault(f"index.md:{line}", "not the text that was locked for torch 2.13.0", "`make lock`")
    lock.update(torch.configuration)
    assert torch.build().status == 0


def test_new_release_with_the_same_text_passes(torch: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    line = torch.add(SHOW)
    lock.update(torch.configuration)
    release(monkeypatch, "2.13.1")
    assert torch.build(fresh=True).status == 0
    torch.write("torch/include/ATen/A.h", HEADER.replace("return 1", "return 3"))
    torch.build(fresh=True).assert_fault(f"index.md:{line}", "in torch 2.13.1 is not the text")
    lock.update(torch.configuration)
    entries = json.loads(lock.file(torch.configuration).read_text())["regions"]
    assert [entry["torch"] for entry in entries] == ["2.13.0", "2.13.1"]


def test_region_that_is_no_longer_shown_leaves_the_lock(torch: Repository) -> None:
    page = (torch.root / "docs/source/index.md").read_text()
    torch.add(SHOW)
    assert lock.update(torch.configuration) == 1
    torch.page(page)
    assert lock.update(torch.configuration) == 0


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ("int third", "}", "`int third` occurs in 0 lines, and must occur in one"),
        ("return", "}", "`return` occurs in 2 lines (lines 3, 6), and must occur in one"),
        ("int second", "int first", "`int first` does not occur at or after line 5"),
    ],
)
def test_pattern_that_moved_fails(torch: Repository, start: str, end: str, message: str) -> None:
    line = torch.add(SHOW.replace("int first", start).replace(":end-at: }", f":end-at: {end}"))
    torch.build().assert_fault(f"index.md:{line}", message)


def test_installed_torch_is_found_without_importing_it() -> None:
    import subprocess
    import sys

    code = (
        f"import sys; sys.path.append({str(Path(installed.__file__).parents[2])!r})\n"
        "from weaver.configuration import Installed\n"
        "from weaver.sources.installed import locate, release\n"
        "torch = Installed('torch', prefixes={'torch': 'include'})\n"
        "assert locate(torch, 'torch:ATen/Context.h').is_file() and release('torch')[0].isdigit()\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
