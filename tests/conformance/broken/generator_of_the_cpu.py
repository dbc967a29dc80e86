"""A generator that forgets its device when it is cloned, and its place when it is sent back."""

import torch


class Forgetful(torch.Generator):
    def clone_state(self) -> torch.Generator:
        return torch.Generator("cpu")

    def set_offset(self, offset: int) -> torch.Generator:
        return self


torch.Generator = Forgetful  # type: ignore[misc]
