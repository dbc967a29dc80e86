"""Counts the copies that the fallback makes for one linear layer, forward and backward."""

import tiny  # makes the device
import torch
from torch.profiler import ProfilerActivity, profile

# LITERALINCLUDE START: one-file-transfers
layer, inputs = torch.nn.Linear(4, 1).to("tiny"), torch.randn(64, 4, device="tiny")
with profile(activities=[ProfilerActivity.CPU]) as recorded:
    layer(inputs).square().mean().backward()
copies = [event for event in recorded.events() if event.name in ("aten::_copy_from", "aten::_copy_from_and_resize")]
print(len(copies), "copies")
# LITERALINCLUDE END: one-file-transfers
