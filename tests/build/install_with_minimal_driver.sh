#!/usr/bin/env bash
# On another driver: addresses that mean nothing to the host, and no work behind the caller's back.
set -euo pipefail

pip install --no-build-isolation --config-settings=cmake.define.HOST_KERNELS=OFF --config-settings=cmake.define.DRIVER=csrc/driver/minimal .
# In the repository itself Python would find the sources, which have no build.
cd ..
python -c 'import torch; print(torch.get_device_module("openreg").get_device_properties(0))'
