// A module: compiled kernels, loaded into the process.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "device_code.h"
#include "openreg.h"

namespace openreg::driver {

// Thread: safe; a module is immutable. A launch of one of its functions shares its ownership.
class Module {
 public:
  struct Function {
    device_code::Function code;
    size_t local_memory = 0;  // bytes of its own variables in local memory
  };

  // Loads the compiler's output. Throws: std::bad_alloc.
  static orError_t load(std::string shared_object, std::shared_ptr<const Module>* module);
  // The same from a binary, which is a shared object after a header that names the driver and the machine.
  static orError_t load_binary(const std::string& binary, std::shared_ptr<const Module>* module);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  [[nodiscard]] std::string binary() const;
  [[nodiscard]] const std::vector<Function>& functions() const noexcept { return functions_; }

 private:
  explicit Module(std::string shared_object) : shared_object_(std::move(shared_object)) {}

  orError_t open();

  const std::string shared_object_;
  std::vector<Function> functions_;
  void* library_ = nullptr;
};

}  // namespace openreg::driver
