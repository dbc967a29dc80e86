"""What the package changes of PyTorch's process groups when it is loaded: which backend is the default of a group."""

from __future__ import annotations

import pytest
import torch

from torch_openreg import _distributed


@pytest.mark.parametrize("name", ["_register_backend", "_device_types", "_set_default_backend", "name"])
def test_a_release_that_lacks_a_function_is_an_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.distributed.ProcessGroup, name)
    expected = (
        rf"^openreg: ProcessGroup\.{name} of torch .* is missing, and the backend replaces "
        r"ProcessGroup\._register_backend; see torch_openreg/_distributed\.py$"
    )
    with pytest.raises(RuntimeError, match=expected):
        _distributed._complete_groups.__wrapped__()


def test_the_function_is_replaced_once() -> None:
    group_class = torch.distributed.ProcessGroup
    replaced = group_class._register_backend
    _distributed._complete_groups()
    assert group_class._register_backend is replaced
    assert not hasattr(replaced.__wrapped__, "__wrapped__")
