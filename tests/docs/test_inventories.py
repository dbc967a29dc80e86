"""Links to the documentation of Python, PyTorch and NumPy: names that are listed, and no network."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import pytest
from sphinx.errors import ConfigError

from docs._ext.inventories import address, read
from tests.weaver.conftest import CONF, ROOT

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository

FILE = ROOT / "docs" / "inventories.toml"
SITE = '[toy]\nurl = "https://toy.example/{torch}/"\n[toy.function]\n"toy.run" = "api.html#$"\n'
_ROLE = re.compile(r"\{py:\w+\}`(?:[^`<]*<)?([^`<>]+)>?`")


@pytest.fixture
def linked(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository whose pages can link to ``toy.run``, on a machine without a network."""

    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError("the build opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    repository.write("docs/source/conf.py", CONF + 'extensions += ["docs._ext.inventories"]\n')
    repository.write("docs/inventories.toml", SITE)
    return repository


def test_a_name_leads_to_the_page_of_its_site(linked: Repository) -> None:
    linked.add("Call {py:func}`toy.run`, or {py:func}`it <toy.run>`.\n")
    result = linked.build()
    assert result.status == 0, result.warnings
    html = (result.output / "index.html").read_text(encoding="utf-8")
    found = re.findall(r'<a class="reference external" href="([^"]*)" title="[^"]*"><code[^>]*>(.*?)</code>', html)
    url = address("https://toy.example/{torch}/")
    assert re.fullmatch(r"https://toy\.example/\d+\.\d+/", url)
    assert [place for place, _ in found] == [f"{url}api.html#toy.run"] * 2


def test_a_name_that_is_not_listed_fails_with_page_and_line(linked: Repository) -> None:
    line = linked.add("Call {py:func}`toy.walk`.\n")
    linked.build().assert_fault(f"index.md:{line}", "toy.walk")


def test_pages_are_read_anew_when_the_list_changes(linked: Repository) -> None:
    line = linked.add("Call {py:func}`toy.run`.\n")
    assert linked.build().status == 0
    linked.write("docs/inventories.toml", SITE.replace("toy.run", "toy.walk"))
    linked.build().assert_fault(f"index.md:{line}", "toy.run")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[toy", "inventories.toml: "),
        ('[toy]\nurl = "http://toy.example/"\n', r"\[toy\] has no url that begins with https://"),
        (SITE.replace("function", "func"), r"\[toy\] has func; there are url, attribute, class, "),
    ],
)
def test_what_is_wrong_with_the_list_is_named(linked: Repository, text: str, message: str) -> None:
    linked.write("docs/inventories.toml", text)
    with pytest.raises(ConfigError, match=message):
        read(linked.root / "docs/inventories.toml")
    linked.root.joinpath("docs/inventories.toml").unlink()
    with pytest.raises(ConfigError, match="No such file"):
        read(linked.root / "docs/inventories.toml")


def test_pages_use_every_name_that_is_listed() -> None:
    pages = [file.read_text(encoding="utf-8") for file in (ROOT / "docs" / "source").rglob("*.md")]
    used = {" ".join(name.split()) for page in pages for name in _ROLE.findall(page)}
    listed = {
        name for site in read(FILE).values() for names in site.values() if isinstance(names, dict) for name in names
    }
    assert listed == used
