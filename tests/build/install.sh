#!/usr/bin/env bash
# The standalone installation, as the build page shows it, into the active environment, which has PyTorch 2.13 and the
# build packages.
set -euo pipefail

pip install --no-build-isolation .
# In the repository itself Python would find the sources, which have no build.
cd ..
python -c 'import torch; print(torch.ones(2, device="openreg"))'
