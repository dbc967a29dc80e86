"""Finds the machine's Chromium, for the commands that check pages or print them."""

from __future__ import annotations

import shutil

from environment import Fault

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def find_browser(command: str) -> str:
    """The path of the browser. Throws: ``Fault``, if there is none."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise Fault(f"{command}: Chromium is needed, found none on PATH; install it: apt-get install chromium")
    return found
