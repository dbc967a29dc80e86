// The calls whose instructions tools/instructions counts, on the device and on the CPU. Runs under Callgrind, which
// writes what it has counted to a new file at each request of `repeat`.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <malloc.h>
#include <valgrind/callgrind.h>

#include <cstdio>
#include <cstdlib>
#include <semaphore>
#include <set>
#include <string>
#include <vector>

#include "driver/openreg_extended.h"
#include "runtime/stream.h"

namespace {

// Three loops: the counts of the first are dropped. The cost of one call is the difference of the other two, divided by
// the difference of their lengths, so that what a loop costs once cancels out.
struct Lengths {
  int warm_up;
  int shorter;
  int longer;
};
constexpr Lengths kSmall{20, 50, 150};
constexpr Lengths kStep{4, 2, 6};

template <class Call>
[[gnu::noinline]] void repeat(int times, Call& call) {
  for (int i = 0; i < times; ++i) call();
  CALLGRIND_DUMP_STATS;
}

// The names of the calls to count; all if it is empty.
std::set<std::string>& chosen() {
  static std::set<std::string> names;
  return names;
}

// Prints the name and the lengths for the tool, which finds the counts of each loop in a file of its own.
template <class Call>
void count(const char* name, c10::Device device, Lengths lengths, Call call) {
  if (!chosen().empty() && !chosen().contains(name)) return;
  std::printf("%s\t%s\t%d\t%d\n", name, device.is_cpu() ? "CPU" : "device", lengths.shorter, lengths.longer);
  for (const int times : {lengths.warm_up, lengths.shorter, lengths.longer}) repeat(times, call);
}

void count_calls(c10::Device device) {
  const auto options = at::TensorOptions(device);
  const at::Tensor x = at::ones({16}, options);
  const at::Tensor square = at::ones({16, 16}, options);
  const at::Tensor number = at::ones({}, options);
  const at::Tensor host = at::ones({16});
  at::Tensor target = at::empty({16}, options);
  float sum = 0;
  const auto small = [&](const char* name, auto call) { count(name, device, kSmall, call); };
  small("empty(16)", [&] { return at::empty({16}, options); });
  small("view", [&] { return x.view({4, 4}); });
  small("add(16)", [&] { return at::add(x, x); });
  small("abs(16)", [&] { return at::abs(x); });
  small("exp(16)", [&] { return at::exp(x); });
  small("sum(16)", [&] { return at::sum(x); });
  small("softmax(16, 16)", [&] { return at::softmax(square, 1); });
  small("clone(16)", [&] { return at::clone(x); });
  small("copy_ from the host (16)", [&] { target.copy_(host); });
  small("item", [&] { sum += number.item<float>(); });
}

// While the stream waits for the host, kernels are queued instead of run at once.
class BusyStream {
 public:
  explicit BusyStream(c10::DeviceIndex device) : stream_(openreg::current_stream_handle(device)) {
    check(orLaunchHostFunction(stream_, [](void* self) { static_cast<BusyStream*>(self)->end_.acquire(); }, this));
  }
  ~BusyStream() {
    end_.release();
    check(orStreamSynchronize(stream_));
  }
  BusyStream(const BusyStream&) = delete;
  BusyStream& operator=(const BusyStream&) = delete;

 private:
  static void check(orError_t error) {
    if (error != orSuccess) std::abort();
  }

  orStream_t stream_;
  std::binary_semaphore end_{0};
};

void count_queued(c10::Device device) {
  const at::Tensor x = at::ones({16}, at::TensorOptions(device));
  const auto call = [&] { return at::abs(x); };
  if (device.is_cpu()) return count("abs(16), queued", device, kSmall, call);
  const BusyStream busy(device.index());
  count("abs(16), queued", device, kSmall, call);
}

// The network and the step of benchmarks/operators.py: two linear layers, cross entropy, SGD with momentum. The update
// is what PyTorch's optimizer requests of a device that has operators for lists of tensors.
void count_step(c10::Device device) {
  const auto options = at::TensorOptions(device);
  const auto parameter = [&](at::IntArrayRef sizes) {
    return at::ones(sizes, options).mul_(0.01).set_requires_grad(true);
  };
  std::vector<at::Tensor> parameters{parameter({128, 64}), parameter({128}), parameter({10, 128}), parameter({10})};
  std::vector<at::Tensor> momenta;
  for (const at::Tensor& one : parameters) momenta.push_back(at::zeros_like(one));
  const at::Tensor x = at::ones({32, 64}, options);
  const at::Tensor y = at::zeros({32}, options.dtype(at::kLong));
  count("training step", device, kStep, [&] {
    for (at::Tensor& one : parameters) one.mutable_grad().reset();
    const at::Tensor hidden = at::relu(at::linear(x, parameters[0], parameters[1]));
    at::cross_entropy_loss(at::linear(hidden, parameters[2], parameters[3]), y).backward();
    const c10::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& one : parameters) gradients.push_back(one.grad());
    at::_foreach_mul_(momenta, 0.9);
    at::_foreach_add_(momenta, gradients);
    at::_foreach_add_(parameters, momenta, -0.1);
  });
}

}  // namespace

int main(int count, char** words) {
  chosen().insert(words + 1, words + count);
  c10::register_privateuse1_backend("openreg");  // as the package does; autograd asks for it
  at::set_num_threads(1);
  // Otherwise malloc joins freed memory now and then: a large part of a small call, which depends on what was freed
  // before.
  mallopt(M_MXFAST, 0);
  CALLGRIND_START_INSTRUMENTATION;  // not sooner: loading PyTorch would take a minute
  for (const c10::Device device : {c10::Device(c10::kCPU), c10::Device(c10::kPrivateUse1, 0)}) {
    count_calls(device);
    count_queued(device);
    count_step(device);
  }
  CALLGRIND_STOP_INSTRUMENTATION;  // the end of the process, which nobody asks about, at full speed
  return 0;
}
