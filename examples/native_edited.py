"""An edited kernel, one that does not compile, and what the cache on disk keeps."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import torch

import torch_openreg

with tempfile.TemporaryDirectory() as folder:
    sources = Path(shutil.copytree(Path(torch_openreg._C.__file__).parent / "native", f"{folder}/native"))
    cache = Path(folder) / "cache"
    # Both are read when the first kernel is needed.
    os.environ |= {"OPENREG_NATIVE_SOURCES": str(sources), "OPENREG_CACHE_DIR": str(cache)}
    abs_source, mul_source = sources / "loops" / "abs.cl", sources / "loops" / "mul.cl"
    abs_source.write_text(abs_source.read_text().replace("return fabs(x);", "return fabs(x) + 100;"))
    mul_source.write_text(mul_source.read_text().replace("(wrap_t)a * (wrap_t)b", "(wrap_t)a * (wrap_t)c"))

    x = torch.tensor([-1.5, 2.0], device="openreg")
    print(x.abs().tolist())
    print([re.sub("-[0-9a-f]{40}", "-...", file.name) for file in cache.iterdir()])
    try:
        x * x
    except RuntimeError as error:
        where = re.search(r"mul\.cl:\d+", str(error))
        print(str(error).split(":")[0], where and where[0])
