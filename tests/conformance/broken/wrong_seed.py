"""A device module whose manual_seed_all does nothing, so that torch.manual_seed does not reach the device."""

import torch

torch.get_device_module("openreg").manual_seed_all = lambda seed: None
