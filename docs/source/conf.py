"""Sphinx configuration. The strict directives, the gate and the doctest builder are the weaver's (weaver.toml)."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "weaver")]
sys.path.append(str(ROOT / "tools"))  # what make vendor writes

project = "The executable guide to PyTorch accelerators"
author = "The torch_openreg authors"
project_copyright = author
html_title = "The executable guide"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = [
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "notfound.extension",
    "weaver",
    "docs._ext.stub_table",
    "docs._ext.state_table",
    "docs._ext.release_table",
    "docs._ext.library_table",
    "docs._ext.conformance_poster",
    "docs._ext.trace_picture",
    "docs._ext.markdown_twins",
    "docs._ext.inventories",
    "docs._ext.epub",
]

nitpicky = True
# A function is called as the page writes it, with parentheses or without.
add_function_parentheses = False
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 4
templates_path = ["_templates"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["guide.css"]
html_js_files = ["guide.js"]
html_favicon = "_static/mark.svg"
html_logo = "_static/mark.svg"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_last_updated_fmt = None
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "github-dark"
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {
        "color-brand-primary": "#9a3412",
        "color-brand-content": "#9a3412",
        "color-brand-visited": "#7c2d53",
    },
    "dark_css_variables": {
        "color-brand-primary": "#fdba74",
        "color-brand-content": "#fdba74",
        "color-brand-visited": "#f0abcb",
    },
}

epub_basename = "executable-guide"
epub_description = (
    "How an accelerator becomes a device of PyTorch, out of tree: the sources of a backend, explained and executed"
)
epub_identifier = epub_uid = "executable-guide"
epub_css_files = ["guide-epub.css"]
epub_show_urls = "no"
# The contents name the index of Sphinx too, and it would be in the file twice.
epub_use_index = False
# The contents, which no page shows: the chapters and their sections.
epub_tocdepth = 2
epub_tocscope = "includehidden"

copybutton_exclude = ".linenos, .gp, .go"
# Output is not offered for copying.
copybutton_selector = ":not(.highlight-none) > .highlight pre"
notfound_urls_prefix = "/"
