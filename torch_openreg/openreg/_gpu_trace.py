"""Where PyTorch delivers what the backend traces: streams, events and memory, as numbers.

PyTorch looks these registries up by name on `torch.openreg._gpu_trace`, once `torch._C._activate_gpu_trace()` was
called. Each passes its arguments on to the functions that were added to it; nothing takes one away again.
"""

from torch._utils import CallbackRegistry

# LITERALINCLUDE START: gpu-trace-registries
EventCreationCallbacks: CallbackRegistry[int] = CallbackRegistry("openreg event creation")
EventDeletionCallbacks: CallbackRegistry[int] = CallbackRegistry("openreg event deletion")
EventRecordCallbacks: CallbackRegistry[int, int] = CallbackRegistry("openreg event record")
EventWaitCallbacks: CallbackRegistry[int, int] = CallbackRegistry("openreg event wait")
MemoryAllocationCallbacks: CallbackRegistry[int] = CallbackRegistry("openreg memory allocation")
MemoryDeallocationCallbacks: CallbackRegistry[int] = CallbackRegistry("openreg memory deallocation")
StreamCreationCallbacks: CallbackRegistry[int] = CallbackRegistry("openreg stream creation")
DeviceSynchronizationCallbacks: CallbackRegistry[[]] = CallbackRegistry("openreg device synchronization")
StreamSynchronizationCallbacks: CallbackRegistry[int] = CallbackRegistry("openreg stream synchronization")
EventSynchronizationCallbacks: CallbackRegistry[int] = CallbackRegistry("openreg event synchronization")
# LITERALINCLUDE END: gpu-trace-registries
