"""`python -m accelerator_conformance --device acme` is `pytest --pyargs accelerator_conformance --device acme`."""

from __future__ import annotations

import sys

import pytest

if __name__ == "__main__":
    own = ["-p", "accelerator_conformance.session", "--pyargs", "accelerator_conformance"]
    sys.exit(pytest.main([*own, *sys.argv[1:]]))
