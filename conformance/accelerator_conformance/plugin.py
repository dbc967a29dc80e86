"""The pytest plugin of an installed kit, which does nothing unless the kit is to be run.

Another project in the environment may have its own --device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Loads the options and the loop of the kit, and disables the project's conftest files."""
    if any("accelerator_conformance" in argument for argument in args):
        early_config.known_args_namespace.noconftest = True
        early_config.pluginmanager.import_plugin("accelerator_conformance.session")
