"""The documentation: its sources, and the Sphinx extensions that weave them."""
