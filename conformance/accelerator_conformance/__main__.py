"""`python -m accelerator_conformance --device acme` is `pytest --pyargs accelerator_conformance --device acme`."""

from __future__ import annotations

import os
import sys

import pytest

if __name__ == "__main__":
    # The project in the current folder may have its own --device, and may turn warnings into errors.
    without = ["-c", os.devnull, "--rootdir=.", "--noconftest", "-p", "no:cacheprovider"]
    # If the kit is installed, pytest would warn that this file has already imported it.
    kit = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "accelerator_conformance.session"]
    sys.exit(pytest.main([*without, *kit, "--pyargs", "accelerator_conformance", *sys.argv[1:]]))
