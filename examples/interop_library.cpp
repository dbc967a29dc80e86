// A library that knows the device's driver and DLPack, and nothing of PyTorch: it lends its memory, and writes to
// memory of others. Compiled, loaded and used by interop_library.py.
#include <ATen/dlpack.h>  // only the C declarations of DLPack, which PyTorch ships
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "driver/openreg.h"

namespace py = pybind11;

namespace {

std::atomic<int> released{0};

void check(orError_t error) {
  if (error != orSuccess) throw std::runtime_error(orGetErrorDetail());
}

// Makes a device current in a scope: PyTorch relies on the current device of the thread.
class Current {
 public:
  explicit Current(int device) {
    check(orGetDevice(&previous_));
    check(orSetDevice(device));
  }
  ~Current() { [[maybe_unused]] const orError_t ignored = orSetDevice(previous_); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  int previous_ = 0;
};

// LITERALINCLUDE START: interop-library-array
// Device memory of the library, filled on a stream of the library.
class Memory {
 public:
  Memory(int64_t elements, uint8_t byte, int32_t device) : Memory(elements, device) {
    const Current current(device);
    check(orStreamCreate(&stream));
    check(orEventCreateWithFlags(&written, orEventDisableTiming));
    check(orMalloc(&data, elements * sizeof(float)));
    check(orMemsetAsync(data, byte, elements * sizeof(float), stream));
  }
  ~Memory() {
    // A destructor cannot report an error; the next call of the driver that waits does.
    [[maybe_unused]] orError_t ignored = orFree(data);
    if (written != nullptr) ignored = orEventDestroy(written);
    if (stream != nullptr) ignored = orStreamDestroy(stream);
    ++released;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::vector<int64_t> shape;
  int32_t device;
  orStream_t stream = nullptr;
  orEvent_t written = nullptr;
  void* data = nullptr;

 private:
  // Once it has returned, the destructor runs even if the other constructor throws.
  Memory(int64_t elements, int32_t index) : shape{elements}, device{index} {}
};
// LITERALINCLUDE END: interop-library-array

// LITERALINCLUDE START: interop-library-export
// What a capsule points to: the description of the memory, and a share in it.
struct Loan {
  DLManagedTensorVersioned managed{};
  std::shared_ptr<Memory> memory;
};

void end_loan(DLManagedTensorVersioned* managed) { delete static_cast<Loan*>(managed->manager_ctx); }

// Runs when a capsule dies. A consumer renames the capsule, and calls the deleter itself; it may also have put its own
// loan around this one, and died before it renamed the capsule. So the deleter is asked for, not assumed.
void end_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned") != 0) {
    auto* const managed = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    managed->deleter(managed);
  }
}

class Array {
 public:
  Array(int64_t elements, uint8_t byte, int32_t device) : memory_(std::make_shared<Memory>(elements, byte, device)) {}

  py::tuple dlpack_device() const { return py::make_tuple(static_cast<int>(kDLExtDev), memory_->device); }

  // `stream` is the driver's handle of the stream on which the consumer will use the memory; None is the default one,
  // and with -1 the consumer orders the streams itself.
  py::capsule dlpack(std::optional<int64_t> stream, const py::object& max_version) const {
    const bool is_old = max_version.is_none() || max_version.cast<std::pair<uint32_t, uint32_t>>().first < 1;
    if (is_old) throw py::buffer_error("this library exports DLPack 1.0 only");
    if (stream != -1) let_wait(reinterpret_cast<orStream_t>(stream.value_or(0)));
    auto loan = std::make_unique<Loan>();
    loan->memory = memory_;
    loan->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    loan->managed.manager_ctx = loan.get();
    loan->managed.deleter = end_loan;
    loan->managed.dl_tensor = {
        memory_->data, {kDLExtDev, memory_->device}, 1, {kDLFloat, 32, 1}, memory_->shape.data(), nullptr, 0};
    return py::capsule(&loan.release()->managed, "dltensor_versioned", end_capsule);
  }

 private:
  void let_wait(orStream_t consumer) const {
    const Current current(memory_->device);
    check(orEventRecord(memory_->written, memory_->stream));
    check(orStreamWaitEvent(consumer, memory_->written));
  }

  std::shared_ptr<Memory> memory_;
};
// LITERALINCLUDE END: interop-library-export

// LITERALINCLUDE START: interop-library-consume
// Sets all bytes of a contiguous tensor, on the stream that is current for its library, without a capsule.
void fill_bytes(const py::object& tensor, uint8_t byte) {
  const py::capsule table = py::type::of(tensor).attr("__dlpack_c_exchange_api__");
  const auto* const api = static_cast<const DLPackExchangeAPI*>(table.get_pointer());
  DLTensor array{};
  if (api->dltensor_from_py_object_no_sync(tensor.ptr(), &array) != 0) throw py::error_already_set();
  if (array.device.device_type != kDLExtDev) throw py::buffer_error("this library writes to its device only");
  void* stream = nullptr;
  if (api->current_work_stream(kDLExtDev, array.device.device_id, &stream) != 0) throw py::error_already_set();
  int64_t elements = 1;
  bool is_contiguous = true;
  for (int32_t i = array.ndim - 1; i >= 0; --i) {
    is_contiguous &= array.strides == nullptr || array.shape[i] == 1 || array.strides[i] == elements;
    elements *= array.shape[i];
  }
  if (!is_contiguous && elements != 0) throw py::buffer_error("this library writes to contiguous tensors only");
  const Current current(array.device.device_id);
  check(orMemsetAsync(static_cast<char*>(array.data) + array.byte_offset, byte, elements * array.dtype.bits / 8,
                      static_cast<orStream_t>(stream)));
}
// LITERALINCLUDE END: interop-library-consume

}  // namespace

PYBIND11_MODULE(interop_library, m) {
  py::class_<Array>(m, "Array")
      .def(py::init<int64_t, uint8_t, int32_t>(), py::arg("elements"), py::arg("byte"), py::arg("device"))
      .def("__dlpack_device__", &Array::dlpack_device)
      .def("__dlpack__", &Array::dlpack, py::kw_only(), py::arg("stream") = py::none(),
           py::arg("max_version") = py::none());
  m.def("fill_bytes", &fill_bytes, py::arg("tensor"), py::arg("byte"));
  m.def("released", [] { return released.load(); });
}
