"""The guide's own Sphinx directives, and what the weaver needs to know about PyTorch."""
