// Marks the symbols that the bindings call. All others stay hidden inside libtorch_openreg, so that none can clash with
// a symbol of another library in the same process.
#pragma once

// LITERALINCLUDE START: build-export
#define OPENREG_EXPORT __attribute__((visibility("default")))
// LITERALINCLUDE END: build-export
