"""Loads a file in a process of its own, and prints where its tensors are, or why they cannot be loaded.

python examples/serialization_load.py FILE [--map-location DEVICE] [--rename-only]
"""

from __future__ import annotations

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("file")
parser.add_argument("--map-location")
parser.add_argument("--rename-only", action="store_true", help="give PrivateUse1 its name, but no device module")
arguments = parser.parse_args()
if arguments.rename_only:
    torch.utils.rename_privateuse1_backend("openreg")
try:
    loaded = torch.load(arguments.file, map_location=arguments.map_location)
except RuntimeError as error:
    print(error)
else:
    print({name: (tensor.tolist(), str(tensor.device)) for name, tensor in loaded.items()})
