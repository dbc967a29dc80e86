// What only C++ code can do with the allocator: raw allocations, a block freed twice, another allocator's memory.
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>

#include <iostream>
#include <string>

namespace {

struct PrintWarnings final : c10::WarningHandler {
  void process(const c10::Warning& warning) override { std::cout << "warning: " << warning.msg() << '\n'; }
};

// Makes a call that must fail, and prints the error.
template <class Call>
void print_error(const char* what, const Call& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    std::cout << what << ": " << error.what_without_backtrace() << '\n';
  }
}

}  // namespace

int main() {
  c10::register_privateuse1_backend("openreg");  // what torch.utils.rename_privateuse1_backend does
  PrintWarnings handler;
  const c10::WarningUtils::WarningHandlerGuard guard(&handler);

  // LITERALINCLUDE START: memory-cpp-raw
  c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(c10::kPrivateUse1);
  const auto allocated = [allocator] { return allocator->getDeviceStats(0).allocated_bytes[0].current; };
  std::cout << "initialized: " << allocator->initialized() << '\n';
  void* const block = allocator->raw_allocate(1000);
  std::cout << "initialized: " << allocator->initialized() << ", allocated: " << allocated() << '\n';
  {
    const at::Tensor sevens = at::full({250}, 7, at::device(c10::kPrivateUse1).dtype(at::kFloat));
    const c10::DataPtr clone = allocator->clone(sevens.data_ptr(), sevens.nbytes());
    const at::Tensor cloned = at::from_blob(clone.get(), sevens.sizes(), sevens.options());
    std::cout << "a clone has memory of its own: " << (clone.get() != sevens.data_ptr())
              << ", and the values: " << cloned.equal(sevens) << '\n';
  }
  allocator->raw_deallocate(block);
  std::cout << "allocated: " << allocated() << '\n';
  allocator->raw_deallocate(block);
  allocator->raw_deallocate(&handler);
  allocator->raw_deallocate(nullptr);
  // LITERALINCLUDE END: memory-cpp-raw

  // LITERALINCLUDE START: memory-cpp-refused
  const c10::Stream stream(c10::Stream::DEFAULT, c10::Device(c10::kPrivateUse1, 0));
  const c10::DataPtr freed(block, block, [](void*) {}, stream.device());
  allocator->recordStream(freed, stream);  // another deleter: another allocator's memory, left alone
  c10::DataPtr stale(block, block, allocator->raw_deleter(), stream.device());
  print_error("record_stream of freed memory", [&] { allocator->recordStream(stale, stream); });
  stale.release_context();
  print_error("a memory pool", [&] { allocator->emptyCache({1, 0}); });
  print_error("too many bytes", [&] { allocator->allocate(SIZE_MAX - 100); });
  // LITERALINCLUDE END: memory-cpp-refused
}
