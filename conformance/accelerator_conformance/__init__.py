"""Checks that a PyTorch backend behind PrivateUse1 does what PyTorch requires of it.

pytest --pyargs accelerator_conformance --device acme

The package imports no backend: only the worker processes do, through `import torch`. A check is a test function with a
sentence that says what it asks, a level, and the chapter of the guide that has the cure. Its area is its file.
"""

__version__ = "0.1.0"
