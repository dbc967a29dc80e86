# Compiles for aarch64 on a machine with another processor, with Debian's cross compiler. `make cross` uses it.
# LITERALINCLUDE START: build-cross
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# LITERALINCLUDE END: build-cross
