// Stubs whose loop is a function of a library: here of PyTorch's own for the CPU, over the device's bytes.
//
// A stub hands over a TensorIterator: what is left of a call when shapes, dtypes and memory are settled. A vendor's
// loops take the same place, and generate_structured.py registers them in the same way. For kernel files only:
// see Note [Host code as kernels].
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

// LITERALINCLUDE START: host-loop-iterator
// The iterator of a call as the host's loops want it: with the host's addresses, and one dtype for all operands.
//
// It holds no tensor of the caller, as Note [What a kernel holds] asks: a loop that wants one of the device's gets an
// empty one.
class HostIterator final : public at::TensorIteratorBase {
 public:
  using Loop = c10::function_ref<void(HostIterator&)>;

  explicit HostIterator(const at::TensorIteratorBase& iter);

  // Calls loop(iterator). To be called inside a kernel. For the CPU PyTorch converts operands of another dtype while
  // it builds the iterator; for other devices it leaves that to the kernel.
  void run(Loop loop);

 private:
  const at::Tensor& maybe_get_output(int64_t i) override;
  bool to_convert(const at::OperandInfo& operand) const;
  at::Tensor view(const at::OperandInfo& operand) const;
  void replace(at::OperandInfo& operand, const at::Tensor& there, const at::Tensor& converted) const;
};
// LITERALINCLUDE END: host-loop-iterator

// LITERALINCLUDE START: host-loop-launch
// A loop of the library with the numbers that it takes. Which loop it is, is a value, so that what follows is compiled
// once for all stubs with the same types of numbers.
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

// The work of a kernel in bytes; adds the dtypes of the operands to those of the numbers.
size_t work_and_dtypes(const at::TensorIteratorBase& iter, Dtypes& dtypes);

// Queues loop(iterator, numbers...) over the bytes of the device. Waits for what the loop says where it has not taken
// such dtypes before, be it over no elements, and where it refuses integers by their values (kWaits).
template <bool kWaits, class... Numbers>
void launch_host_loop(const char* name, const at::TensorIteratorBase& iter, KnownDtypes& known,
                      void (*loop)(HostIterator&, const Numbers&...), const Numbers&... numbers) {
  Dtypes dtypes(numbers...);
  const size_t bytes = work_and_dtypes(iter, dtypes);
  const bool is_known = known.has(dtypes);
  if (is_known && iter.numel() == 0) {
    return;
  }
  const bool wait = !is_known || (kWaits && at::isIntegralType(iter.common_dtype(), true));
  HostLoopCall<Numbers...> call{HostIterator(iter), loop, {numbers...}};
  launch(name, iter.device(0).index(), bytes, std::move(call), wait);
  if (wait) known.add(dtypes);
}
// LITERALINCLUDE END: host-loop-launch

// LITERALINCLUDE START: host-loop-stub
// A name as a parameter of a template.
template <size_t N>
struct Name {
  consteval Name(const char (&literal)[N]) { std::copy_n(literal, N, text); }
  char text[N];
};

// The loop that the CPU has for a stub, as a kernel for the same stub.
template <Name kName, auto& kStub, bool kWaits,
          class Function = typename std::remove_reference_t<decltype(kStub)>::FnPtr>
struct LibraryLoop;

template <Name kName, auto& kStub, bool kWaits, class Iterator, class... Numbers>
struct LibraryLoop<kName, kStub, kWaits, void (*)(Iterator&, Numbers...)> {
  static void kernel(Iterator& iter, Numbers... numbers) {
    static KnownDtypes known;
    launch_host_loop<kWaits, std::decay_t<Numbers>...>(kName.text, iter, known, call, numbers...);
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
