#!/usr/bin/env bash
# Builds the driver, the pool of memory blocks and their stress programs with the thread sanitizer and with the address
# and undefined-behavior sanitizers, and runs them in every launch mode that queues. Needs a C++ compiler with its
# sanitizers, and CMake and Ninja on PATH. Usage: tools/stress.sh [seconds per run]
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-10}
# The thread sanitizer needs its part of the address space, which strong randomization may assign to other mappings.
plain=(setarch "$(uname -m)" --addr-no-randomize)
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 ${TSAN_OPTIONS:-}"
export ASAN_OPTIONS="detect_leaks=1 ${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1 ${UBSAN_OPTIONS:-}"

mkdir -p build/stress
runs=0
for sanitizer in thread address; do
  folder=build/stress/$sanitizer
  echo "stress: building with the $sanitizer sanitizer in $folder"
  cmake -S tests/stress -B "$folder" -G Ninja -DOPENREG_SANITIZE=$sanitizer >"$folder.log" 2>&1 ||
    { cat "$folder.log"; exit 1; }
  cmake --build "$folder" >"$folder.log" 2>&1 || { cat "$folder.log"; exit 1; }
  for mode in auto async; do
    for program in stress_driver stress_block_pool; do
      OPENREG_LAUNCH=$mode "${plain[@]}" "$folder/$program" "$seconds"
      runs=$((runs + 1))
    done
  done
done
# One short process per failing allocation, checked for leaks: without threads, so not under the thread sanitizer.
for mode in auto async inline; do
  OPENREG_LAUNCH=$mode "${plain[@]}" build/stress/address/stress_memory
done
echo "stress: $runs runs of $seconds s each under the thread and the address sanitizer, in modes auto and async: clean"
