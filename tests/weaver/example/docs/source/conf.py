"""The whole configuration of Sphinx."""

project = "Shapes"
extensions = ["myst_parser", "weaver"]
