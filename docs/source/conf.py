"""Sphinx configuration. The strict directives, the gate and the doctest builder come from docs/_ext."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

project = "The executable guide to PyTorch accelerators"
author = "The torch_openreg authors"
project_copyright = author
html_title = "The executable guide"

extensions = [
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "notfound.extension",
    "docs._ext.records",
    "docs._ext.repository",
    "docs._ext.lock",
    "docs._ext.faults",
    "docs._ext.links",
    "docs._ext.literalinclude",
    "docs._ext.source_pages",
    "docs._ext.whole_sources",
    "docs._ext.interface_table",
    "docs._ext.stub_table",
    "docs._ext.poster",
    "docs._ext.error_index",
    "docs._ext.console",
    "docs._ext.diagram",
    "docs._ext.gate",
    "docs._ext.marks",
    "docs._ext.copied",
    "docs._ext.bundles",
    "docs._ext.narrated",
    "docs._ext.proven",
    "docs._ext.proof",
    "docs._ext.plan",
]

# What pages can show. A build compiles, imports or executes each of these; a page that shows a file of
# `weaver_executed` must run it in an example of its own.
weaver_root = str(ROOT)
weaver_sources = [
    "csrc",
    "torch_openreg",
    "torch_openreg_autoload.py",
    "conformance/driver",
    "examples",
    "CMakeLists.txt",
    "cmake",
    "pyproject.toml",
    "Makefile",
    "tests/opinfo",
    "tools",
    ".ci/run",
]
weaver_executed = ["examples"]
# What the chapters are to explain: each file of it is folded at the end of one.
weaver_narrated = ["csrc", "torch_openreg", "torch_openreg_autoload.py"]
# What the first meta tensor, optimizer or profile of a process imports. A third of the examples would spend a second on
# it: the doctest builder forks them from a process that has it.
weaver_late_modules = ["torch._dynamo"]

nitpicky = True
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
