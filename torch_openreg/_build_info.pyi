# Written by CMake from cmake/build_info.py.in.
TORCH_VERSION: str
DRIVER: str  # the folder, as CMake was given it; its name alone where the path is of the machine that built
HOST_KERNELS: bool
