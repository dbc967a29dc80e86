// Copies and fills: every byte, none beside it, and when.
#include <cstring>
#include <string>

#include "check.h"

namespace conformance {
namespace {

// Around the page, the staging buffer and the limits of small work.
constexpr size_t kSizes[] = {1, 3, 511, 512, 4097, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (5 << 20) + 3};
constexpr size_t kSmall = 4096;
constexpr size_t kLarge = 4 << 20;

void every_byte_arrives() {
  for (const size_t bytes : kSizes) {
    std::byte* const device = device_memory(bytes);
    const auto sent = pattern(bytes, static_cast<unsigned>(bytes));
    upload(device, std::vector<std::byte>(bytes, std::byte{0}));
    upload(device, sent);
    expect_bytes(sent, download(device, bytes), "what orMemcpy brought to the device and back");
    ok(driver.orFree(device));
  }
}

void every_byte_arrives_queued() {
  orStream_t stream = new_stream();
  for (const size_t bytes : kSizes) {
    std::byte* const device = device_memory(bytes);
    const auto sent = pattern(bytes, static_cast<unsigned>(bytes));
    std::vector<std::byte> received(bytes);
    upload(device, std::vector<std::byte>(bytes, std::byte{0}));
    ok(driver.orMemcpyAsync(device, sent.data(), bytes, orMemcpyHostToDevice, stream));
    ok(driver.orMemcpyAsync(received.data(), device, bytes, orMemcpyDeviceToHost, stream));
    ok(driver.orStreamSynchronize(stream));
    expect_bytes(sent, received, "what orMemcpyAsync brought to the device and back");
    ok(driver.orFree(device));
  }
}

void no_byte_beside() {
  std::byte* const device = device_memory(kSmall);
  const auto background = pattern(kSmall, 1);
  const auto piece = pattern(100, 99);
  upload(device, background);
  ok(driver.orMemcpy(device + 1001, piece.data(), piece.size(), orMemcpyHostToDevice));
  auto expected = background;
  std::memcpy(expected.data() + 1001, piece.data(), piece.size());
  expect_bytes(expected, download(device, kSmall), "memory of which 100 bytes in the middle were written");
  std::vector<std::byte> received = pattern(300, 50);
  expected = received;
  std::memcpy(expected.data() + 100, piece.data(), piece.size());
  ok(driver.orMemcpy(received.data() + 100, device + 1001, piece.size(), orMemcpyDeviceToHost));
  expect_bytes(expected, received, "host memory of which 100 bytes in the middle were written");
}

void within_a_device() {
  for (const size_t bytes : kSizes) {
    std::byte* const from = device_memory(bytes);
    std::byte* const to = device_memory(bytes);
    const auto sent = pattern(bytes, 9);
    upload(from, sent);
    upload(to, std::vector<std::byte>(bytes, std::byte{0}));
    ok(driver.orMemcpyAsync(to, from, bytes, orMemcpyDeviceToDevice, nullptr));
    expect_bytes(sent, download(to, bytes), "a copy within the device");
    ok(driver.orFree(from));
    ok(driver.orFree(to));
  }
}

void between_devices() {
  need_two_devices();
  const auto sent = pattern(kLarge + 1, 3);
  std::byte* const from = device_memory(sent.size());
  ok(driver.orSetDevice(1));
  std::byte* const to = device_memory(sent.size());
  ok(driver.orSetDevice(0));
  upload(from, sent);
  upload(to, std::vector<std::byte>(sent.size(), std::byte{0}));
  offered(driver.orMemcpyAsync(to, from, sent.size(), orMemcpyDeviceToDevice, default_stream(0)),
          "copies from device to device");
  ok(driver.orStreamSynchronize(default_stream(0)));
  expect_bytes(sent, download(to, sent.size()), "a copy to another device");
}

void host_to_host() {
  const auto sent = pattern(kSmall, 4);
  std::vector<std::byte> received(kSmall);
  ok(driver.orMemcpy(received.data(), sent.data(), kSmall, orMemcpyHostToHost));
  expect_bytes(sent, received, "a copy within the host");
}

void default_kind() {
  const auto sent = pattern(kSmall, 6);
  std::vector<std::byte> received(kSmall);
  std::byte* const device = device_memory(kSmall);
  ok(driver.orMemcpy(device, sent.data(), kSmall, orMemcpyDefault));
  ok(driver.orMemcpy(received.data(), device, kSmall, orMemcpyDefault));
  expect_bytes(sent, received, "two copies of kind orMemcpyDefault");
}

void wrong_kind_is_refused() {
  std::byte host[16] = {};
  std::byte* const device = device_memory(sizeof(host));
  const size_t bytes = sizeof(host);
  refused(orErrorInvalidMemcpyKind, driver.orMemcpy(device, host, bytes, orMemcpyDeviceToHost),
          "host and device swapped");
  refused(orErrorInvalidMemcpyKind, driver.orMemcpy(host, host, bytes, orMemcpyDeviceToDevice), "host memory alone");
  refused(orErrorInvalidMemcpyKind, driver.orMemcpy(device, host, bytes, static_cast<orMemcpyKind>(7)), "kind 7");
}

void overrun_is_refused() {
  const auto background = pattern(1000, 8);
  std::vector<std::byte> host(2000);
  std::byte* const device = device_memory(1000);
  upload(device, background);
  refused(orErrorOutOfRange, driver.orMemcpy(device, host.data(), 1001, orMemcpyHostToDevice), "1001 bytes for 1000");
  refused(orErrorOutOfRange, driver.orMemcpyAsync(device + 999, host.data(), 2, orMemcpyHostToDevice, nullptr),
          "2 bytes at the last of 1000");
  refused(orErrorOutOfRange, driver.orMemcpy(host.data(), device, SIZE_MAX, orMemcpyDeviceToHost), "SIZE_MAX bytes");
  refused(orErrorOutOfRange, driver.orMemset(device, 0, 1001), "1001 bytes for 1000");
  expect_bytes(background, download(device, 1000), "memory after calls that were refused");
}

void nothing_is_copied() {
  std::byte* const device = device_memory(16);
  std::byte byte{};
  ok(driver.orMemcpy(device, &byte, 0, orMemcpyHostToDevice));
  ok(driver.orMemcpyAsync(nullptr, nullptr, 0, orMemcpyHostToDevice, nullptr));
  ok(driver.orMemsetAsync(nullptr, 0, 0, nullptr));
}

void fills() {
  for (const bool queued : {false, true}) {
    std::byte* const device = device_memory(kSmall);
    auto expected = pattern(kSmall, 2);
    upload(device, expected);
    std::memset(expected.data() + 3, 0xa5, 1000);
    if (queued) {
      ok(driver.orMemsetAsync(device + 3, 0x1a5, 1000, nullptr));  // of the value the last byte counts, as for memset
      ok(driver.orStreamSynchronize(default_stream(0)));
    } else {
      ok(driver.orMemset(device + 3, 0x1a5, 1000));
    }
    expect_bytes(expected, download(device, kSmall), "memory of which 1000 bytes in the middle were filled");
  }
}

void pageable_source_is_read_at_once() {
  for (const size_t bytes : {kSmall, kLarge}) {
    orStream_t stream = new_stream();
    std::byte* const device = device_memory(bytes);
    const auto sent = pattern(bytes, 21);
    auto source = sent;
    const Busy busy(stream);
    ok(driver.orMemcpyAsync(device, source.data(), bytes, orMemcpyHostToDevice, stream));
    std::fill(source.begin(), source.end(), std::byte{0xee});
    ok(driver.orStreamSynchronize(stream));
    expect_bytes(sent, download(device, bytes), "a copy whose source was overwritten after the call");
  }
}

void pageable_target_is_there_on_return() {
  for (const size_t bytes : {kSmall, kLarge}) {
    orStream_t stream = new_stream();
    std::byte* const device = device_memory(bytes);
    const auto sent = pattern(bytes, 22);
    upload(device, sent);
    std::vector<std::byte> received(bytes);
    const Busy busy(stream);
    ok(driver.orMemcpyAsync(received.data(), device, bytes, orMemcpyDeviceToHost, stream));
    busy.must_be_over("orMemcpyAsync to pageable memory returned");
    expect_bytes(sent, received, "a copy to pageable memory, when the call returned");
  }
}

void pinned_copies_come_in_order() {
  orStream_t stream = new_stream();
  std::byte* const device = device_memory(kLarge);
  auto* const from = static_cast<std::byte*>(pinned(kLarge));
  auto* const to = static_cast<std::byte*>(pinned(kLarge));
  const auto sent = pattern(kLarge, 31);
  std::memcpy(from, sent.data(), kLarge);
  std::byte* const before = device_memory(kLarge);
  const auto old = pattern(kLarge, 7);
  upload(device, old);
  const Busy busy(stream);
  ok(driver.orMemcpyAsync(before, device, kLarge, orMemcpyDeviceToDevice, stream));
  ok(driver.orMemcpyAsync(device, from, kLarge, orMemcpyHostToDevice, stream));
  ok(driver.orMemcpyAsync(to, device, kLarge, orMemcpyDeviceToHost, stream));
  ok(driver.orMemsetAsync(device, 0, kLarge, stream));
  ok(driver.orStreamSynchronize(stream));
  expect_bytes(old, download(before, kLarge), "a copy whose source was written from pinned memory after it");
  expect_bytes(sent, std::vector<std::byte>(to, to + kLarge),
               "two copies from and to pinned memory, one after the other");
}

void pinned_copies_do_not_wait() {
  orStream_t stream = new_stream();
  std::byte* const device = device_memory(kLarge);
  void* const host = pinned(kLarge);
  const Busy busy(stream);
  busy.need_asynchronous("orLaunchKernel");
  ok(driver.orMemcpyAsync(device, host, kLarge, orMemcpyHostToDevice, stream));
  busy.need_asynchronous("orMemcpyAsync from pinned memory");
}

void waits_for_the_default_stream() {
  std::byte* const device = device_memory(kSmall);
  std::byte* const from = device_memory(kSmall);
  const auto sent = pattern(kSmall, 13);
  upload(from, sent);
  const Busy busy(default_stream(0));
  ok(driver.orMemcpyAsync(device, from, kSmall, orMemcpyDeviceToDevice, default_stream(0)));
  const auto received = download(device, kSmall);
  busy.must_be_over("orMemcpy returned");
  expect_bytes(sent, received, "what orMemcpy read behind a copy on the default stream");
}

constexpr Check kChecks[] = {
    {"copies", "every byte arrives, there and back", "tensor.to(device).cpu() is the tensor", every_byte_arrives},
    {"copies", "every byte arrives, queued on a stream", "every copy of the backend is orMemcpyAsync",
     every_byte_arrives_queued},
    {"copies", "no byte beside them changes", "views: x[1:3].copy_(y) leaves the rest of x alone", no_byte_beside},
    {"copies", "within a device", "clone(), and the caching allocator's users", within_a_device},
    {"copies", "from one device to another", "tensor.to('openreg:1')", between_devices},
    {"copies", "within the host", "nothing; the call is complete with it", host_to_host},
    {"copies", "the kind can be left to the driver", "nothing; the backend names the kind", default_kind},
    {"copies", "a wrong kind is refused", "a mistake in the backend becomes an exception", wrong_kind_is_refused},
    {"copies", "what runs past the end is refused",
     "a storage that is too small is an exception, not a neighbour's bytes", overrun_is_refused},
    {"copies", "nothing can be copied", "tensors without elements", nothing_is_copied},
    {"copies", "fills write their bytes alone", "a vendor's zero_() is likely to be made of them", fills},
    {"copies", "a pageable source is read before the call returns", "a CPU tensor may die right after x.to(device)",
     pageable_source_is_read_at_once},
    {"copies", "a pageable target is written when the call returns", "x.cpu() is read at once",
     pageable_target_is_there_on_return},
    {"copies", "pinned copies come in the order of their stream", "prefetching by pin_memory and non_blocking=True",
     pinned_copies_come_in_order},
    {"copies", "a copy from pinned memory does not wait", "non_blocking=True brings something",
     pinned_copies_do_not_wait},
    {"copies", "a waiting copy comes after the default stream's work", "nothing; programs against the driver do",
     waits_for_the_default_stream},
};

}  // namespace

std::span<const Check> copy_checks() { return kChecks; }

}  // namespace conformance
