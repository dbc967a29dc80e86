# PyTorch as three imported libraries: torch::c10, torch::cpu, torch::python.
#
# find_package(Torch) is not used: with a CUDA wheel it requires the CUDA toolkit, which a backend for another device
# does not need. What links these libraries gets no RPATH to them: at run time they are already loaded, because the
# package imports torch first, and the loader finds them by name.

execute_process(
  COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/locate_torch.py
  RESULT_VARIABLE torch_result
  OUTPUT_VARIABLE torch_facts
  ERROR_VARIABLE torch_error
  ERROR_STRIP_TRAILING_WHITESPACE)
if(NOT torch_result EQUAL 0)
  message(FATAL_ERROR "torch_openreg is built against an installed PyTorch, with pip install --no-build-isolation: "
                      "${torch_error}")
endif()
list(GET torch_facts 0 OPENREG_TORCH_VERSION)
list(GET torch_facts 1 torch_include)
list(GET torch_facts 2 torch_lib)
list(GET torch_facts 3 torch_cxx11_abi)
list(GET torch_facts 4 torch_xpu)

message(STATUS "PyTorch ${OPENREG_TORCH_VERSION}: ${torch_include}")

# LITERALINCLUDE START: build-other-torch
# A build folder can outlive the PyTorch that it was configured with. If another one replaces it, CMake runs again; the
# version is part of each command (below), so that everything is recompiled, whatever the times of the headers.
cmake_path(GET torch_include PARENT_PATH torch_root)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${torch_root}/version.py)
# The list of PyTorch's operators, which is part of the package torchgen, next to torch.
set(torch_schemas ${torch_root}/../torchgen/packaged/ATen/native)
# LITERALINCLUDE END: build-other-torch

# LITERALINCLUDE START: build-imported-torch
foreach(name IN ITEMS c10 cpu python)
  add_library(torch::${name} SHARED IMPORTED)
  # IMPORTED targets are SYSTEM, which suppresses warnings in PyTorch's headers: we cannot fix them.
  set_target_properties(torch::${name} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES
                                                  "${torch_include};${torch_include}/torch/csrc/api/include")
  # Without AT_PER_OPERATOR_HEADERS, many narrow headers include the declarations of all operators after all.
  target_compile_definitions(torch::${name} INTERFACE _GLIBCXX_USE_CXX11_ABI=${torch_cxx11_abi}
                                                      AT_PER_OPERATOR_HEADERS
                                                      OPENREG_TORCH_VERSION=${OPENREG_TORCH_VERSION})
  if(torch_xpu)
    # DispatchStub.h has one more pointer in an XPU build; without the macro the PrivateUse1 slot would be misplaced.
    target_compile_definitions(torch::${name} INTERFACE USE_XPU)
  endif()
endforeach()
set_target_properties(torch::c10 PROPERTIES IMPORTED_LOCATION ${torch_lib}/libc10.so)
set_target_properties(torch::cpu PROPERTIES IMPORTED_LOCATION ${torch_lib}/libtorch_cpu.so)
set_target_properties(torch::python PROPERTIES IMPORTED_LOCATION ${torch_lib}/libtorch_python.so)
# LITERALINCLUDE END: build-imported-torch

# LITERALINCLUDE START: build-kineto
# Kineto, the library behind torch.profiler, is part of libtorch_cpu. Its headers include each other by their bare names
# and format with fmt, whose functions no library of the wheel exports.
if(NOT EXISTS ${torch_include}/kineto/libkineto.h)
  message(FATAL_ERROR "This PyTorch was built without Kineto (USE_KINETO=0), so torch.profiler records nothing of any "
                      "device. Take out the folder profiler in csrc/CMakeLists.txt to build without csrc/profiler.")
endif()
add_library(torch::kineto INTERFACE IMPORTED)
target_include_directories(torch::kineto SYSTEM INTERFACE ${torch_include}/kineto)
target_compile_definitions(torch::kineto INTERFACE USE_KINETO FMT_HEADER_ONLY=1)
target_link_libraries(torch::kineto INTERFACE torch::cpu)
# LITERALINCLUDE END: build-kineto
