"""What pytest loads wherever the kit is installed: nothing, unless the kit is what is to be run.

A project beside it may have a --device of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Brings the options and the loop of the kit, and leaves out what the project's conftest files would change."""
    if any("accelerator_conformance" in argument for argument in args):
        early_config.known_args_namespace.noconftest = True
        early_config.pluginmanager.import_plugin("accelerator_conformance.session")
