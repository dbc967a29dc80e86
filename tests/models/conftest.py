"""Makes a failed assertion in checks.py show both sides, as one in a test does."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.models.checks")
