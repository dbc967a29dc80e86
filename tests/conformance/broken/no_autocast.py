"""A device module without get_amp_supported_dtype, without which torch.autocast refuses the device."""

import torch

del torch.get_device_module("openreg").get_amp_supported_dtype
