"""Lets a failed assertion of the checks show both sides, as one of a test does."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.models.checks")
