// Device memory: the allocator behind every tensor on an openreg device.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/block_pool.h"
#include "runtime/export.h"
#include "runtime/memory_history.h"

namespace openreg {

// The allocator that is registered for PrivateUse1. Never destroyed, since tensors may outlive static destruction.
c10::DeviceAllocator& allocator();

// Bounds what this process may hold of a device's memory, as a fraction of all of it, over 0 and up to 1.
OPENREG_EXPORT void set_memory_fraction(double fraction, int64_t index);

// All blocks of a device, by address.
OPENREG_EXPORT std::vector<Block> memory_blocks(int64_t index);

// LITERALINCLUDE START: allocator-history-contract
// Begins to record what is allocated and freed, or goes on with other settings.
OPENREG_EXPORT void record_memory_history(const HistorySettings& settings);
// Ends the record, and forgets it.
OPENREG_EXPORT void stop_memory_history();
// The blocks of a device, and what was recorded until the same moment: the last entry is that of the snapshot.
OPENREG_EXPORT std::vector<Block> memory_blocks_and_history(int64_t index, HistoryCopy* history);

// The block in use at the address, with the streams that were recorded for it; nothing for any other address.
OPENREG_EXPORT std::optional<Block> memory_block(uint64_t address);
// LITERALINCLUDE END: allocator-history-contract

}  // namespace openreg
