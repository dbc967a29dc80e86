"""Listings have tags only for tokens that a style colors."""

from __future__ import annotations

import re

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CppLexer, PythonConsoleLexer
from pygments.style import Style
from pygments.styles import get_style_by_name
from pygments.token import Name
from weaver.pages.highlighting import lean_formatter

LIGHT, DARK = get_style_by_name("a11y-high-contrast-light"), get_style_by_name("github-dark")
CODE = "int  main(int count) {\n\treturn count + 1;  // one more\n}\n"


def test_what_looks_plain_in_both_styles_has_no_tag() -> None:
    lean = highlight(CODE, CppLexer(), lean_formatter([LIGHT, DARK])(nowrap=True))
    assert set(re.findall(r'class="(\w+)"', lean)) == {"kt", "nf", "k", "o", "mi", "c1"}
    full = highlight(CODE, CppLexer(), HtmlFormatter(nowrap=True))
    assert re.sub(r"<[^>]+>", "", lean) == re.sub(r"<[^>]+>", "", full)
    assert len(lean) < 0.8 * len(full)


def test_a_style_that_colours_names_keeps_their_tags() -> None:

    class Names(Style):
        styles = {Name: "#00f"}  # noqa: RUF012 - as Pygments declares it

    lean = highlight(CODE, CppLexer(), lean_formatter([Names, LIGHT])(nowrap=True))
    assert '<span class="n">count</span>' in lean


def test_prompts_and_outputs_keep_their_tags() -> None:
    """The copy button skips them by their class."""
    lean = highlight(">>> 1 + 1\n2\n", PythonConsoleLexer(), lean_formatter([LIGHT, DARK])(nowrap=True))
    assert set(re.findall(r'class="(\w+)"', lean)) >= {"gp", "go"}
