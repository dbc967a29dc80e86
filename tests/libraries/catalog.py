"""All programs, by library."""

from __future__ import annotations

from importlib import metadata

from tests.libraries import (
    accelerate_programs,
    adapter_programs,
    lightning_programs,
    other_programs,
    transformers_programs,
    vision_programs,
    vllm_programs,
)

PROGRAMS = [
    *adapter_programs.PROGRAMS,
    *accelerate_programs.PROGRAMS,
    *transformers_programs.PROGRAMS,
    *lightning_programs.PROGRAMS,
    *other_programs.PROGRAMS,
    *vision_programs.PROGRAMS,
    *vllm_programs.PROGRAMS,
]


def installed(library: str) -> str:
    """The version of a library; empty if it is missing."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return ""
