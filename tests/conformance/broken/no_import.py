"""A backend that ends the process while it is imported."""

import os

import torch

assert torch.__version__
os.abort()
