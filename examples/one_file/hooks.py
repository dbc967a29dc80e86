"""Calls the device's guard and hooks, and resizes a tensor."""

import tiny  # makes the device
import torch

# LITERALINCLUDE START: one-file-questions
torch.accelerator.synchronize()
print(torch._C._get_accelerator(), torch.accelerator.device_count())

x = torch.ones(2, device="tiny")
x.untyped_storage().resize_(16)
print(x.untyped_storage().nbytes(), x.tolist())
print(x.resize_(1, 2, 1, 2, memory_format=torch.channels_last).stride())
# LITERALINCLUDE END: one-file-questions
