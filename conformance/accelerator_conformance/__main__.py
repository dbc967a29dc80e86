"""`python -m accelerator_conformance --device acme` is `pytest --pyargs accelerator_conformance --device acme`."""

from __future__ import annotations

import sys

import pytest

if __name__ == "__main__":
    # A project in whose folder this runs may have a --device of its own.
    own = ["-p", "accelerator_conformance.session", "--noconftest", "--pyargs", "accelerator_conformance"]
    sys.exit(pytest.main([*own, *sys.argv[1:]]))
