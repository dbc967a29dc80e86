"""Hangs at import in the processes that checks start, after writing the process to the file HANGING."""

import os
import sys
import threading
from pathlib import Path

if "accelerator_conformance" not in sys.modules:
    Path(os.environ["HANGING"]).write_text(f"{os.getpid()}\n", encoding="utf-8")
    threading.Event().wait()
