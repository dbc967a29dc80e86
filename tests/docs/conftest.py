"""The small repository of the weaver's tests, with the directives of this guide."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.weaver.conftest import CONF, Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository that builds without a fault."""
    repository = Repository(tmp_path)
    repository.write(
        "docs/source/conf.py",
        CONF
        + 'extensions += ["docs._ext.conformance_poster", "docs._ext.trace_picture", "docs._ext.markdown_twins"]\n',
    )
    return repository
