"""The PyTorch surface that the backend depends on is recorded, and a change of it is reported."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import surface
import torch

pytestmark = pytest.mark.long

INCLUDE = Path(torch.__file__).parent / "include"
ADD = "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)\n"


@pytest.fixture(scope="module")
def written() -> str:
    return surface.FILE.read_text(encoding="utf-8")


def test_the_file_is_of_this_pytorch_and_this_backend() -> None:
    assert list(surface.stale()) == []


def test_a_changed_schema_and_a_removed_operator_are_shown(written: str, tmp_path: Path) -> None:
    assert ADD in written
    file = tmp_path / "surface.txt"
    other = ADD.replace("Scalar alpha=1", "int alpha=1")
    file.write_text(written.replace(ADD, other).replace("aten::zero_(", "aten::zzz_("))
    lacking, changes, cure = surface.stale(file)
    names = "aten::zero_, aten::zzz_"
    assert lacking == f"{file} is of other operators than the backend registers ({names}): run `make surface`"
    assert f"-{other}+{ADD}" in changes
    assert "-aten::zzz_(Tensor(a!) self) -> Tensor(a!)\n+aten::zzz_: no such operator" in changes
    assert cure == f"{file}: PyTorch is not what this backend was written against; {surface.CURE}"


def test_an_operator_that_the_file_lacks_is_named(written: str, tmp_path: Path) -> None:
    file = tmp_path / "surface.txt"
    file.write_text(written.replace(ADD, ""))
    (lacking,) = surface.stale(file)
    assert "(aten::add.out)" in lacking


def test_a_new_virtual_function_is_shown_at_its_place(written: str, tmp_path: Path) -> None:
    for header in surface.INTERFACES.values():
        (tmp_path / header).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(INCLUDE / header, tmp_path / header)
    guard = tmp_path / surface.INTERFACES["DeviceGuardImplInterface"]
    text = guard.read_text(encoding="utf-8")
    place = "  virtual Device getDevice() const = 0;"
    assert text.count(place) == 1
    guard.write_text(text.replace(place, f"  virtual void coolDown(Device) const {{}}\n{place}"))
    lines = written.splitlines()
    at = lines.index("virtual Device getDevice() const = 0")
    end = lines.index(f"[{surface.OPERATORS}]")
    expected = [*lines[:at], "virtual void coolDown(Device) const", *lines[at:end]]
    assert list(surface.interfaces(tmp_path)) == expected
    guard.unlink()
    with pytest.raises(LookupError, match=r"no c10/core/impl/DeviceGuardImplInterface\.h any more, in which"):
        list(surface.interfaces(tmp_path))


def test_without_a_backend_its_operators_are_those_of_the_file(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surface, "_REGISTERED", "raise ImportError('built for another PyTorch')")
    monkeypatch.setattr(surface, "FILE", tmp_path / "surface.txt")
    surface.FILE.write_text(written.replace("[Allocator in", "[Colour in"))
    assert "-[Colour in" in next(surface.stale(surface.FILE))
    surface.main()
    assert surface.FILE.read_text() == written


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ("virtual bool isBuilt() const", None),
        ("virtual Device getDevice(Device) const = 0", None),
        ("virtual void synchronizeDevice(const DeviceIndex) const", None),
        ("virtual void record(void**, const Stream&, const DeviceIndex, const c10::EventFlag) const", None),
        ("virtual bool f(DeviceIndex index) const = 0", "virtual bool f(DeviceIndex) const = 0"),
        ("virtual bool f(const void* data) const", "virtual bool f(const void*) const"),
        ("Generator g([[maybe_unused]] DeviceIndex index = -1)", "Generator g(DeviceIndex = -1)"),
        ("virtual void f(std::function<bool(c10::Stream)> filter)", "virtual void f(std::function<bool(c10::Stream)>)"),
        ("virtual void f(std::map<int, T>& map, long long n)", "virtual void f(std::map<int, T>&, long long)"),
        ("virtual void f(M id = {0, 0}, int n = 3)", "virtual void f(M = {0, 0}, int = 3)"),
        ("virtual void f(unsigned int)", None),
    ],
)
def test_names_of_parameters_do_not_count(declaration: str, expected: str | None) -> None:
    assert surface.without_parameter_names(declaration) == (expected or declaration)


def test_another_kernel_of_pytorch_is_shown(written: str, tmp_path: Path) -> None:
    file = tmp_path / "surface.txt"
    line = "aten::stack: Meta, CompositeExplicitAutograd\n"
    assert line in written
    file.write_text(written.replace(line, "aten::stack: CompositeExplicitAutograd\n"))
    changes, _cure = surface.stale(file)
    assert f"-aten::stack: CompositeExplicitAutograd\n+{line}".strip() in changes


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert list(surface.stale(tmp_path / "surface.txt")) == [f"{tmp_path}/surface.txt is missing: run `make surface`"]
