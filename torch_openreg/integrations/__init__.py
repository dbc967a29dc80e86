"""Libraries of users that must be told about the device: one module for each, with `register()` and `unregister()`.

Neither `import torch` nor `import torch_openreg` imports this package, and none of its modules changes a library
before `register()` is called. `torch_openreg.integrations.safetensors` is for safetensors, and so on.
"""
