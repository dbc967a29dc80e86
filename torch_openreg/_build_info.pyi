# Written by CMake from cmake/build_info.py.in.
TORCH_VERSION: str
DRIVER: str  # the driver's folder as given to CMake; only its name if the path is specific to the build machine
HOST_KERNELS: bool
