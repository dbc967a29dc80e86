"""The device: a process of its own. Nothing in here knows of PyTorch's device types; to it everything is on the CPU."""
