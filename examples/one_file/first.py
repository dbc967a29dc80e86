"""First tensors on the device of tiny.py and device.cpp, and a gradient."""

# LITERALINCLUDE START: one-file-first
import tiny  # makes the device
import torch

x = torch.ones(2, device="tiny") + 1
print(x)

weight = torch.randn(3, 2, device="tiny", requires_grad=True)
(weight @ x).sum().backward()
print(weight.grad)

print(x.device, x.is_tiny, torch.accelerator.current_accelerator())
# LITERALINCLUDE END: one-file-first
