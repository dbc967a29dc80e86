// Launches a function of the device's language on the current stream, with C++ arguments.
#pragma once

#include <ATen/core/TensorBody.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "native/module_cache.h"
#include "runtime/driver_call.h"
#include "runtime/error.h"
#include "runtime/stream.h"

namespace openreg::native {

// LITERALINCLUDE START: native-launch-arguments
// Local memory: this many bytes for each group.
struct Local {
  size_t bytes;
};

// A number whose type is known only at run time: that of compute_t, or of an element.
struct Number {
  alignas(16) std::array<std::byte, 16> value{};
  size_t bytes = 0;
};

// Converts an argument of a function. Tensors and pointers become device addresses, anything else is copied byte by
// byte. The driver checks the number and sizes of arguments, so a struct that differs between host and device is an
// error, not a wrong result.
inline orArgument argument_of(const at::Tensor& tensor) {
  return {orArgumentPointer, sizeof(void*), tensor.const_data_ptr()};
}
inline orArgument argument_of(const void* address) { return {orArgumentPointer, sizeof(void*), address}; }
inline orArgument argument_of(std::nullptr_t) { return {orArgumentPointer, sizeof(void*), nullptr}; }
inline orArgument argument_of(const Local& local) { return {orArgumentLocal, local.bytes, nullptr}; }
inline orArgument argument_of(const Number& number) { return {orArgumentValue, number.bytes, number.value.data()}; }
template <class Value>
  requires(std::is_trivially_copyable_v<Value> && !std::is_pointer_v<Value>)
orArgument argument_of(const Value& value) {
  return {orArgumentValue, sizeof(Value), &value};
}
// LITERALINCLUDE END: native-launch-arguments

// LITERALINCLUDE START: native-launch-function
// Queues the function on the calling thread's current stream of the device, and returns. Nothing holds the tensors: the
// allocator reuses their memory in stream order, after the launch has read and written it.
template <class... Arguments>
void launch_function(c10::DeviceIndex device, const Function& function, const orLaunchConfig& config,
                     const Arguments&... arguments) {
  const std::array<orArgument, sizeof...(Arguments)> list{argument_of(arguments)...};
  const DriverCall call("orLaunchFunction");
  check(orLaunchFunction(function.handle, &config, list.data(), list.size(), current_stream_handle(device)));
}
// LITERALINCLUDE END: native-launch-function

// LITERALINCLUDE START: native-launch-size
// The group size for one-dimensional work: a power of two, as reductions need it, within the function's limits.
inline unsigned group_size_for(const Function& function, int64_t items) {
  constexpr size_t kMost = 256;
  const size_t most = std::bit_floor(std::min(function.attributes.max_group_size, kMost));
  const size_t needed = std::bit_ceil(static_cast<size_t>(std::max<int64_t>(items, 1)));
  const size_t least = std::min(std::bit_ceil(std::max<size_t>(function.attributes.group_size_multiple, 1)), most);
  return static_cast<unsigned>(std::clamp(needed, least, most));
}

// The groups for `items` of work: each work-item does one or, if there are very many, several.
inline orLaunchConfig config_for(const Function& function, int64_t items) {
  constexpr int64_t kMostGroups = 65535;
  const unsigned size = group_size_for(function, items);
  const int64_t groups = std::clamp<int64_t>((items + size - 1) / size, 1, kMostGroups);
  return {{static_cast<unsigned>(groups), 1, 1}, {size, 1, 1}};
}
// LITERALINCLUDE END: native-launch-size

}  // namespace openreg::native
