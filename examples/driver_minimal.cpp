// The minimal driver (csrc/driver/minimal) as one program text, and less of it: one group of functions after the other.
// STEP says how many groups there are.
#include "driver/config.cpp"
#include "driver/error.cpp"
#include "driver/minimal/device.cpp"
#include "driver/minimal/driver.cpp"
#if STEP > 1
#include "driver/minimal/copy.cpp"
#include "driver/minimal/memory.cpp"
#endif
#if STEP > 2
#include "driver/minimal/event.cpp"
#include "driver/minimal/stream.cpp"
#endif
#if STEP > 3
#include "driver/minimal/kernel.cpp"
#endif
