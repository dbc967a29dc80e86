// Reserves the device ranges and their backing with one mmap.
#include "address_space.h"

#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "error.h"

namespace openreg::driver {
namespace {

// Advises the host about backing memory. A forked child may not use the device, so it needs neither the pages nor the
// time to share them; and a core dump would otherwise contain all device memory. Huge pages make the first touch
// several times cheaper; a kernel without them refuses, which costs only speed.
bool advise_backing(void* backing, size_t bytes) {
  (void)madvise(backing, bytes, MADV_HUGEPAGE);
  return madvise(backing, bytes, MADV_DONTFORK) == 0 && madvise(backing, bytes, MADV_DONTDUMP) == 0;
}

// Advises the host about the upper half of the addresses from `start` on. If it refuses, returns false, with errno set
// and the addresses unmapped.
bool advise(void* start, size_t all_devices) {
  if (advise_backing(static_cast<std::byte*>(start) + all_devices, all_devices)) return true;
  const int reason = errno;
  munmap(start, 2 * all_devices);
  errno = reason;
  return false;
}

}  // namespace

// LITERALINCLUDE START: memory-reserve
orError_t AddressSpace::reserve(int devices, size_t memory_per_device) {
  // A power of two, so that a shift gives the device of a pointer. At least one segment of it stays unused: a kernel
  // that runs past the end of one device faults instead of writing into the next.
  const size_t stride = std::bit_ceil(memory_per_device + kSegment);
  const size_t all_devices = stride * static_cast<size_t>(devices);
  void* const start = mmap(nullptr, 2 * all_devices, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED || !advise(start, all_devices)) {
    return fail(orErrorInitialization,
                "%zu GiB of address space for %d devices of %zu MiB could not be reserved (%s); lower "
                "OPENREG_DEVICE_COUNT or OPENREG_DEVICE_MEMORY, or raise the limit (ulimit -v)",
                (2 * all_devices) >> 30, devices, memory_per_device >> 20, std::strerror(errno));
  }
  start_ = reinterpret_cast<uintptr_t>(start);
  distance_ = all_devices;
  stride_bits_ = static_cast<unsigned>(std::countr_zero(stride));
  memory_per_device_ = memory_per_device;
  return orSuccess;
}
// LITERALINCLUDE END: memory-reserve

// LITERALINCLUDE START: ipc-share-pages
orError_t AddressSpace::share(Location location, size_t bytes, int file) const {
  void* const pages = backing(location);
  if (mmap(pages, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
    return fail(orErrorMemoryAllocation, "the host could not map %zu bytes of a shared file (%s)", bytes,
                std::strerror(errno));
  }
  (void)advise_backing(pages, bytes);
  return orSuccess;
}

bool AddressSpace::unshare(Location location, size_t bytes) const noexcept {
  constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  void* const pages = backing(location);
  if (mmap(pages, bytes, PROT_READ | PROT_WRITE, kPrivate, -1, 0) == MAP_FAILED) return false;
  (void)advise_backing(pages, bytes);
  return true;
}
// LITERALINCLUDE END: ipc-share-pages

AddressSpace::~AddressSpace() {
  if (start_ != 0) munmap(reinterpret_cast<void*>(start_), 2 * distance_);
}

}  // namespace openreg::driver
