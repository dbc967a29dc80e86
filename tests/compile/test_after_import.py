from __future__ import annotations

import copy
import importlib
import importlib.util
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from torch_openreg.compile.after_import import after_import


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that was never imported."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "imported_late", raising=False)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    (tmp_path / "imported_late.py").write_text("value = 1\n", encoding="utf-8")
    return "imported_late"


def test_the_function_is_called_once_after_the_module_has_run(module: str) -> None:
    values: list[int] = []
    finders = list(sys.meta_path)
    after_import(module, lambda: values.append(sys.modules[module].value))
    assert importlib.util.find_spec(module) is not None  # looked for, not imported
    assert values == []
    imported = importlib.import_module(module)
    assert (values, sys.meta_path) == ([1], finders)
    importlib.reload(imported)
    assert values == [1]


def test_an_import_of_another_thread_keeps_its_finders(module: str) -> None:
    """It may be anywhere in the list; a list that loses its first entry meanwhile leaves out one of the others."""
    before = sys.meta_path
    after_import(module, lambda: None)
    other = iter(sys.meta_path)
    finder = next(other)
    importlib.import_module(module)
    assert list(other) == before == sys.meta_path
    # It may also call the finder that it has in hand.
    assert finder.find_spec(module, None) is not None


def test_two_functions_for_one_module(module: str) -> None:
    called: list[int] = []
    finders = list(sys.meta_path)
    for number in (1, 2):
        after_import(module, lambda number=number: called.append(number))  # type: ignore[misc]
    importlib.import_module(module)
    assert (sorted(called), sys.meta_path) == ([1, 2], finders)


def test_the_module_has_its_own_loader(module: str) -> None:
    after_import(module, lambda: None)
    imported = importlib.import_module(module)
    assert imported.__spec__ is not None
    assert imported.__loader__ is imported.__spec__.loader
    assert type(imported.__loader__).__name__ == "SourceFileLoader"


def test_a_module_that_runs_as_a_program(module: str) -> None:
    after_import(module, lambda: None)
    assert runpy.run_module(module)["value"] == 1
    spec = importlib.util.find_spec(module)
    assert spec is not None
    loader: Any = spec.loader
    assert loader.get_source(module) == "value = 1\n"
    assert copy.copy(loader).get_source(module) == "value = 1\n"
    with pytest.raises(AttributeError, match="'SourceFileLoader' object has no attribute 'nothing'"):
        loader.nothing  # noqa: B018


def test_a_module_that_is_there_is_not_waited_for(module: str) -> None:
    importlib.import_module(module)
    called: list[str] = []
    after_import(module, lambda: called.append("now"))
    assert called == ["now"]


def test_a_module_that_does_not_exist_is_still_missing(module: str) -> None:
    after_import(f"{module}_not_there", lambda: None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"{module}_not_there")
