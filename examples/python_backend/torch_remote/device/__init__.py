"""The device: a process of its own. Its code uses none of PyTorch's device types; to it, everything is on the CPU."""
