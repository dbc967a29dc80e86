"""Highlighted code without the tags that no style of the site colors.

Most tokens of a listing are names, punctuation and white space. They have the color of plain text, and a tag for each
would make a page much larger.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pygments.formatters import HtmlFormatter
from pygments.styles import get_style_by_name
from pygments.token import Generic, Text, Token, Whitespace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pygments.style import Style
    from pygments.token import _TokenType
    from sphinx.application import Sphinx


def lean_formatter(styles: Iterable[type[Style]]) -> type[HtmlFormatter[str]]:
    """Return a formatter that leaves tokens untagged if they look like plain text in each of these styles."""
    tables = tuple(styles)

    @cache
    def tagged(kind: _TokenType) -> _TokenType:
        return Token if all(_looks_plain(kind, table) for table in tables) else kind

    class Lean(HtmlFormatter[str]):
        """Writes tokens that look like plain text without tags."""

        def format_unencoded(self, tokensource: Iterable[tuple[_TokenType, str]], outfile: Any) -> None:
            """Write the tokens, those that look plain without their type."""
            super().format_unencoded(((tagged(kind), text) for kind, text in tokensource), outfile)

    return Lean


def _looks_plain(kind: _TokenType, style: type[Style]) -> bool:
    # Prompts and outputs keep their tags: the copy button uses them to leave these out.
    if kind in Generic:  # type: ignore[comparison-overlap] # the stubs type a token type as a plain tuple
        return False
    is_blank = kind in Whitespace  # type: ignore[comparison-overlap]
    return is_blank or style.style_for_token(kind) == style.style_for_token(Text)


def formatter(app: Sphinx) -> type[HtmlFormatter[str]]:
    """Return the formatter for the styles of this site: that of the builder and the theme's dark style."""
    highlighter: Any = app.builder.highlighter  # type: ignore[attr-defined] # only HTML builders have it
    dark = app.config.pygments_dark_style if "pygments_dark_style" in app.config else None
    return lean_formatter([highlighter.formatter_args["style"], *([get_style_by_name(dark)] if dark else [])])


def _install(app: Sphinx) -> None:
    if app.builder.format == "html":
        app.builder.highlighter.formatter = formatter(app)  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the replacement of the formatter."""
    app.connect("builder-inited", _install)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
