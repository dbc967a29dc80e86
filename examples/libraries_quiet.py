"""What the examples of libraries do first: silence."""

from __future__ import annotations

import logging
import warnings


def quiet() -> None:
    """Silences what the libraries log about a machine, and the warnings of their own dependencies."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
