"""Builds the package, for `pip install --no-build-isolation .` here."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import torch
from setuptools import Extension, setup  # type: ignore[import-untyped]
from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).parent))
glue = importlib.import_module("glue")


class Build(build_ext):  # type: ignore[misc]
    """Compiles the extension as the tests do."""

    def build_extension(self, ext: Extension) -> None:
        """Puts the library where setuptools collects it."""
        glue.compile_glue(Path(self.get_ext_fullpath(ext.name)).parent)


setup(
    install_requires=[f"torch=={'.'.join(torch.__version__.split('.')[:2])}.*"],
    ext_modules=[Extension("torch_remote_glue", [str(glue.SOURCE.relative_to(Path(__file__).parent))])],
    cmdclass={"build_ext": Build},
)
