// Reads OPENREG_DEVICE_COUNT, OPENREG_DEVICE_MEMORY and OPENREG_LAUNCH, and rejects invalid values: a mistyped variable
// that is silently ignored costs hours of debugging.
#include "config.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "error.h"

namespace openreg::driver {
namespace {

constexpr uint64_t kMaxDevices = 16;
constexpr uint64_t kMinMemory = uint64_t{32} << 20;
constexpr uint64_t kMaxMemory = uint64_t{1} << 40;
constexpr uint64_t kMemoryGranularity = uint64_t{2} << 20;

// LITERALINCLUDE START: config-number
// Parses a decimal number that may end in one of the suffixes; 0 if the text is not a number, or it does not fit.
uint64_t parse_number(std::string_view text, std::string_view suffixes) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{}) return 0;
  if (rest == end) return number;
  const size_t suffix = rest + 1 == end ? suffixes.find(*rest) : std::string_view::npos;
  if (suffix == std::string_view::npos) return 0;
  const auto shift = static_cast<unsigned>(10 * (suffix + 1));
  return number <= (UINT64_MAX >> shift) ? number << shift : 0;
}
// LITERALINCLUDE END: config-number

// LITERALINCLUDE START: config-count
orError_t read_device_count(int* count) {
  const char* text = std::getenv("OPENREG_DEVICE_COUNT");
  if (text == nullptr) return orSuccess;
  const uint64_t number = parse_number(text, "");
  if (number < 1 || number > kMaxDevices) {
    return fail(orErrorInitialization, "OPENREG_DEVICE_COUNT is '%s'; valid is a number from 1 to 16", text);
  }
  *count = static_cast<int>(number);
  return orSuccess;
}
// LITERALINCLUDE END: config-count

// LITERALINCLUDE START: config-memory
orError_t read_device_memory(size_t* memory) {
  const char* text = std::getenv("OPENREG_DEVICE_MEMORY");
  if (text == nullptr) return orSuccess;
  const uint64_t number = parse_number(text, "KMG");
  if (number < kMinMemory || number > kMaxMemory) {
    return fail(orErrorInitialization,
                "OPENREG_DEVICE_MEMORY is '%s'; valid is a number of bytes from 32M to 1024G, with or without one of "
                "the suffixes K, M and G",
                text);
  }
  *memory = (number + kMemoryGranularity - 1) / kMemoryGranularity * kMemoryGranularity;
  return orSuccess;
}
// LITERALINCLUDE END: config-memory

// LITERALINCLUDE START: config-launch
orError_t read_launch_mode(LaunchMode* launch) {
  const char* text = std::getenv("OPENREG_LAUNCH");
  if (text == nullptr) return orSuccess;
  const std::string_view name(text);
  if (name == "auto") {
    *launch = LaunchMode::kAuto;
  } else if (name == "async") {
    *launch = LaunchMode::kAsync;
  } else if (name == "inline") {
    *launch = LaunchMode::kInline;
  } else {
    return fail(orErrorInitialization, "OPENREG_LAUNCH is '%s'; valid are auto, async and inline", text);
  }
  return orSuccess;
}

}  // namespace

orError_t read_config(Config* config) {
  if (const orError_t error = read_device_count(&config->device_count)) return error;
  if (const orError_t error = read_device_memory(&config->device_memory)) return error;
  return read_launch_mode(&config->launch);
}
// LITERALINCLUDE END: config-launch

}  // namespace openreg::driver
