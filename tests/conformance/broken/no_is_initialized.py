"""A device module without is_initialized, which torch.compile asks before it makes a tensor that has no memory."""

import torch

module = torch.get_device_module("openreg")
module._initialized = True  # which this module would ask is_initialized for
del module.is_initialized
