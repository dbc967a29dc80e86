"""`python -m accelerator_conformance --device acme` is `pytest --pyargs accelerator_conformance --device acme`."""

from __future__ import annotations

import os
import sys

import pytest

if __name__ == "__main__":
    # A project in whose folder this runs may have a --device of its own, and may make errors of warnings.
    without = ["-c", os.devnull, "--rootdir=.", "--noconftest", "-p", "no:cacheprovider"]
    # Where the kit is installed, pytest finds it imported already, by this file.
    kit = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "accelerator_conformance.session"]
    sys.exit(pytest.main([*without, *kit, "--pyargs", "accelerator_conformance", *sys.argv[1:]]))
