"""Builds the package: `pip install --no-build-isolation .`"""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).parent))
from build import SOURCE, compile_glue  # noqa: E402 (setuptools runs this file with another path)


class Build(build_ext):
    """Compiles as the tests do."""

    def build_extension(self, ext: Extension) -> None:
        """Puts the library where setuptools collects."""
        compile_glue(Path(self.get_ext_fullpath(ext.name)).parent)


setup(
    ext_modules=[Extension("torch_remote_glue", [str(SOURCE.relative_to(Path(__file__).parent))])],
    cmdclass={"build_ext": Build},
)
