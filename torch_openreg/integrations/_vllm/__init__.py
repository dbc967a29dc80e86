"""What vLLM creates for the device: a platform, a worker and an attention backend; and the kernels of the latter."""
