from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from weaver.sources.headers import virtual_methods

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository

HEADER = """\
#pragma once
#define NOT_ME(x) \\
  virtual void macro(x);
class Forward;
// class Device { virtual void comment(); };
namespace at {
class TORCH_API [[maybe_unused]] Device final : public Base<int>, Other {
 public:
  Device() : a_{1} {}
  virtual ~Device() = default;
  virtual bool is_on() const { return "virtual void text() {"[0] == '{'; }
  /* virtual void block(); */
  [[nodiscard]] virtual std::pair<int, std::function<void(int)>> two(
      std::function<int(int)> f = [](int x) { return x; }) const = 0;
  virtual auto trailing() const noexcept(false) -> int;
  int plain(int override_me);
  void from_base() const override;
  void last() final {}
  virtual void overload(int); virtual void overload(float);
  virtual int operator()(int) = 0;
  struct Inner { virtual void inner(); };
 protected:
  virtual void hidden() = 0;
};
class DeviceOther { virtual void other(); };
}
"""


def test_header_is_read_as_a_reader_would() -> None:
    found = [(method.name, method.line) for method in virtual_methods(HEADER, "Device")]
    assert found == [
        ("is_on", 11),
        ("two", 13),
        ("trailing", 15),
        ("from_base", 17),
        ("last", 18),
        ("overload", 19),
        ("overload", 19),
        ("operator()", 20),
        ("hidden", 23),
    ]
    assert [method.name for method in virtual_methods(HEADER, "DeviceOther")] == ["other"]
    with pytest.raises(LookupError, match="defines no class Forward"):
        virtual_methods(HEADER, "Forward")


@pytest.fixture
def header(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> str:
    """A header of a torch that is not the installed one."""
    from weaver.pages import interface_table
    from weaver.sources import installed

    repository.write(
        "torch/include/ATen/Hooks.h", "struct Hooks {\n  virtual void init();\n  virtual int count();\n};\n"
    )
    monkeypatch.setattr(installed, "folder", lambda package: repository.root / package)
    for module in (installed, interface_table):
        monkeypatch.setattr(module, "release", lambda package: "2.13.9")
    return "torch:ATen/Hooks.h#Hooks"


def table(headers: str, *rows: str) -> str:
    body = "".join(f"| {row} | text |\n" for row in rows)
    return f"```{{interface-table}}\n:headers: {headers}\n\n| Method | Text |\n| --- | --- |\n{body}```\n"


def test_complete_table_passes_until_torch_adds_a_method(repository: Repository, header: str) -> None:
    line = repository.add(table(header, "`init()`", "`Hooks::count()`"))
    result = repository.build()
    assert result.status == 0, result.warnings
    assert (result.output / "sources/torch/ATen/Hooks.h.html").is_file()
    index = (result.output / "genindex.html").read_text(encoding="utf-8")
    assert re.findall(r'<a href="index.html#interface-\d">(.*?)</a>', index) == ["count (Hooks)", "init (Hooks)"]
    repository.write(
        "torch/include/ATen/Hooks.h", "struct Hooks {\n  virtual void a(),\n b();\n virtual int c();\n};\n"
    )
    repository.build().assert_fault(f"index.md:{line}", "declares what no row names", "`c` (ATen/Hooks.h:4)")


def test_tables_with_the_same_headers_count_as_one(repository: Repository, header: str) -> None:
    line = repository.add(table(header, "`init`") + "\n## Low priority\n\n" + table(header, "`count`"))
    result = repository.build()
    assert result.status == 0, result.warnings
    repository.page("# Other\n\n" + table(header, "`count`"), "other.md")
    repository.add("```{toctree}\nother\n```\n")
    repository.build().assert_fault("other.md:3", "declares what no row names: `init`")
    assert not repository.build().has(f"index.md:{line}", "declares")


@pytest.mark.parametrize(
    ("rows", "offset", "message"),
    [
        (["`init()`"], 0, "torch 2.13.9 declares what no row names: `count` (ATen/Hooks.h:3)"),
        (["`init()`", "`count()`", "`stop()`"], 7, "`stop` is no virtual member function"),
        (["`init()`", "`count()`", "`init()`"], 7, "`init` has two rows"),
        (["`init()`", "count"], 6, "must name a member function as inline code"),
    ],
)
def test_fault_names_page_and_line(
    repository: Repository, header: str, rows: list[str], offset: int, message: str
) -> None:
    line = repository.add(table(header, *rows))
    repository.build().assert_fault(f"index.md:{line + offset}", message)


@pytest.mark.parametrize("headers", ["ATen/Hooks.h#Hooks", "torch:ATen/Hooks.h", "torch:ATen/None.h#Hooks"])
def test_bad_headers_fail(repository: Repository, header: str, headers: str) -> None:
    line = repository.add(table(headers, "`init()`"))
    repository.build().assert_fault(f"index.md:{line}", "interface-table: ")
