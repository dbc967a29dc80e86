// Device memory: the allocator behind every tensor on a device of openreg.
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

// Returns the memory that no tensor uses to the driver. Waits for the device, and so must not be called with the GIL.
OPENREG_EXPORT void empty_cache();

// Limits the memory of a device that this process may hold, as a fraction of the total, above 0 and up to 1.
OPENREG_EXPORT void set_memory_fraction(double fraction, int64_t index);
OPENREG_EXPORT double memory_fraction(int64_t index);

// A pool that no other graph has.
OPENREG_EXPORT PoolId new_pool_id();
// The pool of a graph's memory, on all devices: kept until it was released as often as it was retained.
void retain_device_pool(PoolId pool);
void release_device_pool(PoolId pool);
// Returns the cached memory of pools that no graph has any more to the driver, unless a capture is under way.
void release_abandoned_pools();
// Memory that a program writes before each replay of a graph with this pool. It comes from a pool beside that one,
// where there may be memory that kernels of the graph have written and freed, and write again in each replay.
c10::DataPtr allocate_beside(PoolId pool, size_t bytes);
// To be called when a stream's work begins to be captured, and when that has ended.
void device_capture_began();
void device_capture_ended();

// All blocks of a device, by address.
OPENREG_EXPORT std::vector<Block> memory_blocks(int64_t index);

// LITERALINCLUDE START: allocator-history-contract
// Starts recording allocations and frees, or continues with other settings.
OPENREG_EXPORT void record_memory_history(const HistorySettings& settings);
// Stops recording, and discards the history.
OPENREG_EXPORT void stop_memory_history();
// The blocks of a device, and its history up to the same moment: the last entry is that of the snapshot.
OPENREG_EXPORT std::vector<Block> memory_blocks_and_history(int64_t index, HistoryCopy* history);

// The block in use at the address, with the streams that were recorded for it; nothing for any other address.
OPENREG_EXPORT std::optional<Block> memory_block(uint64_t address);
// LITERALINCLUDE END: allocator-history-contract

}  // namespace openreg
