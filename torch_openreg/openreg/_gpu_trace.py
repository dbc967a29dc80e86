"""Callback registries that receive the backend's trace of streams, events and memory, as numbers.

After `torch._C._activate_gpu_trace()`, PyTorch looks up these registries by name on `torch.openreg._gpu_trace`. Each
passes its arguments to the functions added to it; a function cannot be removed.
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
