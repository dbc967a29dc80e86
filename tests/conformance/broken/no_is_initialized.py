"""A device module without is_initialized, which torch.compile calls before it creates a fake tensor."""

import torch

module = torch.get_device_module("openreg")
module._initialized = True  # which this module would otherwise get from is_initialized
del module.is_initialized
