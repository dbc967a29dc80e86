// What only some of the supported releases of PyTorch declare is compiled for these alone.
#pragma once

#include <torch/headeronly/version.h>

// LITERALINCLUDE START: torch-at-least
// Whether the PyTorch that is built against is this release or a later one. For a virtual function that a release
// added: an override is an error before it, and without one the default of PyTorch answers.
#define OPENREG_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))
// LITERALINCLUDE END: torch-at-least
