// Stubs that PyTorch calls from operators that it composes, such as kaiser_window, for a build without kernels. No
// fallback can intercept these calls, so the CPU's loop runs here, on copies. It waits for the device.
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Activation.h>
#include <ATen/native/UnaryOps.h>

#include <vector>

namespace openreg {
namespace {

template <class Stub, class... Arguments>
void run_on_host(Stub& stub, at::TensorIteratorBase& iter, const Arguments&... arguments) {
  std::vector<at::Tensor> host;
  for (int operand = 0; operand < iter.ntensors(); ++operand) host.push_back(iter.tensor(operand).cpu());
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false);
  for (int operand = 0; operand < iter.ntensors(); ++operand) {
    if (operand < iter.noutputs()) {
      config.add_output(host[operand]);
    } else {
      config.add_const_input(host[operand]);
    }
  }
  at::TensorIterator on_host = config.build();
  stub(c10::kCPU, on_host, arguments...);
  for (int output = 0; output < iter.noutputs(); ++output) iter.tensor(output).copy_(host[output]);
}

void glu_jvp_kernel(at::TensorIteratorBase& iter) { run_on_host(at::native::glu_jvp_stub, iter); }

void kaiser_window_kernel(at::TensorIteratorBase& iter, int64_t window_length, double beta) {
  run_on_host(at::native::kaiser_window_stub, iter, window_length, beta);
}

}  // namespace
}  // namespace openreg

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(glu_jvp_stub, &openreg::glu_jvp_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(kaiser_window_stub, &openreg::kaiser_window_kernel)
}  // namespace at::native
