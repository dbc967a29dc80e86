// What checks that launch kernels have in common: sources are compiled, and arguments collected.
//
// The sources are OpenCL C 1.2 without vector types and images, and valid C++ as well: a driver may compile them as
// either.
#pragma once

#include <array>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "check.h"

namespace conformance {

// Throws NotOffered where the driver has no modules, or none of source text.
orModule_t compile(const char* source, const char* options = nullptr, Where where = Where::current());
orFunction_t function_of(orModule_t module, const char* name, Where where = Where::current());
// The only function of a new module.
orFunction_t compile_function(const char* source, const char* name, Where where = Where::current());

// Keeps the values that its orArgument point to.
class Arguments {
 public:
  Arguments() = default;
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  Arguments& pointer(const void* address);
  Arguments& local(size_t bytes);
  template <class T>
  Arguments& value(const T& value) {
    return bytes(&value, sizeof(value));
  }
  Arguments& bytes(const void* value, size_t bytes);

  [[nodiscard]] const std::vector<orArgument>& list() const { return list_; }
  // Overwrites the values, and what points to them.
  void scribble();

 private:
  std::vector<orArgument> list_;
  std::vector<std::vector<std::byte>> values_;
};

// The answer of orLaunchFunction, in one dimension and in three.
[[nodiscard]] orError_t try_launch(orFunction_t function, unsigned groups, unsigned group_size,
                                   const Arguments& arguments, orStream_t stream);
[[nodiscard]] orError_t try_launch(orFunction_t function, const orLaunchConfig& config, const Arguments& arguments,
                                   orStream_t stream);
void launch(orFunction_t function, unsigned groups, unsigned group_size, const Arguments& arguments, orStream_t stream,
            Where where = Where::current());

// Device memory that holds the values, and what device memory holds.
template <class T>
T* device_values(const std::vector<T>& values, Where where = Where::current()) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  std::byte* const device = device_memory(bytes.size(), where);
  upload(device, bytes, where);
  return reinterpret_cast<T*>(device);
}
template <class T>
std::vector<T> values_at(const T* device, size_t count, Where where = Where::current()) {
  const auto bytes = download(device, count * sizeof(T), where);
  std::vector<T> values(count);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}
// Compares number by number, and names the first that differs.
template <class T>
void expect_values(const std::vector<T>& expected, const std::vector<T>& seen, const std::string& what,
                   Where where = Where::current()) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] != seen[i]) {
      fail(what + ", number " + std::to_string(i) + " of " + std::to_string(expected.size()) + ": " +
               std::to_string(expected[i]),
           std::to_string(seen[i]), where);
    }
  }
}

}  // namespace conformance
