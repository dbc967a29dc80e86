"""This guide's own Sphinx directives, and what it tells the weaver about PyTorch."""
