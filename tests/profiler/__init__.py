"""The profiler."""
