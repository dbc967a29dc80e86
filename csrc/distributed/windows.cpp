// The set-up of windows: the ranks tell each other the handles of their memory, and agree whether all could be opened.
// Called on the thread of the first operation that needs them.
#include "distributed/windows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "distributed/staging.h"
#include "runtime/shared_memory.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

at::Tensor window_over(const c10::Storage& storage) {
  const at::Tensor window = at::empty({0}, at::TensorOptions(at::kByte).device(storage.device()));
  window.set_(storage);
  return window.view({2, Windows::kBytes});
}

// LITERALINCLUDE START: distributed-windows-message
// What a rank tells the others of its window: the device, the length of the handle, the handle.
at::Tensor message_of(const std::string& handle, c10::DeviceIndex device) {
  const at::Tensor message = at::zeros({128}, at::kByte);
  TORCH_INTERNAL_ASSERT(handle.size() + 2 <= 128);
  auto* const bytes = message.mutable_data_ptr<uint8_t>();
  bytes[0] = static_cast<uint8_t>(device);
  bytes[1] = static_cast<uint8_t>(handle.size());
  std::memcpy(bytes + 2, handle.data(), handle.size());
  return message;
}

at::Tensor open_window(const at::Tensor& message, int rank) {
  const auto* const bytes = message.const_data_ptr<uint8_t>();
  TORCH_CHECK(bytes[1] > 0, "rank ", rank, " has none");
  const std::string handle(reinterpret_cast<const char*>(bytes + 2), bytes[1]);
  return window_over(open_storage(handle, 2 * Windows::kBytes, bytes[0]));
}

// The messages of all ranks, one in each row.
at::Tensor from_all(c10d::Backend& control, at::Tensor message, std::chrono::milliseconds timeout) {
  at::Tensor all = at::empty({control.getSize() * message.numel()}, message.options());
  control._allgather_base(all, message, {timeout})->wait();
  return all.view({control.getSize(), message.numel()});
}
// LITERALINCLUDE END: distributed-windows-message

}  // namespace

// LITERALINCLUDE START: distributed-windows-open
std::unique_ptr<Windows> Windows::open(c10d::Backend& control, c10::Device device, std::chrono::milliseconds timeout) {
  std::unique_ptr<Windows> made(new Windows());
  std::string failure;
  const auto attempt = [&failure](const auto& step) {
    try {
      if (failure.empty()) step();
    } catch (const c10::Error& error) {
      failure = error.what_without_backtrace();
    }
  };
  // A rank that fails still takes part, so that the others do not wait for it.
  at::Tensor own;
  at::Tensor message = message_of("", device.index());
  attempt([&] {
    const c10::Storage storage = new_shared_storage(2 * kBytes, device);
    own = window_over(storage);
    message = message_of(export_storage(storage), device.index());
  });
  const at::Tensor messages = from_all(control, message, timeout);
  attempt([&] {
    for (int rank = 0; rank < control.getSize(); ++rank) {
      const at::Tensor window = rank == control.getRank() ? own : open_window(messages[rank], rank);
      made->windows_.push_back(window);
      made->use(window.device());
    }
  });
  if (!failure.empty()) {
    TORCH_WARN("collectives go through host memory: rank ", control.getRank(),
               " cannot share device memory with the others (", failure, ")");
  }
  const at::Tensor outcomes = from_all(control, at::full({1}, failure.empty() ? 1 : 0, at::kByte), timeout);
  return outcomes.all().item<bool>() ? std::move(made) : nullptr;
}
// LITERALINCLUDE END: distributed-windows-open

at::Tensor Windows::of(int rank, int64_t numel, at::ScalarType dtype) const {
  const auto bytes = numel * static_cast<int64_t>(c10::elementSize(dtype));
  return windows_[rank].select(0, half_).narrow(0, 0, bytes).view(dtype);
}

void Windows::use(c10::Device device) {
  const auto is_there = [device](const c10::Stream& stream) { return stream.device() == device; };
  if (std::none_of(streams_.begin(), streams_.end(), is_there)) {
    streams_.push_back(stream_from_pool(device.index(), kHighPriority));
  }
}

}  // namespace openreg
