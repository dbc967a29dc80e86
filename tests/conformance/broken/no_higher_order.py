"""A backend that operators which take functions do not know: autocast ends at each of them."""

import torch
from torch._ops import _higher_order_ops

for operator in _higher_order_ops.values():
    operator.non_fallthrough_keys = operator.non_fallthrough_keys.add(torch._C.DispatchKey.AutocastPrivateUse1)
