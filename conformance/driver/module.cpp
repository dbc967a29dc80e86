// Sources, arguments and launches.
#include "module.h"

namespace conformance {

orModule_t compile(const char* source, const char* options, Where where) {
  need("modules");
  orModule_t module = nullptr;
  offered(driver.orModuleLoad(&module, orModuleSource, source, std::strlen(source), options), "modules of source text",
          where);
  expect(module != nullptr, "a handle from orModuleLoad", "null and orSuccess", where);
  return module;
}

orFunction_t function_of(orModule_t module, const char* name, Where where) {
  orFunction_t function = nullptr;
  ok(driver.orModuleGetFunction(&function, module, name), where);
  expect(function != nullptr, "a handle from orModuleGetFunction", "null and orSuccess", where);
  return function;
}

orFunction_t compile_function(const char* source, const char* name, Where where) {
  return function_of(compile(source, nullptr, where), name, where);
}

Arguments& Arguments::pointer(const void* address) {
  list_.push_back({orArgumentPointer, sizeof(address), address});
  return *this;
}

Arguments& Arguments::local(size_t bytes) {
  list_.push_back({orArgumentLocal, bytes, nullptr});
  return *this;
}

Arguments& Arguments::bytes(const void* value, size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(value);
  values_.emplace_back(begin, begin + bytes);
  list_.push_back({orArgumentValue, bytes, values_.back().data()});
  return *this;
}

void Arguments::scribble() {
  for (auto& value : values_) std::memset(value.data(), 0xee, value.size());
  for (orArgument& argument : list_) argument = {orArgumentValue, 0, nullptr};
}

orError_t try_launch(orFunction_t function, const orLaunchConfig& config, const Arguments& arguments,
                     orStream_t stream) {
  return driver.orLaunchFunction(function, &config, arguments.list().data(), arguments.list().size(), stream);
}

orError_t try_launch(orFunction_t function, unsigned groups, unsigned group_size, const Arguments& arguments,
                     orStream_t stream) {
  return try_launch(function, orLaunchConfig{{groups, 1, 1}, {group_size, 1, 1}}, arguments, stream);
}

void launch(orFunction_t function, unsigned groups, unsigned group_size, const Arguments& arguments, orStream_t stream,
            Where where) {
  ok(try_launch(function, groups, group_size, arguments, stream), where);
}

}  // namespace conformance
