"""Shared by the tests of the profiler."""

from __future__ import annotations

import os

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise each profile reports its own start on stderr
