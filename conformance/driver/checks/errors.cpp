// The error functions, which the backend's messages are made of.
#include <future>
#include <set>
#include <string>

#include "check.h"

namespace conformance {
namespace {

constexpr int kNoDevice = 4711;

void every_error_has_a_name() {
  std::set<std::string> names;
  for (int number = orSuccess; number <= orErrorDeinitialized; ++number) {
    const auto error = static_cast<orError_t>(number);
    const char* const name = driver.orGetErrorName(error);
    const char* const sentence = driver.orGetErrorString(error);
    expect(name != nullptr && *name != '\0' && sentence != nullptr && *sentence != '\0',
           "error " + std::to_string(number) + " has a name and a sentence", "null or nothing");
    names.insert(name);
  }
  expect_equal(orErrorDeinitialized + 1, static_cast<int64_t>(names.size()), "the number of different names");
}

void kept_until_asked_for() {
  expect_equal(orSuccess, driver.orGetLastError(), "the last error before the first call");
  ok(driver.orSetDevice(0));
  refused(orErrorInvalidDevice, driver.orSetDevice(kNoDevice), "device 4711");
  ok(driver.orSetDevice(0));
  expect_equal(orErrorInvalidDevice, driver.orPeekLastError(), "the last error, looked at");
  expect_equal(orErrorInvalidDevice, driver.orGetLastError(), "the last error, after it was looked at");
  expect_equal(orSuccess, driver.orPeekLastError(), "the last error, after it was got");
}

void text_says_what_was_given() {
  expect(driver.orGetErrorDetail() != nullptr && *driver.orGetErrorDetail() == '\0',
         "an empty text before the first error", "null or a text");
  refused(orErrorInvalidDevice, driver.orSetDevice(kNoDevice), "device 4711");
  const std::string text = driver.orGetErrorDetail();
  expect(text.find("orSetDevice") != std::string::npos, "a text that names orSetDevice", "'" + text + "'");
  expect(text.find("4711") != std::string::npos, "a text that names the device asked for, 4711", "'" + text + "'");
}

void belong_to_the_thread() {
  ok(driver.orSetDevice(0));
  const auto in_thread = [] {
    refused(orErrorInvalidDevice, driver.orSetDevice(kNoDevice), "device 4711");
    return driver.orPeekLastError();
  };
  expect_equal(orErrorInvalidDevice, std::async(std::launch::async, in_thread).get(), "the last error of a thread");
  expect_equal(orSuccess, driver.orPeekLastError(), "the last error of another thread");
}

// What a driver does not have yet is not asked.
template <class Function, class... Arguments>
void refuses_null(const Function& function, Arguments... arguments) {
  if (function.exists()) refused(orErrorInvalidValue, function(arguments...), std::string("null, ") + function.name());
}

void null_is_refused() {
  refuses_null(driver.orGetDeviceCount, nullptr);
  refuses_null(driver.orGetDevice, nullptr);
  refuses_null(driver.orGetDeviceProperties, nullptr, 0);
  refuses_null(driver.orDriverGetVersion, nullptr);

  size_t bytes = 0;
  refuses_null(driver.orMalloc, nullptr, 8);
  refuses_null(driver.orMallocHost, nullptr, 8);
  refuses_null(driver.orMemGetInfo, nullptr, &bytes);
  refuses_null(driver.orMemGetInfo, &bytes, nullptr);
  refuses_null(driver.orPointerGetAttributes, nullptr, &bytes);
  std::byte* const device = driver.orMalloc.exists() ? device_memory(8) : nullptr;
  refuses_null(driver.orMemcpy, device, nullptr, 8, orMemcpyHostToDevice);
  refuses_null(driver.orMemcpy, nullptr, device, 8, orMemcpyDeviceToHost);
  refuses_null(driver.orMemset, nullptr, 0, 8);

  int number = 0;
  refuses_null(driver.orStreamCreate, nullptr);
  refuses_null(driver.orStreamCreateWithPriority, nullptr, 0);
  refuses_null(driver.orDeviceGetDefaultStream, nullptr, 0);
  refuses_null(driver.orDeviceGetStreamPriorityRange, nullptr, &number);
  refuses_null(driver.orDeviceGetStreamPriorityRange, &number, nullptr);
  orStream_t stream = driver.orStreamCreate.exists() ? new_stream() : nullptr;
  refuses_null(driver.orStreamGetDevice, stream, nullptr);
  refuses_null(driver.orStreamGetPriority, stream, nullptr);

  refuses_null(driver.orEventCreate, nullptr);
  refuses_null(driver.orEventCreateWithFlags, nullptr, orEventDefault);
  orEvent_t event = driver.orEventCreate.exists() ? new_event(orEventDefault) : nullptr;
  refuses_null(driver.orEventElapsedTime, nullptr, event, event);
  orKernel_t kernel = nullptr;
  refuses_null(driver.orGetKernel, nullptr, "sleep");
  refuses_null(driver.orGetKernel, &kernel, nullptr);
}

void not_ready_is_kept_nowhere() {
  orStream_t stream = new_stream();
  const Busy busy(stream);
  const orError_t answer = driver.orStreamQuery(stream);
  if (answer == orSuccess) busy.need_asynchronous("orLaunchKernel");
  refused(orErrorNotReady, answer, "a stream that is busy");
  expect_equal(orSuccess, driver.orPeekLastError(), "the last error after orErrorNotReady");
}

constexpr Check kChecks[] = {
    {"errors", "every error has a name and a sentence", "the message of every exception begins with them",
     every_error_has_a_name},
    {"errors", "an error is kept until it is asked for", "the backend clears it when it has raised the exception",
     kept_until_asked_for},
    {"errors", "the text names the function and what it was given", "it is all that a user sees of the cause",
     text_says_what_was_given},
    {"errors", "errors belong to the thread", "the autograd engine and data loaders call from threads of their own",
     belong_to_the_thread},
    {"errors", "null is refused", "a mistake in the backend becomes an exception and no crash", null_is_refused},
    {"errors", "not ready is an answer and no error", "PyTorch polls events and streams, and errors come later",
     not_ready_is_kept_nowhere},
};

}  // namespace

std::span<const Check> error_checks() { return kChecks; }

}  // namespace conformance
