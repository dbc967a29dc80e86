// The minimal driver (csrc/driver/minimal) as one translation unit, or only its first groups of functions. STEP is the
// number of groups.
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
