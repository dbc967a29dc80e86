// Modules are OpenCL programs, and functions are its kernels. This file adds what OpenCL lacks: the check of arguments
// before the launch, and launches of one function from several threads.
#include "modules.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "driver.h"

namespace openreg::driver::opencl {
namespace {

orError_t find_module(Driver& driver, orModule_t handle, std::shared_ptr<Module>* module) {
  *module = driver.modules.find(number_of(handle));
  if (*module != nullptr) return (*module)->device.failure.refuse();
  return fail(orErrorInvalidHandle, "%p is not a module, or no longer", static_cast<void*>(handle));
}

orError_t find_function(Driver& driver, orFunction_t handle, std::shared_ptr<Function>* function) {
  *function = driver.functions.find(number_of(handle));
  if (*function != nullptr) return (*function)->module->device.failure.refuse();
  return fail(orErrorInvalidHandle, "%p is not a function, or its module was unloaded", static_cast<void*>(handle));
}

std::string build_log(const Device& device, const ClProgram& program) {
  size_t bytes = 0;
  if (clGetProgramBuildInfo(program.get(), device.id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes) != CL_SUCCESS)
    return {};
  std::string log(bytes, '\0');
  if (clGetProgramBuildInfo(program.get(), device.id, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr) != CL_SUCCESS) {
    return {};
  }
  return log.c_str();
}

// LITERALINCLUDE START: opencl-load
// The language is OpenCL C 1.2 unless the caller names another; parameter info is kept for orLaunchFunction.
std::string build_options(const char* given) {
  std::string options = "-cl-kernel-arg-info";
  if (given == nullptr || std::strstr(given, "-cl-std=") == nullptr) options += " -cl-std=CL1.2";
  if (given != nullptr) options += std::string(" ") + given;
  return options;
}

orError_t create_program(const Device& device, orModuleFormat format, const void* image, size_t bytes,
                         ClProgram* program) {
  cl_int status = CL_SUCCESS;
  if (format == orModuleSource) {
    const char* text = static_cast<const char*>(image);
    *program = ClProgram(clCreateProgramWithSource(device.context, 1, &text, &bytes, &status));
    return status == CL_SUCCESS ? orSuccess : fail_cl(status, "clCreateProgramWithSource");
  }
  const unsigned char* binary = static_cast<const unsigned char*>(image);
  cl_int accepted = CL_SUCCESS;
  *program = ClProgram(clCreateProgramWithBinary(device.context, 1, &device.id, &bytes, &binary, &accepted, &status));
  if (status == CL_SUCCESS && accepted == CL_SUCCESS) return orSuccess;
  return fail(orErrorCompilation, "the %zu bytes are no binary for '%s': clCreateProgramWithBinary answered %s", bytes,
              device_text(device.id, CL_DEVICE_NAME).c_str(), cl_error_name(status != CL_SUCCESS ? status : accepted));
}

orError_t load(Device& device, orModuleFormat format, const void* image, size_t bytes, const char* options,
               std::shared_ptr<Module>* module) {
  ClProgram program;
  if (const orError_t error = create_program(device, format, image, bytes, &program)) return error;
  const cl_int status = clBuildProgram(program.get(), 1, &device.id, build_options(options).c_str(), nullptr, nullptr);
  if (status != CL_SUCCESS) {
    const std::string log = std::string(cl_error_name(status)) + " from clBuildProgram:\n" + build_log(device, program);
    return fail_with_log(orErrorCompilation, log.c_str());
  }
  *module = std::make_shared<Module>(Module{device, program});
  return orSuccess;
}
// LITERALINCLUDE END: opencl-load

// A program belongs to all devices of its context, or to those it was loaded for, and has a binary for each. PoCL lists
// a sub-device as its parent device.
size_t place_of(const std::vector<cl_device_id>& devices, cl_device_id id) {
  auto found = std::ranges::find(devices, id);
  if (found == devices.end()) {
    found = std::ranges::find(devices, device_info<cl_device_id>(id, CL_DEVICE_PARENT_DEVICE));
  }
  return static_cast<size_t>(found - devices.begin());
}

orError_t get_binary(const Module& module, void* image, size_t* bytes) {
  cl_uint count = 0;
  cl_int status = clGetProgramInfo(module.program.get(), CL_PROGRAM_NUM_DEVICES, sizeof(count), &count, nullptr);
  if (status != CL_SUCCESS) return fail_cl(status, "clGetProgramInfo");
  std::vector<cl_device_id> devices(count);
  std::vector<size_t> sizes(count);
  status =
      clGetProgramInfo(module.program.get(), CL_PROGRAM_DEVICES, count * sizeof(cl_device_id), devices.data(), nullptr);
  if (status == CL_SUCCESS) {
    status =
        clGetProgramInfo(module.program.get(), CL_PROGRAM_BINARY_SIZES, count * sizeof(size_t), sizes.data(), nullptr);
  }
  if (status != CL_SUCCESS) return fail_cl(status, "clGetProgramInfo");
  const size_t own = place_of(devices, module.device.id);
  if (own == count || sizes[own] == 0) return fail(orErrorNotSupported, "the platform keeps no binary of the module");
  const size_t room = *bytes;
  *bytes = sizes[own];
  if (image == nullptr) return orSuccess;
  if (room < sizes[own]) {
    return fail(orErrorOutOfRange, "the binary has %zu bytes, and the room is %zu", sizes[own], room);
  }
  std::vector<unsigned char*> images(count, nullptr);  // null: not requested
  images[own] = static_cast<unsigned char*>(image);
  status = clGetProgramInfo(module.program.get(), CL_PROGRAM_BINARIES, count * sizeof(unsigned char*), images.data(),
                            nullptr);
  return status == CL_SUCCESS ? orSuccess : fail_cl(status, "clGetProgramInfo");
}

// The size of an OpenCL C type by its name, such as "float4"; 0 for structs, whose names do not tell it.
size_t bytes_of_type(std::string type) {
  struct Type {
    const char* name;
    size_t bytes;
  };
  constexpr std::array kTypes = {Type{"char", 1}, Type{"uchar", 1}, Type{"short", 2},  Type{"ushort", 2},
                                 Type{"half", 2}, Type{"int", 4},   Type{"uint", 4},   Type{"float", 4},
                                 Type{"long", 8}, Type{"ulong", 8}, Type{"double", 8}, Type{"size_t", 8}};
  if (type.starts_with("unsigned ")) type.erase(1, 8);  // "uint"
  size_t lanes = 1;
  const size_t digits = type.find_last_not_of("0123456789") + 1;
  if (digits < type.size()) {
    lanes = std::stoul(type.substr(digits));
    if (lanes == 3) lanes = 4;  // it takes the space of four
    type.resize(digits);
  }
  const auto* const found = std::ranges::find_if(kTypes, [&](const Type& known) { return type == known.name; });
  return found != kTypes.end() ? found->bytes * lanes : 0;
}

std::string parameter_text(const ClKernel& kernel, cl_uint index, cl_kernel_arg_info question) {
  char text[128] = "";
  return clGetKernelArgInfo(kernel.get(), index, question, sizeof(text), text, nullptr) == CL_SUCCESS ? text : "";
}

Parameter parameter_of(const ClKernel& kernel, cl_uint index) {
  Parameter found;
  cl_kernel_arg_address_qualifier where = CL_KERNEL_ARG_ADDRESS_PRIVATE;
  if (clGetKernelArgInfo(kernel.get(), index, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof(where), &where, nullptr) !=
      CL_SUCCESS) {
    return found;
  }
  found.known = true;
  found.name = parameter_text(kernel, index, CL_KERNEL_ARG_NAME);
  found.type = parameter_text(kernel, index, CL_KERNEL_ARG_TYPE_NAME);
  found.kind = where == CL_KERNEL_ARG_ADDRESS_LOCAL     ? orArgumentLocal
               : where == CL_KERNEL_ARG_ADDRESS_PRIVATE ? orArgumentValue
                                                        : orArgumentPointer;
  if (found.kind == orArgumentValue) found.bytes = bytes_of_type(found.type);
  return found;
}

orError_t fail_unknown_name(const Module& module, const char* name) {
  size_t bytes = 0;
  std::string names;
  if (clGetProgramInfo(module.program.get(), CL_PROGRAM_KERNEL_NAMES, 0, nullptr, &bytes) == CL_SUCCESS) {
    names.resize(bytes);
    if (clGetProgramInfo(module.program.get(), CL_PROGRAM_KERNEL_NAMES, bytes, names.data(), nullptr) != CL_SUCCESS) {
      names.clear();
    }
  }
  std::string listed;
  for (const char letter : std::string(names.c_str()))
    listed += letter == ';' ? std::string(", ") : std::string(1, letter);
  return fail(orErrorInvalidValue, "the module has no function '%s'; it has %s", name,
              listed.empty() ? "none" : listed.c_str());
}

template <class Value>
Value group_info(const Function& function, cl_kernel_work_group_info question) {
  Value value{};
  (void)clGetKernelWorkGroupInfo(function.kernel.get(), function.module->device.id, question, sizeof(value), &value,
                                 nullptr);
  return value;
}

orError_t make_function(const std::shared_ptr<Module>& module, const char* name, std::shared_ptr<Function>* made) {
  cl_int status = CL_SUCCESS;
  ClKernel kernel(clCreateKernel(module->program.get(), name, &status));
  if (status == CL_INVALID_KERNEL_NAME) return fail_unknown_name(*module, name);
  if (status != CL_SUCCESS) return fail_cl(status, "clCreateKernel");
  cl_uint count = 0;
  status = clGetKernelInfo(kernel.get(), CL_KERNEL_NUM_ARGS, sizeof(count), &count, nullptr);
  if (status != CL_SUCCESS) return fail_cl(status, "clGetKernelInfo");
  *made = std::make_shared<Function>();
  (*made)->module = module;
  (*made)->name = name;
  for (cl_uint index = 0; index < count; ++index) (*made)->parameters.push_back(parameter_of(kernel, index));
  (*made)->kernel = std::move(kernel);
  (*made)->max_group_size = group_info<size_t>(**made, CL_KERNEL_WORK_GROUP_SIZE);
  return orSuccess;
}

orError_t check_group(const Function& function, const orLaunchConfig& config) {
  const auto& size = config.group_size;
  for (int i = 0; i < 3; ++i) {
    if (config.groups[i] == 0 || size[i] == 0) {
      return fail(orErrorInvalidValue, "dimension %d of the launch of '%s' has %u groups of %u work-items", i,
                  function.name.c_str(), config.groups[i], size[i]);
    }
  }
  // In 128 bits: three factors of 32 bits.
  const auto items = static_cast<unsigned __int128>(size[0]) * size[1] * size[2];
  if (items > function.max_group_size) {
    return fail(orErrorInvalidValue, "a group of %u x %u x %u work-items, where '%s' can have %zu", size[0], size[1],
                size[2], function.name.c_str(), function.max_group_size);
  }
  std::array<size_t, 3> most{};
  if (clGetDeviceInfo(function.module->device.id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof(most), most.data(), nullptr) !=
      CL_SUCCESS) {
    return orSuccess;  // more than three dimensions: the launch checks
  }
  for (size_t i = 0; i < 3; ++i) {
    if (size[i] > most[i]) {
      return fail(orErrorInvalidValue, "a group of %u work-items in dimension %zu, where the device can have %zu",
                  size[i], i, most[i]);
    }
  }
  return orSuccess;
}

orError_t check_argument(const Function& function, size_t index, const orArgument& given) {
  constexpr const char* kNames[] = {"orArgumentPointer", "orArgumentValue", "orArgumentLocal"};
  if (given.kind < orArgumentPointer || given.kind > orArgumentLocal) {
    return fail(orErrorInvalidValue, "argument %zu has the kind %d; valid are 0 to 2", index,
                static_cast<int>(given.kind));
  }
  const Parameter& wanted = function.parameters[index];
  if (wanted.known && wanted.kind != given.kind) {
    return fail(orErrorInvalidValue, "argument %zu of '%s', '%s %s', takes %s and was given %s", index,
                function.name.c_str(), wanted.type.c_str(), wanted.name.c_str(), kNames[wanted.kind],
                kNames[given.kind]);
  }
  if (given.kind == orArgumentPointer) return orSuccess;
  if (given.bytes == 0 || (given.value == nullptr) != (given.kind == orArgumentLocal)) {
    return fail(orErrorInvalidValue, "argument %zu of '%s' is %zu bytes at %p, as %s", index, function.name.c_str(),
                given.bytes, given.value, kNames[given.kind]);
  }
  if (given.kind == orArgumentValue && wanted.bytes != 0 && wanted.bytes != given.bytes) {
    return fail(orErrorInvalidValue, "argument %zu of '%s', '%s %s', has %zu bytes and was given %zu", index,
                function.name.c_str(), wanted.type.c_str(), wanted.name.c_str(), wanted.bytes, given.bytes);
  }
  return orSuccess;
}

orError_t check_launch(const Function& function, const orLaunchConfig& config, const orArgument* arguments,
                       size_t count) {
  if (count != function.parameters.size()) {
    return fail(orErrorInvalidValue, "'%s' takes %zu arguments, given %zu", function.name.c_str(),
                function.parameters.size(), count);
  }
  if (count != 0 && arguments == nullptr) return fail(orErrorInvalidValue, "arguments is null");
  for (size_t i = 0; i < count; ++i) {
    if (const orError_t error = check_argument(function, i, arguments[i])) return error;
  }
  return check_group(function, config);
}

orError_t fail_argument(const Function& function, size_t index, cl_int status) {
  return fail(orErrorInvalidValue, "argument %zu of '%s' was refused: %s", index, function.name.c_str(),
              cl_error_name(status));
}

// LITERALINCLUDE START: opencl-launch
// Passes a null pointer as a null memory object: NVIDIA's platform accepts no null as shared virtual memory.
cl_int set_argument(cl_kernel kernel, cl_uint index, const orArgument& given) {
  if (given.kind != orArgumentPointer) return clSetKernelArg(kernel, index, given.bytes, given.value);
  return given.value != nullptr ? clSetKernelArgSVMPointer(kernel, index, given.value)
                                : clSetKernelArg(kernel, index, sizeof(cl_mem), nullptr);
}

cl_int find_object(Function& function, const orArgument* arguments, size_t count, KernelObject** found) {
  std::vector<bool> nulls(count);
  for (size_t i = 0; i < count; ++i) nulls[i] = arguments[i].kind == orArgumentPointer && arguments[i].value == nullptr;
  KernelObject& object = function.objects[nulls];
  *found = &object;
  if (object.kernel) return CL_SUCCESS;
  cl_int status = CL_SUCCESS;
  object.kernel = ClKernel(clCreateKernel(function.module->program.get(), function.name.c_str(), &status));
  return status;
}

// OpenCL does not see a pointer inside a struct, so the kernel may use all regions of the device's memory.
cl_int name_regions(const Device& device, KernelObject& object) {
  uint64_t version = 0;
  const auto regions = device.arena.regions(&version);
  if (version == object.regions_version) return CL_SUCCESS;
  const cl_int status = regions.empty() ? CL_SUCCESS
                                        : clSetKernelExecInfo(object.kernel.get(), CL_KERNEL_EXEC_INFO_SVM_PTRS,
                                                              regions.size() * sizeof(void*), regions.data());
  if (status == CL_SUCCESS) object.regions_version = version;  // otherwise the next launch names them again
  return status;
}

orError_t launch(Function& function, const orLaunchConfig& config, const orArgument* arguments, size_t count,
                 Stream& stream) {
  Work work;
  work.name = function.name;
  const std::lock_guard lock(function.mutex);
  KernelObject* object = nullptr;
  if (const cl_int status = find_object(function, arguments, count, &object)) return fail_cl(status, "clCreateKernel");
  for (size_t i = 0; i < count; ++i) {
    const cl_int status = set_argument(object->kernel.get(), static_cast<cl_uint>(i), arguments[i]);
    if (status != CL_SUCCESS) return fail_argument(function, i, status);
  }
  if (const cl_int status = name_regions(function.module->device, *object)) {
    return fail_cl(status, "clSetKernelExecInfo");
  }
  std::array<size_t, 3> local{};
  std::array<size_t, 3> global{};
  for (size_t i = 0; i < 3; ++i) {
    local[i] = config.group_size[i];
    global[i] = local[i] * config.groups[i];
  }
  return stream.submit("clEnqueueNDRangeKernel", std::move(work), [&](cl_command_queue queue, cl_event* event) {
    return clEnqueueNDRangeKernel(queue, object->kernel.get(), 3, nullptr, global.data(), local.data(), 0, nullptr,
                                  event);
  });
}
// LITERALINCLUDE END: opencl-launch

}  // namespace
}  // namespace openreg::driver::opencl

using namespace openreg::driver::opencl;
using openreg::driver::fail;

orError_t orModuleLoad(orModule_t* module, orModuleFormat format, const void* image, size_t bytes,
                       const char* options) {
  return call("orModuleLoad", [&](Driver& driver) {
    if (module == nullptr || image == nullptr || bytes == 0) {
      return fail(orErrorInvalidValue, "module or image is null, or bytes is 0");
    }
    if (format != orModuleSource && format != orModuleBinary) {
      return fail(orErrorNotSupported, "format %d; this driver takes orModuleSource and orModuleBinary",
                  static_cast<int>(format));
    }
    Device& device = driver.current();
    if (const orError_t error = device.failure.refuse()) return error;
    if (process_is_ending()) return end_refused_call();
    std::shared_ptr<Module> loaded;
    if (const orError_t error = load(device, format, image, bytes, options, &loaded)) return error;
    const uint64_t number = driver.new_handle();
    driver.modules.add(number, loaded);
    *module = reinterpret_cast<orModule_t>(number);
    return orSuccess;
  });
}

orError_t orModuleGetBinary(void* image, size_t* bytes, orModule_t module) {
  return call("orModuleGetBinary", [&](Driver& driver) {
    if (bytes == nullptr) return fail(orErrorInvalidValue, "bytes is null");
    std::shared_ptr<Module> found;
    if (const orError_t error = find_module(driver, module, &found)) return error;
    return process_is_ending() ? end_refused_call() : get_binary(*found, image, bytes);
  });
}

orError_t orModuleUnload(orModule_t module) {
  return call("orModuleUnload", [&](Driver& driver) {
    std::shared_ptr<Module> found;
    if (const orError_t error = find_module(driver, module, &found)) return error;
    if (const orError_t error = found->device.synchronize()) return error;
    if (!driver.modules.take(number_of(module))) return fail(orErrorInvalidHandle, "the module no longer exists");
    driver.functions.erase_if([&](const Function& function) { return function.module == found; });
    return orSuccess;
  });
}

orError_t orModuleGetFunction(orFunction_t* function, orModule_t module, const char* name) {
  return call("orModuleGetFunction", [&](Driver& driver) {
    if (function == nullptr || name == nullptr) return fail(orErrorInvalidValue, "function or name is null");
    std::shared_ptr<Module> found;
    if (const orError_t error = find_module(driver, module, &found)) return error;
    if (process_is_ending()) return end_refused_call();
    std::shared_ptr<Function> made;
    if (const orError_t error = make_function(found, name, &made)) return error;
    const uint64_t number = driver.new_handle();
    driver.functions.add(number, made);
    *function = reinterpret_cast<orFunction_t>(number);
    return orSuccess;
  });
}

orError_t orFunctionGetAttributes(orFunctionAttributes* attributes, orFunction_t function) {
  return call("orFunctionGetAttributes", [&](Driver& driver) {
    if (attributes == nullptr) return fail(orErrorInvalidValue, "attributes is null");
    std::shared_ptr<Function> found;
    if (const orError_t error = find_function(driver, function, &found)) return error;
    if (process_is_ending()) return end_refused_call();
    attributes->argument_count = static_cast<int>(found->parameters.size());
    attributes->max_group_size = found->max_group_size;
    attributes->group_size_multiple = group_info<size_t>(*found, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE);
    attributes->local_memory = group_info<cl_ulong>(*found, CL_KERNEL_LOCAL_MEM_SIZE);
    return orSuccess;
  });
}

orError_t orLaunchFunction(orFunction_t function, const orLaunchConfig* config, const orArgument* arguments,
                           size_t argument_count, orStream_t stream) {
  return call("orLaunchFunction", [&](Driver& driver) {
    std::shared_ptr<Function> found;
    if (const orError_t error = find_function(driver, function, &found)) return error;
    if (config == nullptr) return fail(orErrorInvalidValue, "config is null");
    Device& device = found->module->device;
    if (stream == nullptr) stream = reinterpret_cast<orStream_t>(default_stream_number(device.index));
    std::shared_ptr<Stream> on;
    if (const orError_t error = driver.find_stream(stream, &on)) return error;
    if (&on->device() != &device) {
      return fail(orErrorInvalidValue, "the module belongs to openreg:%d and the stream to openreg:%d", device.index,
                  on->device().index);
    }
    if (const orError_t error = check_launch(*found, *config, arguments, argument_count)) return error;
    if (process_is_ending()) return end_refused_call();
    return launch(*found, *config, arguments, argument_count, *on);
  });
}
