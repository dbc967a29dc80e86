"""An error with its C++ stack; run with TORCH_SHOW_CPP_STACKTRACES=1 and TORCH_DISABLE_ADDR2LINE=1 in the environment.

Prints the message, the place that raised it, and the libraries that the stack goes through, the innermost first.
"""

from __future__ import annotations

import re
from itertools import groupby

import torch

try:
    torch._convert_weight_to_int4pack(torch.ones(1, 2, device="openreg"), 2)
except NotImplementedError as error:
    message, *stack = str(error).splitlines()
    print(message)
    print(*[line for line in stack if line.startswith("Exception raised from")], sep="\n")
    libraries = re.findall(r" from \S+/(lib(?:c10|torch)\w*\.so)", "\n".join(stack))
    print("called through", ", ".join(library for library, _ in groupby(libraries)))
