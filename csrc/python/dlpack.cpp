// Imports through DLPack: what PyTorch neither checks nor waits for. torch_openreg/_dlpack.py calls it.
//
// PyTorch believes what a capsule says about its memory, and calls the producer's deleter as soon as the last tensor is
// gone, although work that reads the memory may still be queued.
#include <ATen/dlpack.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>

#include "python/bindings.h"
#include "runtime/device.h"
#include "runtime/dlpack.h"
#include "runtime/error.h"
#include "runtime/stream.h"

namespace py = pybind11;

namespace openreg {
namespace {

// LITERALINCLUDE START: dlpack-deleter
// The producer's own deleter and its argument, and the stream that was current when the tensor was imported.
template <class Managed>
struct Import {
  void* context;
  void (*deleter)(Managed*);
  c10::Stream stream;
};

// Waits for what is queued on both streams: the one that was current at the import, and the calling thread's. Work on
// any other stream must have been ordered before one of them.
void wait_for_all_readers(const c10::Stream& imported_on) noexcept {
  if (is_in_bad_fork()) return;  // the device's work belongs to the parent
  try {
    // A deleter runs where the last reference is dropped: in Python with the GIL, in a C++ thread without it.
    std::optional<py::gil_scoped_release> no_gil;
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) no_gil.emplace();
    wait_for_readers(imported_on);
    wait_for_readers(current_stream(imported_on.device_index()));
  } catch (const std::exception& error) {
    warn(error);  // NOT PROVEN: tests/interop/test_dlpack_import.py fails the device
  }
}

// Called once, by the last tensor, or by a capsule that nobody consumed.
template <class Managed>
void release(Managed* tensor) {
  const std::unique_ptr<Import<Managed>> import(static_cast<Import<Managed>*>(tensor->manager_ctx));
  wait_for_all_readers(import->stream);
  tensor->manager_ctx = import->context;
  tensor->deleter = import->deleter;
  if (tensor->deleter != nullptr) tensor->deleter(tensor);
}
// LITERALINCLUDE END: dlpack-deleter

// LITERALINCLUDE START: dlpack-prepare
template <class Managed>
void prepare(Managed* tensor) {
  const DLTensor& array = tensor->dl_tensor;
  if (array.device.device_type != kDLExtDev) return;
  check_dlpack_memory(array);
  const c10::Stream stream = current_stream(array.device.device_id);
  tensor->manager_ctx = new Import<Managed>{tensor->manager_ctx, tensor->deleter, stream};
  tensor->deleter = &release<Managed>;
}

// Prepares a capsule before PyTorch consumes it. Capsules for other devices stay as they are; a consumed one is for
// PyTorch to reject.
void prepare_dlpack_import(const py::object& capsule) {
  const auto content = [&](const char* name) -> void* {
    return PyCapsule_IsValid(capsule.ptr(), name) != 0 ? PyCapsule_GetPointer(capsule.ptr(), name) : nullptr;
  };
  if (void* const tensor = content("dltensor")) {
    prepare(static_cast<DLManagedTensor*>(tensor));
  } else if (void* const versioned = content("dltensor_versioned")) {
    auto* const managed = static_cast<DLManagedTensorVersioned*>(versioned);
    // In another major version, only what comes before the tensor is where this header says. PyTorch rejects it.
    if (managed->version.major == DLPACK_MAJOR_VERSION) prepare(managed);
  }
}
// LITERALINCLUDE END: dlpack-prepare

const Bindings dlpack_bindings([](py::module_& m) {
  m.def("_prepare_dlpack_import", &prepare_dlpack_import, py::arg("capsule"));
});

}  // namespace
}  // namespace openreg
