# Counts which lines run (clang only), for the weaver. Everything compiled after this file is included is instrumented.
# The counters are in a shared file mapping, so that none are lost when a process is killed.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "OPENREG_COVERAGE needs clang, not ${CMAKE_CXX_COMPILER_ID}: name it by CXX")
endif()

# Sets the counters of one library to zero. It is not instrumented itself: the options below come later.
add_library(openreg_counters OBJECT ${CMAKE_SOURCE_DIR}/weaver/weaver/proof/counters.cpp)
target_compile_definitions(openreg_counters PRIVATE WEAVER_COUNTERS=orCounters)

# Without the list, every inline function of PyTorch's headers would be counted too.
set(coverage_list ${CMAKE_BINARY_DIR}/coverage.list)
file(WRITE ${coverage_list} "[clang]\ndefault:skip\nsource:${CMAKE_SOURCE_DIR}/csrc/*=allow\n")
add_compile_options(-O0 -fprofile-instr-generate -fcoverage-mapping -fprofile-list=${coverage_list}
                    "SHELL:-mllvm -runtime-counter-relocation")
# The functions of the counters have the same names in all libraries; this must not make one library depend on another.
# By the build ID, the weaver finds the library that a profile belongs to.
add_link_options(-fprofile-instr-generate LINKER:--as-needed LINKER:--build-id)
link_libraries(openreg_counters)
