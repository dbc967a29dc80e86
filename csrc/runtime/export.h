// Marks what the bindings call. Everything else stays inside libtorch_openreg, so that no name of it can clash with
// one of another library in the same process.
#pragma once

// LITERALINCLUDE START: build-export
#define OPENREG_EXPORT __attribute__((visibility("default")))
// LITERALINCLUDE END: build-export
