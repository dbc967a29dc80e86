#!/usr/bin/env bash
# The standalone installation, as shown on the build page, into the active environment, which must have PyTorch 2.13 and
# the build packages.
set -euo pipefail

pip install --no-build-isolation .
# In the repository, Python would import the sources, which are not built.
cd ..
python -c 'import torch; print(torch.ones(2, device="openreg"))'
