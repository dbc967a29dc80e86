"""All that Sphinx needs to know."""

project = "Shapes"
extensions = ["myst_parser", "weaver"]
