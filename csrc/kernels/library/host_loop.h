// Stubs whose loop is a library function: here one of PyTorch's CPU loops, over the device's bytes.
//
// A stub receives a TensorIterator: a call whose shapes, dtypes and memory are settled. A vendor's loops take their
// place, and generate_structured.py registers them in the same way. For kernel files only: see Note [Host code as
// kernels].
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <c10/util/FunctionRef.h>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/launch.h"
#include "kernels/library/known_dtypes.h"

namespace openreg {

// A tensor without elements, in whose place a loop reads the dtype of an operand. Never destroyed: kernels may run
// until the process ends.
const at::TensorBase& empty_tensor(at::ScalarType dtype);

// LITERALINCLUDE START: host-loop-iterator
// The iterator of a call, converted for loops of the host: it has host addresses, and one dtype for all operands,
// unless the loop takes operands of several.
//
// It holds none of the caller's tensors (Note [What a kernel holds]): a loop that asks for one gets an empty tensor.
class HostIterator final : public at::TensorIteratorBase {
 public:
  using Loop = c10::function_ref<void(HostIterator&)>;

  HostIterator(const at::TensorIteratorBase& iter, bool converts);

  size_t bytes() const { return bytes_; }  // of all operands on the device

  // Calls loop(iterator). Requires: called inside a kernel. For the CPU, PyTorch converts operands to the common dtype
  // while it builds the iterator; for other devices it leaves that to the kernel. A captured graph calls it many times.
  void run(Loop loop);

 private:
  const at::Tensor& maybe_get_output(int64_t i) override;
  bool to_convert(const at::OperandInfo& operand) const;
  at::Tensor view(const at::OperandInfo& operand) const;
  void replace(at::OperandInfo& operand, const at::Tensor& there, const at::Tensor& converted) const;
  void convert_and_run(Loop loop);

  bool converts_;
  size_t bytes_ = 0;
};
// LITERALINCLUDE END: host-loop-iterator

// LITERALINCLUDE START: host-loop-launch
// A loop of the library, and its numbers. The loop is a value, not a template parameter, so that the code below is
// compiled once for all stubs with the same types of numbers.
template <class... Numbers>
struct HostLoopCall {
  HostIterator host;
  void (*loop)(HostIterator&, const Numbers&...);
  std::tuple<Numbers...> numbers;

  void run(HostIterator& on) const {
    std::apply([&](const auto&... number) { loop(on, number...); }, numbers);
  }
  void operator()() {
    host.run([this](HostIterator& on) { run(on); });
  }
};

// Queues loop(iterator, numbers...) over the device's bytes. Waits for the loop's errors if it has not accepted these
// dtypes before, even over no elements, and if it may reject integers for their values (kWaits). Operands keep their
// dtypes if it takes several (kMixed).
template <bool kWaits, bool kMixed, class... Numbers>
void launch_host_loop(const char* name, const at::TensorIteratorBase& iter, KnownDtypes& known,
                      void (*loop)(HostIterator&, const Numbers&...), const Numbers&... numbers) {
  Dtypes dtypes(numbers...);
  for (int i = 0; i < iter.ntensors(); ++i) dtypes.add(iter.dtype(i));
  dtypes.add_kind(iter.numel() == 1 ? 1 : 0);  // some loops take a single number apart
  const bool is_known = known.has(dtypes);
  if (is_known && iter.numel() == 0) {
    return;
  }
  const bool wait = !is_known || (kWaits && at::isIntegralType(iter.common_dtype(), true));
  HostLoopCall<Numbers...> call{HostIterator(iter, !kMixed), loop, {numbers...}};
  const size_t bytes = call.host.bytes();
  const bool has_run = launch(name, iter.device(0).index(), bytes, std::move(call), wait);
  if (wait && has_run) known.add(dtypes);
}
// LITERALINCLUDE END: host-loop-launch

// LITERALINCLUDE START: host-loop-stub
// A string literal as a template parameter.
template <size_t N>
struct Name {
  consteval Name(const char (&literal)[N]) { std::copy_n(literal, N, text); }
  char text[N];
};

// The CPU's loop for a stub, as the device's kernel for the same stub.
template <Name kName, auto& kStub, bool kWaits, bool kMixed = false,
          class Function = typename std::remove_reference_t<decltype(kStub)>::FnPtr>
struct LibraryLoop;

template <Name kName, auto& kStub, bool kWaits, bool kMixed, class Iterator, class... Numbers>
struct LibraryLoop<kName, kStub, kWaits, kMixed, void (*)(Iterator&, Numbers...)> {
  static void kernel(Iterator& iter, Numbers... numbers) {
    static KnownDtypes known;
    launch_host_loop<kWaits, kMixed, std::decay_t<Numbers>...>(kName.text, iter, known, call, numbers...);
  }

 private:
  static void call(HostIterator& host, const std::decay_t<Numbers>&... numbers) {
    if constexpr (std::is_same_v<Iterator, at::TensorIterator>) {
      at::TensorIterator final_class(host);
      kStub(c10::kCPU, final_class, numbers...);
    } else {
      kStub(c10::kCPU, host, numbers...);
    }
  }
};
// LITERALINCLUDE END: host-loop-stub

}  // namespace openreg
