# Written by CMake from cmake/build_info.py.in.
TORCH_VERSION: str
