// Events that order the streams of several processes, over openreg_ipc.h. PyTorch's torch.Event is of one process: it
// has no interface through which a backend could export it.
#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <string>

#include "driver/openreg.h"
#include "runtime/export.h"

namespace openreg {

// LITERALINCLUDE START: interprocess-event-class
class OPENREG_EXPORT InterprocessEvent final {
 public:
  // Creates an event of the device.
  // Throws: when the driver cannot share events.
  explicit InterprocessEvent(int64_t index);
  // Opens the event of another process, which must not have destroyed it.
  InterprocessEvent(int64_t index, const std::string& handle);
  ~InterprocessEvent();
  InterprocessEvent(const InterprocessEvent&) = delete;
  InterprocessEvent& operator=(const InterprocessEvent&) = delete;

  c10::Device device() const { return device_; }
  std::string handle() const;

  void record(const c10::Stream& stream);
  // Records behind everything that is queued on the streams of the backend. Returns false if all are idle.
  bool record_behind_all_streams();
  // Makes the stream wait for the last record of any process, and not the host.
  void block(const c10::Stream& stream) const;
  bool query() const;
  void synchronize() const;

 private:
  void check_device(const c10::Stream& stream) const;

  c10::Device device_;
  orEvent_t event_ = nullptr;
};
// LITERALINCLUDE END: interprocess-event-class

}  // namespace openreg
