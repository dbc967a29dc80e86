// The functions of openreg_modules.h: modules and functions by handle, and launches.
#include "openreg_modules.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "driver.h"
#include "error.h"
#include "handle_table.h"
#include "kernel.h"
#include "module.h"
#include "module_compiler.h"
#include "work_group.h"

using namespace openreg::driver;

namespace {

// LITERALINCLUDE START: modules-loaded
// Modules by number. Numbers are never reused, so that a stale handle is recognized.
class LoadedModules {
 public:
  uint64_t add(std::shared_ptr<const Module> module) {
    const std::lock_guard lock(mutex_);
    modules_.emplace(++last_, std::move(module));
    return last_;
  }
  std::shared_ptr<const Module> find(uint64_t number) const {
    const std::lock_guard lock(mutex_);
    const auto found = modules_.find(number);
    return found == modules_.end() ? nullptr : found->second;
  }
  // False when another thread was first.
  bool remove(uint64_t number) {
    const std::lock_guard lock(mutex_);
    return modules_.erase(number) == 1;
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<const Module>> modules_;
  uint64_t last_ = 0;
};

LoadedModules& loaded_modules() {
  static LoadedModules& modules = *new LoadedModules;  // never destroyed: see process.cpp
  return modules;
}
// LITERALINCLUDE END: modules-loaded

// LITERALINCLUDE START: modules-lookup
struct ModuleRef {
  std::shared_ptr<const Module> module;
  Device* device = nullptr;
  Handle handle{};
};

struct FunctionRef : ModuleRef {
  [[nodiscard]] const Module::Function& function() const { return module->functions()[handle.index]; }
};

// A function's handle is its module's, with another kind, and with the function's position as the index.
orError_t find(HandleKind kind, const void* handle, ModuleRef* ref) {
  Driver* driver = nullptr;
  if (const orError_t error = get_driver(&driver)) return error;
  ref->handle = Handle::unpack(reinterpret_cast<uint64_t>(handle));
  ref->module = ref->handle.kind == kind ? loaded_modules().find(ref->handle.generation) : nullptr;
  if (ref->module == nullptr ||
      (kind == HandleKind::kFunction && ref->handle.index >= ref->module->functions().size())) {
    return fail(orErrorInvalidHandle, "%p is not a %s, or its module was unloaded", handle,
                kind == HandleKind::kModule ? "module" : "function");
  }
  return driver->find_device(ref->handle.device, &ref->device);
}
// LITERALINCLUDE END: modules-lookup

// LITERALINCLUDE START: modules-launch-work
// A launch that was checked, and what it needs until it has run.
struct Launch {
  FunctionRef ref;
  orLaunchConfig config;
  std::vector<std::max_align_t> bytes;  // the values of the arguments, and local memory
  std::vector<void*> arguments;
};

struct FunctionWork {
  Launch* launch;
  const char* name;

  void run(Device& device) {
    char message[512];
    if (!run_groups(device, launch->ref.function().code, launch->config, launch->arguments.data(), message,
                    sizeof(message))) {
      fail_kernel(device, name, message);
    }
  }
  void release() { delete launch; }
  [[nodiscard]] Activity activity() const {  // NOT PROVEN: called only while recording
    return {orActivityKernel, 0, orMemcpyDefault, name};  // NOT PROVEN: as above
  }
};
// LITERALINCLUDE END: modules-launch-work

// LITERALINCLUDE START: modules-check-config
orError_t check_config(const orLaunchConfig& config) {
  const unsigned* const groups = config.groups;
  const unsigned* const size = config.group_size;
  const auto is_zero = [](unsigned number) { return number == 0; };
  if (std::any_of(groups, groups + 3, is_zero) || std::any_of(size, size + 3, is_zero)) {
    return fail(orErrorInvalidValue,
                "groups are (%u, %u, %u) and group_size is (%u, %u, %u); each is at least 1, also where it is not used",
                groups[0], groups[1], groups[2], size[0], size[1], size[2]);
  }
  constexpr uint64_t kMost = openreg::device_code::kMaxGroupSize;
  if (size[0] > kMost || size[1] > kMost || size[2] > kMost || uint64_t{size[0]} * size[1] * size[2] > kMost) {
    return fail(orErrorInvalidValue, "a group of (%u, %u, %u) work-items is too large; at most %llu work-items are one",
                size[0], size[1], size[2], static_cast<unsigned long long>(kMost));
  }
  return orSuccess;
}
// LITERALINCLUDE END: modules-check-config

// LITERALINCLUDE START: modules-check-argument
// Checks an argument against its parameter; `bytes` becomes the room that it needs in Launch::bytes.
orError_t check_argument(const openreg::device_code::Function& code, size_t index, const orArgument& argument,
                         size_t* bytes) {
  constexpr const char* kKinds[] = {"a pointer", "a value", "local memory"};
  const openreg::device_code::Parameter& parameter = code.parameters[index];
  const bool is_local = index < 64 && (code.local_parameters >> index & 1) != 0;
  const orArgumentKind kind = is_local ? orArgumentLocal : (parameter.is_pointer ? orArgumentPointer : orArgumentValue);
  if (argument.kind < orArgumentPointer || argument.kind > orArgumentLocal) {
    return fail(orErrorInvalidValue, "argument %zu of '%s' has kind %d, which does not exist; valid are 0 to 2", index,
                code.name, static_cast<int>(argument.kind));
  }
  if (argument.kind != kind) {
    return fail(orErrorInvalidValue, "argument %zu of '%s' is %s, given %s", index, code.name, kKinds[kind],
                kKinds[argument.kind]);
  }
  if (kind == orArgumentValue && argument.bytes != parameter.bytes) {
    return fail(orErrorInvalidValue, "argument %zu of '%s' has %u bytes, given %zu", index, code.name, parameter.bytes,
                argument.bytes);
  }
  if (kind == orArgumentValue && argument.value == nullptr) {
    return fail(orErrorInvalidValue, "the value of argument %zu of '%s' is null", index, code.name);
  }
  if (kind == orArgumentLocal && argument.bytes == 0) {
    return fail(orErrorInvalidValue, "argument %zu of '%s' is local memory of 0 bytes", index, code.name);
  }
  *bytes = kind == orArgumentPointer ? 0 : argument.bytes;
  return orSuccess;
}
// LITERALINCLUDE END: modules-check-argument

// LITERALINCLUDE START: modules-pointer
// Translates a device address to the host address of its bytes: a kernel is host code, and can use no other.
orError_t translate(const Driver& driver, const Device& device, const char* function, size_t index, const void* pointer,
                    void** alias) {
  *alias = nullptr;
  if (pointer == nullptr) return orSuccess;
  const auto location = driver.space.locate(pointer);
  if (!location) {
    return fail(orErrorInvalidPointer, "argument %zu of '%s', %p, is not device memory", index, function, pointer);
  }
  const Device& owner = driver.devices[static_cast<size_t>(location->device)];
  if (!device.can_use(owner.index)) {
    return fail(orErrorInvalidPointer,
                "argument %zu of '%s' lies on openreg:%d, and the function runs on openreg:%d; call "
                "orDeviceEnablePeerAccess(%d) with openreg:%d current, or copy the memory",
                index, function, owner.index, device.index, owner.index, device.index);
  }
  DeviceMemory::Allocation allocation;
  if (const orError_t error = owner.memory.find(location->offset, &allocation)) return error;
  *alias = driver.space.backing(*location);
  return orSuccess;
}
// LITERALINCLUDE END: modules-pointer

// LITERALINCLUDE START: modules-arguments
// Copies the arguments into the launch.
orError_t set_arguments(const Driver& driver, const orArgument* arguments, Launch* launch) {
  constexpr size_t kStep = sizeof(std::max_align_t);
  const Module::Function& function = launch->ref.function();
  const size_t count = function.code.parameter_count;
  std::vector<size_t> places(count + 1, 0);  // of each argument in Launch::bytes, counted in steps
  size_t local = function.local_memory;
  for (size_t i = 0; i < count; ++i) {
    size_t bytes = 0;
    if (const orError_t error = check_argument(function.code, i, arguments[i], &bytes)) return error;
    if (arguments[i].kind == orArgumentLocal) local += std::min<size_t>(bytes, SIZE_MAX / 2 - local);
    if (local > openreg::device_code::kLocalMemory) break;
    places[i + 1] = places[i] + (bytes + kStep - 1) / kStep;
  }
  if (local > openreg::device_code::kLocalMemory) {
    return fail(orErrorInvalidValue,
                "'%s' has more local memory than the %u bytes of a group: its own %zu, and arguments",
                function.code.name, openreg::device_code::kLocalMemory, function.local_memory);
  }
  launch->bytes.resize(places[count]);
  launch->arguments.resize(2 * count);  // the second half holds the pointers
  for (size_t i = 0; i < count; ++i) {
    void*& pointer = launch->arguments[count + i];
    pointer = launch->bytes.data() + places[i];
    launch->arguments[i] = arguments[i].kind == orArgumentValue ? pointer : &pointer;
    if (arguments[i].kind == orArgumentValue) std::memcpy(pointer, arguments[i].value, arguments[i].bytes);
    if (arguments[i].kind != orArgumentPointer) continue;
    if (const orError_t error =
            translate(driver, *launch->ref.device, function.code.name, i, arguments[i].value, &pointer)) {
      return error;
    }
  }
  return orSuccess;
}
// LITERALINCLUDE END: modules-arguments

// LITERALINCLUDE START: modules-target
orError_t find_target(Driver& driver, const FunctionRef& function, orStream_t stream, StreamRef* ref) {
  if (stream == nullptr) {
    ref->stream = function.device->streams.at(0);
    ref->generation = ref->stream->generation.load();
    return orSuccess;
  }
  if (const orError_t error = driver.find_stream(stream, ref)) return error;
  if (&ref->stream->device() == function.device) return orSuccess;
  return fail(orErrorInvalidValue, "the module of '%s' belongs to openreg:%d and the stream to openreg:%d",
              function.function().code.name, function.device->index, ref->stream->device().index);
}
// LITERALINCLUDE END: modules-target

// How much a work-item reads and writes is unknown; this much is assumed to decide whether a kernel is small.
constexpr size_t kBytesOfItem = 64;

// LITERALINCLUDE START: modules-check-and-submit
orError_t launch_function(orFunction_t handle, const orLaunchConfig* config, const orArgument* arguments, size_t count,
                          orStream_t stream) {
  auto launch = std::make_unique<Launch>();
  if (const orError_t error = find(HandleKind::kFunction, handle, &launch->ref)) return error;
  Driver& driver = *started_driver();
  const openreg::device_code::Function& code = launch->ref.function().code;
  StreamRef ref;
  if (const orError_t error = find_target(driver, launch->ref, stream, &ref)) return error;
  if (const orError_t error = launch->ref.device->failure.refuse()) return error;
  if (config == nullptr) return fail(orErrorInvalidValue, "config is null");
  if (const orError_t error = check_config(*config)) return error;
  if (count != code.parameter_count) {
    return fail(orErrorInvalidValue, "'%s' takes %u arguments, given %zu", code.name, code.parameter_count, count);
  }
  if (arguments == nullptr && count != 0) return fail(orErrorInvalidValue, "arguments is null");
  launch->config = *config;
  if (const orError_t error = set_arguments(driver, arguments, launch.get())) return error;
  size_t items = 1;
  for (const unsigned number : {config->groups[0], config->groups[1], config->groups[2], config->group_size[0],
                                config->group_size[1], config->group_size[2]}) {
    if (__builtin_mul_overflow(items, number, &items)) items = SIZE_MAX / kBytesOfItem;
  }
  const Placement placement = launch->ref.device->placement(std::min(items, SIZE_MAX / kBytesOfItem) * kBytesOfItem);
  return submit_kernel(ref, FunctionWork{launch.release(), code.name}, placement);
}
// LITERALINCLUDE END: modules-check-and-submit

// LITERALINCLUDE START: modules-compile-or-load
orError_t load_module(orModule_t* module, orModuleFormat format, const void* image, size_t bytes, const char* options) {
  if (module == nullptr || image == nullptr) return fail(orErrorInvalidValue, "module or image is null");
  Device* device = nullptr;
  if (const orError_t error = get_current_device(&device)) return error;
  std::string text(static_cast<const char*>(image), bytes);
  std::shared_ptr<const Module> loaded;
  if (format == orModuleSource) {
    text.resize(std::min(text.find('\0'), bytes));  // the size may count the terminating null
    std::string shared_object;
    if (const orError_t error = compile_module(text, options, &shared_object)) return error;
    if (const orError_t error = Module::load(std::move(shared_object), &loaded)) return error;
  } else if (format == orModuleBinary) {
    if (const orError_t error = Module::load_binary(text, &loaded)) return error;
  } else {
    return fail(orErrorNotSupported, "format %d; this driver takes orModuleSource and orModuleBinary",
                static_cast<int>(format));
  }
  const Handle handle{HandleKind::kModule, device->index, 0, loaded_modules().add(std::move(loaded))};
  *module = reinterpret_cast<orModule_t>(handle.pack());
  return orSuccess;
}
// LITERALINCLUDE END: modules-compile-or-load

}  // namespace

// LITERALINCLUDE START: modules-interface
orError_t orModuleLoad(orModule_t* module, orModuleFormat format, const void* image, size_t bytes,
                       const char* options) {
  const Call call("orModuleLoad");
  return guarded([&] { return load_module(module, format, image, bytes, options); });
}

orError_t orModuleGetBinary(void* image, size_t* bytes, orModule_t module) {
  const Call call("orModuleGetBinary");
  ModuleRef ref;
  if (const orError_t error = find(HandleKind::kModule, module, &ref)) return error;
  if (bytes == nullptr) return fail(orErrorInvalidValue, "bytes is null");
  return guarded([&] {
    const std::string binary = ref.module->binary();
    const size_t room = std::exchange(*bytes, binary.size());
    if (image == nullptr) return orSuccess;
    if (room < binary.size()) {
      return fail(orErrorOutOfRange, "the binary has %zu bytes, and the image has room for %zu", binary.size(), room);
    }
    std::memcpy(image, binary.data(), binary.size());
    return orSuccess;
  });
}

orError_t orModuleUnload(orModule_t module) {
  const Call call("orModuleUnload");
  ModuleRef ref;
  if (const orError_t error = find(HandleKind::kModule, module, &ref)) return error;
  rest_if_process_is_ending();
  if (const orError_t error = process_is_ending() ? orSuccess : ref.device->synchronize()) return error;
  if (loaded_modules().remove(ref.handle.generation)) return orSuccess;
  return fail(orErrorInvalidHandle, "%p was unloaded by another thread meanwhile",  // NOT PROVEN: needs a race
              static_cast<void*>(module));  // NOT PROVEN: as above
}
// LITERALINCLUDE END: modules-interface

// LITERALINCLUDE START: modules-functions
orError_t orModuleGetFunction(orFunction_t* function, orModule_t module, const char* name) {
  const Call call("orModuleGetFunction");
  if (function == nullptr || name == nullptr) return fail(orErrorInvalidValue, "function or name is null");
  ModuleRef ref;
  if (const orError_t error = find(HandleKind::kModule, module, &ref)) return error;
  return guarded([&] {
    std::string names;
    for (const Module::Function& known : ref.module->functions()) {
      if (std::strcmp(known.code.name, name) == 0) {
        const auto index = static_cast<uint32_t>(&known - ref.module->functions().data());
        const Handle handle{HandleKind::kFunction, ref.handle.device, index, ref.handle.generation};
        *function = reinterpret_cast<orFunction_t>(handle.pack());
        return orSuccess;
      }
      names += (names.empty() ? "'" : ", '") + std::string(known.code.name) + "'";
    }
    return fail(orErrorInvalidValue, "the module has no function '%s'; valid are %s", name, names.c_str());
  });
}

orError_t orFunctionGetAttributes(orFunctionAttributes* attributes, orFunction_t function) {
  const Call call("orFunctionGetAttributes");
  if (attributes == nullptr) return fail(orErrorInvalidValue, "attributes is null");
  FunctionRef ref;
  if (const orError_t error = find(HandleKind::kFunction, function, &ref)) return error;
  const Module::Function& found = ref.function();
  *attributes = orFunctionAttributes{
      .argument_count = static_cast<int>(found.code.parameter_count),
      .max_group_size = openreg::device_code::kMaxGroupSize,
      .group_size_multiple = 1,
      .local_memory = found.local_memory,
  };
  return orSuccess;
}

orError_t orLaunchFunction(orFunction_t function, const orLaunchConfig* config, const orArgument* arguments,
                           size_t argument_count, orStream_t stream) {
  const Call call("orLaunchFunction");
  return guarded([&] { return launch_function(function, config, arguments, argument_count, stream); });
}
// LITERALINCLUDE END: modules-functions
