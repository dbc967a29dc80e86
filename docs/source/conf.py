"""Sphinx configuration. The strict directives, the gate and the doctest builder are the weaver's (weaver.toml)."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "weaver")]

project = "The executable guide to PyTorch accelerators"
author = "The torch_openreg authors"
project_copyright = author
html_title = "The executable guide"

extensions = [
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "notfound.extension",
    "weaver",
    "docs._ext.stub_table",
    "docs._ext.conformance_poster",
    "docs._ext.trace_picture",
    "docs._ext.markdown_twins",
    "docs._ext.inventories",
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

copybutton_exclude = ".linenos, .gp, .go"
# Output is not offered for copying.
copybutton_selector = ":not(.highlight-none) > .highlight pre"
notfound_urls_prefix = "/"
