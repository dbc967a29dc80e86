"""The build backend of this project: scikit-build-core, after checks that fail with one line.

A missing torch, compiler or build package would otherwise end in CMake's log or in a traceback, and pip prints both
in full. The hooks of PEP 517 and PEP 660 are passed on unchanged.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from prerequisites import BUILD_FAULTS, first_fault

if TYPE_CHECKING:
    from types import ModuleType

ConfigSettings = dict[str, str | list[str]] | None


def _scikit_build_core() -> ModuleType:
    """The real backend; ends the process with one line if something that the build needs is missing."""
    fault = first_fault(BUILD_FAULTS)
    if fault is not None:
        sys.exit(f"torch_openreg: {fault}")
    import scikit_build_core.build

    return scikit_build_core.build


def get_requires_for_build_wheel(config_settings: ConfigSettings = None) -> list[str]:
    """What else to install before build_wheel."""
    requires: list[str] = _scikit_build_core().get_requires_for_build_wheel(config_settings)
    return requires


def get_requires_for_build_editable(config_settings: ConfigSettings = None) -> list[str]:
    """What else to install before build_editable."""
    requires: list[str] = _scikit_build_core().get_requires_for_build_editable(config_settings)
    return requires


def get_requires_for_build_sdist(config_settings: ConfigSettings = None) -> list[str]:
    """What else to install before build_sdist, which needs neither torch nor a compiler."""
    from scikit_build_core.build import get_requires_for_build_sdist as requires

    return requires(config_settings)


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: ConfigSettings = None) -> str:
    """Writes the wheel's metadata and returns the name of its folder."""
    name: str = _scikit_build_core().prepare_metadata_for_build_wheel(metadata_directory, config_settings)
    return name


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: ConfigSettings = None) -> str:
    """Writes the editable wheel's metadata and returns the name of its folder."""
    name: str = _scikit_build_core().prepare_metadata_for_build_editable(metadata_directory, config_settings)
    return name


def build_wheel(
    wheel_directory: str, config_settings: ConfigSettings = None, metadata_directory: str | None = None
) -> str:
    """Builds the wheel and returns its name."""
    name: str = _scikit_build_core().build_wheel(wheel_directory, config_settings, metadata_directory)
    return name


def build_editable(
    wheel_directory: str, config_settings: ConfigSettings = None, metadata_directory: str | None = None
) -> str:
    """Builds the development install's wheel and returns its name."""
    name: str = _scikit_build_core().build_editable(wheel_directory, config_settings, metadata_directory)
    return name


def build_sdist(sdist_directory: str, config_settings: ConfigSettings = None) -> str:
    """Packs the sources and returns the archive's name."""
    from scikit_build_core.build import build_sdist as build

    return build(sdist_directory, config_settings)
