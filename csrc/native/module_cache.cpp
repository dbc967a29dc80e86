// Caches modules by device, file and options: the loaded ones in memory, the compiled ones on disk.
#include "native/module_cache.h"

#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "native/binary_file.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/properties.h"

namespace openreg::native {
namespace {

namespace fs = std::filesystem;

// LITERALINCLUDE START: native-cache-sources
// torch_openreg/native, beside the folder of this library.
fs::path source_folder() {
  if (const char* const folder = std::getenv("OPENREG_NATIVE_SOURCES"); folder != nullptr && *folder != '\0') {
    return folder;
  }
  Dl_info library{};
  TORCH_INTERNAL_ASSERT(dladdr(reinterpret_cast<void*>(&source_folder), &library) != 0);
  return fs::path(library.dli_fname).parent_path().parent_path() / "native";
}

std::string read_source(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  TORCH_CHECK(file.good() || file.eof(), "openreg: cannot read the kernel source ", path.string(),
              ": install the package again, or name its folder by OPENREG_NATIVE_SOURCES");
  return text;
}

// The prelude and the source. The compiler's log numbers the lines of each file separately.
std::string whole_source(const std::string& file) {
  const fs::path folder = source_folder();
  const auto part = [&folder](const std::string& name) {
    return "#line 1 \"" + name + "\"\n" + read_source(folder / name) + "\n";
  };
  return part("prelude.cl") + part(file);
}
// LITERALINCLUDE END: native-cache-sources

// LITERALINCLUDE START: native-cache-load
// Everything that the compiled code depends on. Another version of the driver may have another compiler.
std::string module_key(c10::DeviceIndex device, const std::string& source, const std::string& options) {
  const orDeviceProp properties = device_properties(device);
  int version = 0;
  check(orDriverGetVersion(&version));
  std::string key;
  for (const std::string& part :
       {std::string(properties.driver), std::to_string(version), std::string(properties.name), options, source}) {
    key += part + '\0';
  }
  return key;
}

// Empty if the driver has no binaries: every process compiles its kernels then.
std::vector<char> binary_of(orModule_t module) {
  size_t bytes = 0;
  if (const orError_t error = orModuleGetBinary(nullptr, &bytes, module)) {
    if (error != orErrorNotSupported) check(error);  // NOT PROVEN: tests/native has a driver without binaries
    static_cast<void>(orGetLastError());             // NOT PROVEN: as above
    return {};                                       // NOT PROVEN: as above
  }
  std::vector<char> binary(bytes);
  check(orModuleGetBinary(binary.data(), &bytes, module));
  return binary;
}

// Loads the module from the file on disk, if the driver accepts it; otherwise compiles it, and writes the file.
orModule_t load_module(c10::DeviceIndex device, const std::string& file, const std::string& options) {
  const std::string source = whole_source(file);
  const BinaryFile kept(file, module_key(device, source, options));
  orModule_t module = nullptr;
  if (const std::vector<char> binary = kept.read(); !binary.empty()) {
    if (orModuleLoad(&module, orModuleBinary, binary.data(), binary.size(), options.c_str()) == orSuccess) {
      return module;
    }
    // The driver rejects it in spite of the key: compile it again.
    static_cast<void>(orGetLastError());  // NOT PROVEN: needs two drivers of one name and version
  }
  check(orModuleLoad(&module, orModuleSource, source.data(), source.size(), options.c_str()));
  if (const std::vector<char> binary = binary_of(module); !binary.empty()) kept.write(binary);
  return module;
}
// LITERALINCLUDE END: native-cache-load

// LITERALINCLUDE START: native-cache-find
class ModuleCache {
 public:
  const Function& find(c10::DeviceIndex device, const std::string& file, const std::string& name,
                       const std::string& options) {
    // Raises in a forked child, where the lock may be held by a thread that no longer exists.
    static_cast<void>(resolve_device_index(device));
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = functions_.try_emplace({device, file, options, name});
    if (is_new) {
      try {
        found->second = load(device, file, name, options);
      } catch (...) {
        functions_.erase(found);  // The next call tries again, and raises the same error.
        throw;
      }
    }
    return found->second;
  }

 private:
  using Key = std::tuple<c10::DeviceIndex, std::string, std::string>;

  Function load(c10::DeviceIndex device, const std::string& file, const std::string& name, const std::string& options) {
    const c10::DeviceGuard current(c10::Device(c10::kPrivateUse1, device));
    orModule_t& module = modules_[{device, file, options}];
    if (module == nullptr) module = load_module(device, file, options);
    Function function{};
    check(orModuleGetFunction(&function.handle, module, name.c_str()));
    check(orFunctionGetAttributes(&function.attributes, function.handle));
    return function;
  }

  std::mutex mutex_;
  std::map<Key, orModule_t> modules_;
  std::map<std::tuple<c10::DeviceIndex, std::string, std::string, std::string>, Function> functions_;
};
// LITERALINCLUDE END: native-cache-find

}  // namespace

const Function& find_function(c10::DeviceIndex device, const std::string& file, const std::string& name,
                              const std::string& options) {
  // Never destroyed: threads may launch until the process ends.
  static auto* const cache = new ModuleCache;
  return cache->find(device, file, name, options);
}

}  // namespace openreg::native
