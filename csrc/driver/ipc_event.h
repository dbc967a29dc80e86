// What event.cpp calls for an event that several processes share.
#pragma once

#include <cstdint>
#include <memory>

#include "driver.h"
#include "shared_event.h"

namespace openreg::driver {

orError_t record_shared(const StreamRef& ref, const std::shared_ptr<SharedEvent>& shared);
// Whether the record has passed. An error if it never will, since its process has ended.
orError_t query_shared(const SharedEvent& shared, uint64_t record);
// The host waits, or the stream.
orError_t synchronize_shared(Device& device, const SharedEvent& shared, uint64_t record);
orError_t wait_for_shared(const StreamRef& ref, const std::shared_ptr<SharedEvent>& shared, uint64_t record);

}  // namespace openreg::driver
