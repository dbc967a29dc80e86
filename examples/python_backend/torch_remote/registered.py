"""Registers the backend on import, for programs that take the name of a module rather than a function."""

from . import register

register()
