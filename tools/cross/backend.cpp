// The backend in a program without Python, so that it also runs on a processor that this machine only emulates. Each
// check computes the same on the CPU and on the device, and compares the values.
//
// Usage: cross_backend. Prints a line for each check, and exits with 1 if one has failed.
#include <ATen/ATen.h>
#include <ATen/DeviceGuard.h>
#include <c10/core/DeviceType.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr at::DeviceType kType = at::DeviceType::PrivateUse1;
const at::Device kDevice(kType, 0);
using Tensors = std::vector<at::Tensor>;

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

// Requires equal shapes, dtypes and values; exactly for integers and bool, as PyTorch's own tests do for the rest.
void require_equal(const at::Tensor& seen, const at::Tensor& expected) {
  require(seen.device().type() == kType, "the result is not on the device");
  const at::Tensor host = seen.cpu();
  require(host.sizes() == expected.sizes() && host.scalar_type() == expected.scalar_type(), "another shape or dtype");
  const double tolerance = expected.scalar_type() == at::kHalf       ? 1e-3
                           : expected.scalar_type() == at::kBFloat16 ? 1.6e-2
                           : expected.scalar_type() == at::kFloat    ? 1.3e-6
                                                                     : 1e-7;
  require(at::allclose(host, expected, tolerance, 1e-5, /*equal_nan=*/true), "other values than on the CPU");
}

using Function = std::function<at::Tensor(const Tensors&)>;

// Compares one function of some tensors on both devices.
void compare(const Function& function, const Tensors& inputs) {
  Tensors moved;
  for (const at::Tensor& input : inputs) moved.push_back(input.to(kDevice));
  require_equal(function(moved), function(inputs));
}

at::Tensor random(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  if (at::isFloatingType(type)) return at::randn(sizes).to(type);
  return at::randint(-5, 6, sizes).to(type);
}

void copies() {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                                    at::kChar, at::kByte, at::kBool, at::kComplexFloat}) {
    const at::Tensor value =
        type == at::kComplexFloat ? at::complex(random({3, 5}), random({3, 5})) : random({3, 5}, type);
    require(at::equal(value.to(kDevice).cpu(), value), std::string("a copy of ") + at::toString(type));
    require(at::equal(value.to(kDevice).t().contiguous().cpu(), value.t()), "a transposed copy");
  }
}

void elementwise() {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kChar}) {
    const Tensors two{random({4, 1, 7}, type), random({3, 7}, type)};
    compare([](const Tensors& in) { return at::add(in[0], in[1], 2); }, two);
    compare([](const Tensors& in) { return in[0].transpose(0, 2).mul(3); }, two);
    compare([](const Tensors& in) { return at::maximum(in[0], in[1]); }, two);
    compare([](const Tensors& in) { return in[0].gt(0); }, two);
  }
  for (const auto function : {at::exp, at::tanh, at::sigmoid, at::erf, at::rsqrt}) {
    compare([&](const Tensors& in) { return function(in[0]); }, {at::rand({5, 9}) + 0.1});
  }
}

void reductions() {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kLong, at::kChar}) {
    compare([](const Tensors& in) { return in[0].sum(1); }, {random({6, 33}, type)});
    compare([](const Tensors& in) { return in[0].amax({0}); }, {random({6, 33}, type)});
  }
  compare([](const Tensors& in) { return at::softmax(in[0], -1); }, {random({6, 33})});
  compare([](const Tensors& in) { return at::layer_norm(in[0], {33}); }, {random({6, 33})});
}

void linear_algebra() {
  compare([](const Tensors& in) { return at::matmul(in[0], in[1]); }, {random({17, 9}), random({9, 5})});
  compare([](const Tensors& in) { return at::bmm(in[0], in[1]); }, {random({2, 7, 9}), random({2, 9, 5})});
  compare([](const Tensors& in) { return at::conv2d(in[0], in[1], {}, 1, 1); },
          {random({2, 3, 8, 8}), random({4, 3, 3, 3})});
}

void fallback() {
  compare([](const Tensors& in) { return std::get<0>(at::linalg_eigh(in[0] + in[0].t())); }, {random({5, 5})});
}

void views_and_indices() {
  compare([](const Tensors& in) { return in[0].index_select(0, in[1]); },
          {random({6, 3}), at::tensor({5, 0, 0}, at::kLong)});
  compare([](const Tensors& in) { return in[0].narrow(1, 2, 3).as_strided({3, 2}, {1, 7}); }, {random({4, 7})});
  compare([](const Tensors& in) { return at::cat({in[0], in[0]}, 1); }, {random({0, 3})});
}

// A network of two layers that learns, on both devices.
void training() {
  at::manual_seed(7);
  const Tensors start{random({16, 8}) * 0.3, random({4, 16}) * 0.3};
  const at::Tensor input = random({32, 8}), target = random({32, 4});
  const auto train = [&](at::Device device) {
    const at::Tensor in = input.to(device), expected = target.to(device);
    Tensors weights;
    for (const at::Tensor& weight : start) weights.push_back(weight.to(device, at::kFloat, false, true));
    double last = 0;
    for (int step = 0; step < 10; ++step) {
      for (at::Tensor& weight : weights) weight = weight.detach().requires_grad_();
      const at::Tensor loss = at::mse_loss(at::gelu(in.matmul(weights[0].t())).matmul(weights[1].t()), expected);
      loss.backward();
      for (at::Tensor& weight : weights) weight = weight.detach() - weight.grad() * 0.1;
      last = loss.item<double>();
    }
    return last;
  };
  const double seen = train(kDevice), expected = train(at::kCPU);
  require(std::abs(seen - expected) < 1e-5,
          "the loss differs: " + std::to_string(seen) + " and " + std::to_string(expected));
}

void streams_and_threads() {
  const c10::impl::VirtualGuardImpl guard(kType);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      const c10::StreamGuard current(guard.getNewStream(kDevice));
      at::Tensor sum = at::zeros({1000}, kDevice);
      for (int step = 0; step < 100; ++step) sum.add_(thread);
      right += sum.cpu().eq(100 * thread).all().item<bool>() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  require(right == 4, "threads with streams of their own saw wrong sums");
}

void errors() {
  try {
    at::empty({1}, at::Device(kType, 99));
  } catch (const c10::Error& error) {
    require(std::string_view(error.what()).find("99") != std::string_view::npos, "the error names no device");
    return;
  }
  require(false, "a device that does not exist raised nothing");
}

}  // namespace

int main() {
  c10::register_privateuse1_backend("openreg");  // autograd asks for it; in Python, the package does this
  const std::vector<std::pair<const char*, void (*)()>> checks{
      {"copies", copies},         {"elementwise", elementwise},
      {"reductions", reductions}, {"linear algebra", linear_algebra},
      {"fallback", fallback},     {"views and indices", views_and_indices},
      {"training", training},     {"streams and threads", streams_and_threads},
      {"errors", errors},
  };
  size_t passed = 0;
  for (const auto& [name, check] : checks) {
    try {
      check();
      ++passed;
      std::printf("%-20s passed\n", name);
    } catch (const std::exception& error) {
      std::printf("%-20s FAILED: %s\n", name, error.what());
    }
    std::fflush(stdout);
  }
  std::printf("backend: %zu of %zu checks passed\n", passed, checks.size());
  return passed == checks.size() ? 0 : 1;
}
