"""A list of default generators from which no operator draws."""

import torch

module = torch.get_device_module("openreg")
module.default_generators = tuple(torch.Generator(f"openreg:{index}") for index in range(module.device_count()))
module.get_rng_state = lambda device=0: module.default_generators[0].get_state()
