"""An unfixed fault fails every incremental build, until it is fixed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository


@pytest.mark.parametrize(
    ("block", "offset"),
    [
        ("```python\nprint(1)\n```\n", 1),
        ("```{testcod}\nprint(1)\n```\n", 0),
        ("```{literalinclude} /csrc/hooks.cpp\n:lines: 1-2\n```\n", 0),
        ("[a page](none.md)\n", 0),
        ("{doc}`none`\n", 0),
    ],
)
def test_unmended_page_stays_red_and_a_mended_one_is_green(repository: Repository, block: str, offset: int) -> None:
    sound = (repository.root / "docs/source/index.md").read_text()
    line = repository.add(block)
    for _ in range(3):
        repository.build().assert_fault(f"index.md:{line + offset}")
    repository.page(sound)
    for _ in range(2):
        result = repository.build()
        assert result.status == 0, result.warnings


def test_fault_that_another_builder_reported_is_found_again(repository: Repository) -> None:
    assert repository.build().status == 0
    line = repository.add("```python\nprint(1)\n```\n")
    for builder in ("dummy", "html", "dummy"):
        repository.build(builder).assert_fault(f"index.md:{line + 1}", "unproven code block")


def test_unmended_source_stays_red(repository: Repository) -> None:
    repository.write("csrc/event.h", "// LITERALINCLUDE START: event-wait\nint a;\n")
    for _ in range(3):
        repository.build().assert_fault("csrc/event.h:1", "has no END")
    (repository.root / "csrc/event.h").unlink()
    assert repository.build().status == 0


def test_file_that_is_moved_and_moved_back_is_seen(repository: Repository) -> None:
    assert repository.build().status == 0
    file = repository.root / "csrc/hooks.cpp"
    file.rename(file.with_suffix(".away"))
    repository.build().assert_fault("index.md:3", "no file csrc/hooks.cpp")
    file.with_suffix(".away").rename(file)
    result = repository.build()
    assert result.status == 0, result.warnings
    assert "csrc/hooks.cpp:5-8" in (result.output / "index.html").read_text()


def test_file_that_a_page_mentions_and_that_moves_fails(repository: Repository) -> None:
    repository.write("tests/test_a.py", "")
    line = repository.add("See `tests/test_a.py`.\n")
    assert repository.build().status == 0
    (repository.root / "tests/test_a.py").unlink()
    for _ in range(2):
        repository.build().assert_fault(f"index.md:{line}", "`tests/test_a.py` is named")


def test_build_that_was_interrupted_hides_nothing(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    from sphinx.environment import BuildEnvironment

    line = repository.add("```python\nprint(1)\n```\n")

    def interrupt(self: BuildEnvironment) -> None:
        raise KeyboardInterrupt

    # The environment is already on disk, so without the recorded fault the next build would not read the page again.
    with monkeypatch.context() as patch:
        patch.setattr(BuildEnvironment, "check_consistency", interrupt)
        with pytest.raises(KeyboardInterrupt):
            repository.build()
    repository.build().assert_fault(f"index.md:{line + 1}", "unproven code block")
