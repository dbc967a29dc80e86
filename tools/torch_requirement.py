"""The package's requirement on PyTorch. scikit-build-core calls this module: ``[[tool.dynamic-metadata]]``.

The extension works only with the series of PyTorch that it was built for, so a wheel requires that series, and pip
refuses to pair a wheel for 2.13 with PyTorch 2.15. The source archive requires any of the supported series.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prerequisites import installed_torch, torch_releases, torch_series

_SDIST = "sdist"
_state = _SDIST


def build_state(state: str) -> None:
    """Records what is being built: a source archive, or a wheel of some kind."""
    global _state
    _state = state


def dynamic_wheel(_settings: Mapping[str, Any]) -> dict[str, bool]:
    """Declares that a wheel may have other requirements than the sources."""
    return {"dependencies": True}


def dynamic_metadata(_settings: Mapping[str, Any], _project: Mapping[str, Any]) -> dict[str, list[str]]:
    """The requirement, as a part of ``[project]``."""
    version = None if _state == _SDIST else installed_torch()
    return {"dependencies": [of_wheel(version) if version else of_sources()]}


# LITERALINCLUDE START: build-torch-requirement
def of_wheel(version: str) -> str:
    """The requirement of an extension that was built against a release."""
    return f"torch=={torch_series(version)}.*"


def of_sources() -> str:
    """The requirement of sources that can be built against any of the releases."""
    series = sorted(tuple(map(int, torch_series(release).split("."))) for release in torch_releases())
    (oldest_major, oldest), (newest_major, newest) = series[0], series[-1]
    return f"torch>={oldest_major}.{oldest},<{newest_major}.{newest + 1}"


# LITERALINCLUDE END: build-torch-requirement
