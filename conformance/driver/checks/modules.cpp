// Loading kernels: what the compiler takes and refuses, binaries, names, and the end of a module.
#include <future>
#include <string>
#include <vector>

#include "module.h"

namespace conformance {
namespace {

// FACTOR comes from the compiler's options.
constexpr const char* kScale = R"(
#ifndef FACTOR
#define FACTOR 3
#endif
__kernel void scale(__global int* x, int count) {
  int i = (int)get_global_id(0);
  if (i < count) x[i] = x[i] * FACTOR;
}
__kernel void negate(__global int* x, int count) {
  int i = (int)get_global_id(0);
  if (i < count) x[i] = -x[i];
}
)";

// Runs a function of kScale on 1000 numbers, and compares each with the number times the factor.
void expect_scaled(orFunction_t function, int factor, const std::string& what, Where where = Where::current()) {
  constexpr int kCount = 1000;
  std::vector<int> numbers(kCount);
  std::vector<int> expected(kCount);
  for (int i = 0; i < kCount; ++i) {
    numbers[static_cast<size_t>(i)] = i - 10;
    expected[static_cast<size_t>(i)] = (i - 10) * factor;
  }
  int* const device = device_values(numbers, where);
  launch(function, kCount / 8, 8, Arguments().pointer(device).value(kCount), nullptr, where);
  ok(driver.orStreamSynchronize(nullptr), where);
  expect_values(expected, values_at(device, kCount, where), what, where);
  ok(driver.orFree(device), where);
}

void source_compiles() {
  const orModule_t module = compile(kScale);
  expect_scaled(function_of(module, "scale"), 3, "what the first function of a module computed");
  expect_scaled(function_of(module, "negate"), -1, "what the second function of a module computed");
}

void options_reach_the_compiler() {
  expect_scaled(function_of(compile(kScale, "-DFACTOR=7"), "scale"), 7, "a kernel compiled with -DFACTOR=7");
  expect_scaled(function_of(compile(kScale, ""), "scale"), 3, "a kernel compiled with empty options");
}

void mistakes_are_shown() {
  (void)compile(kScale);  // throws where there is no compiler
  std::string source(36, '\n');
  source += "__kernel void wrong(__global int* x) { x[0] = not_declared; }\n";
  orModule_t module = nullptr;
  const orError_t answer = driver.orModuleLoad(&module, orModuleSource, source.data(), source.size(), nullptr);
  refused(orErrorCompilation, answer, "a name that is not declared");
  const std::string log = driver.orGetErrorDetail();
  for (const char* const part : {"not_declared", "37"}) {
    expect(log.find(part) != std::string::npos, std::string("'") + part + "' in the compiler's log, for line 37",
           "'" + log + "'");
  }
  expect_scaled(function_of(compile(kScale), "scale"), 3, "a module loaded after a mistake");
}

std::vector<char> binary_of(orModule_t module) {
  need("binaries of modules");
  size_t bytes = 0;
  offered(driver.orModuleGetBinary(nullptr, &bytes, module), "binaries of modules");
  expect(bytes > 0, "the size of a module's binary", "0");
  std::vector<char> binary(bytes);
  ok(driver.orModuleGetBinary(binary.data(), &bytes, module));
  expect_equal(static_cast<int64_t>(binary.size()), static_cast<int64_t>(bytes), "the size of the binary, given room");
  return binary;
}

void binary_loads_again() {
  const orModule_t first = compile(kScale, "-DFACTOR=5");
  const auto binary = binary_of(first);
  ok(driver.orModuleUnload(first));
  orModule_t second = nullptr;
  ok(driver.orModuleLoad(&second, orModuleBinary, binary.data(), binary.size(), nullptr));
  expect_scaled(function_of(second, "scale"), 5, "a kernel loaded from a binary");
  expect_scaled(function_of(second, "negate"), -1, "another kernel of that binary");
}

void too_little_room_is_refused() {
  const orModule_t module = compile(kScale);
  auto binary = binary_of(module);
  size_t bytes = binary.size() - 1;
  refused(orErrorOutOfRange, driver.orModuleGetBinary(binary.data(), &bytes, module), "one byte too few");
}

void foreign_binary_is_refused() {
  (void)binary_of(compile(kScale));
  const auto foreign = pattern(4096, 1);
  orModule_t module = nullptr;
  refused(orErrorCompilation, driver.orModuleLoad(&module, orModuleBinary, foreign.data(), foreign.size(), nullptr),
          "4096 bytes that no driver made");
  expect(*driver.orGetErrorDetail() != '\0', "a text about the binary", "none");
}

void unknown_format_is_refused() {
  (void)compile(kScale);
  orModule_t module = nullptr;
  const auto format = static_cast<orModuleFormat>(99);
  const orError_t answer = driver.orModuleLoad(&module, format, kScale, 10, nullptr);
  // A driver cannot take a format, or knows that there is none of that number.
  if (answer != orErrorInvalidValue) refused(orErrorNotSupported, answer, "format 99");
  refused(orErrorInvalidValue, driver.orModuleLoad(&module, orModuleSource, nullptr, 10, nullptr), "no source");
  refused(orErrorInvalidValue, driver.orModuleLoad(nullptr, orModuleSource, kScale, 10, nullptr), "no module");
}

void unknown_function_is_refused() {
  const orModule_t module = compile(kScale);
  orFunction_t function = nullptr;
  refused(orErrorInvalidValue, driver.orModuleGetFunction(&function, module, "shrink"), "a name that is none");
  const std::string text = driver.orGetErrorDetail();
  for (const char* const name : {"scale", "negate"}) {
    expect(text.find(name) != std::string::npos, std::string("a text that names the function ") + name,
           "'" + text + "'");
  }
}

void attributes_are_filled() {
  const orModule_t module = compile(kScale);
  orFunctionAttributes attributes;
  std::memset(&attributes, 0xff, sizeof(attributes));
  ok(driver.orFunctionGetAttributes(&attributes, function_of(module, "scale")));
  const orDeviceProp device = properties_of(0);
  expect_equal(2, attributes.argument_count, "the number of arguments");
  const auto limit = static_cast<size_t>(device.max_group_size);
  expect(attributes.max_group_size >= 1 && attributes.max_group_size <= limit,
         "a largest group from 1 to the device's " + std::to_string(limit), std::to_string(attributes.max_group_size));
  expect(attributes.group_size_multiple >= 1 && attributes.group_size_multiple <= limit,
         "a multiple from 1 to " + std::to_string(limit), std::to_string(attributes.group_size_multiple));
  expect(attributes.local_memory <= device.local_memory, "no more local memory than the device has",
         std::to_string(attributes.local_memory));
}

void unloading_waits_and_ends() {
  const orModule_t module = compile(kScale);
  const orFunction_t function = function_of(module, "scale");
  const orStream_t stream = new_stream();
  int* const device = device_values(std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8});
  const Busy busy(stream);
  launch(function, 1, 8, Arguments().pointer(device).value(8), stream);
  ok(driver.orModuleUnload(module));
  busy.must_be_over("orModuleUnload returned");
  expect_values({3, 6, 9, 12, 15, 18, 21, 24}, values_at(device, 8), "what a module computed that was unloaded");
  orFunction_t again = nullptr;
  refused(orErrorInvalidHandle, driver.orModuleUnload(module), "a module that was unloaded");
  refused(orErrorInvalidHandle, driver.orModuleGetFunction(&again, module, "scale"), "a module that was unloaded");
  refused(orErrorInvalidHandle, try_launch(function, 1, 8, Arguments().pointer(device).value(8), stream),
          "a function of a module that was unloaded");
}

void modules_are_apart() {
  const orModule_t first = compile(kScale, "-DFACTOR=2");
  const orModule_t second = compile(kScale, "-DFACTOR=4");
  const orFunction_t twice = function_of(first, "scale");
  const orFunction_t four_times = function_of(second, "scale");
  expect_scaled(twice, 2, "a function whose name another module has too");
  expect_scaled(four_times, 4, "a function whose name another module has too");
  ok(driver.orModuleUnload(first));
  expect_scaled(four_times, 4, "a function after another module was unloaded");
}

void threads_compile_at_once() {
  (void)compile(kScale);
  std::vector<std::future<void>> threads;
  for (const int factor : {11, 12, 13, 14}) {
    threads.push_back(std::async(std::launch::async, [factor] {
      const std::string options = "-DFACTOR=" + std::to_string(factor);
      expect_scaled(function_of(compile(kScale, options.c_str()), "scale"), factor,
                    "a kernel that one of several threads compiled");
    }));
  }
  for (auto& thread : threads) thread.get();
}

constexpr Check kChecks[] = {
    {"modules", "source text compiles", "every kernel of a backend that writes its kernels in the device's language",
     source_compiles},
    {"modules", "options reach the compiler", "one source serves several dtypes by -DT=float and -DT=int",
     options_reach_the_compiler},
    {"modules", "a mistake is shown with its line", "the exception is the only log that the author of a kernel reads",
     mistakes_are_shown},
    {"modules", "a module's binary can be loaded again", "a cache on disk: the next process need not compile",
     binary_loads_again},
    {"modules", "too little room for the binary is refused", "the cache writes whole binaries or none",
     too_little_room_is_refused},
    {"modules", "a foreign binary is refused", "a cache written by another version is compiled again, not run",
     foreign_binary_is_refused},
    {"modules", "other formats and missing values are refused", "a mistake in the backend becomes an exception",
     unknown_format_is_refused},
    {"modules", "an unknown function is refused, with those that there are",
     "a kernel renamed on one side only is found in a minute", unknown_function_is_refused},
    {"modules", "a function has attributes", "the size of its groups is chosen by them", attributes_are_filled},
    {"modules", "unloading waits, and ends the functions", "a cache of kernels drops the oldest while streams are busy",
     unloading_waits_and_ends},
    {"modules", "modules do not share names", "one function compiled for each dtype has one name", modules_are_apart},
    {"modules", "threads compile at once", "the threads of autograd reach an operator for the first time together",
     threads_compile_at_once},
};

}  // namespace

std::span<const Check> module_checks() { return kChecks; }

}  // namespace conformance
