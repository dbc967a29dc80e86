"""Asks a PyTorch backend behind PrivateUse1 what PyTorch will ask of it.

pytest --pyargs accelerator_conformance --device acme

The package imports no backend: the worker processes do, by `import torch`. A check is a test function with a sentence
that says what it asks, a level, and the chapter of the guide that has the cure. Its area is the file that it is in.
"""

__version__ = "0.1.0"
