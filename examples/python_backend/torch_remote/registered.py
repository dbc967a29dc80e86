"""Registers the backend when it is imported: for programs that take the name of a module, and no function."""

from . import register

register()
