// The subset of OpenCL C 1.2 that is also C++, for the host's compiler: a module is this header, the user's source and
// a table of its functions. Not included: vector types, images, pipes. As in C++, and not as in OpenCL C, a shift by
// the width of its operand or more is undefined, and so is an integer divided by zero, which ends the process.
#pragma once

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <type_traits>
#include <utility>

#include "device_code.h"

namespace openreg::device_code {

// LITERALINCLUDE START: modules-run-item
static thread_local Item* t_item;

// Describes a kernel to the driver: its parameters, and a function that unpacks the arguments and calls it.
template <auto kKernel>
struct Describe;

template <class... Parameters, void (*kKernel)(Parameters...)>
struct Describe<kKernel> {
  static constexpr Parameter kParameters[sizeof...(Parameters) + 1] = {
      {std::is_pointer_v<Parameters>, sizeof(Parameters)}..., {}};

  template <size_t... kIndex>
  static void call(void* const* arguments, std::index_sequence<kIndex...>) {
    kKernel(*static_cast<std::remove_cv_t<Parameters>*>(arguments[kIndex])...);
  }

  static void run(Item& item, [[maybe_unused]] void* const* arguments) {
    t_item = &item;
    call(arguments, std::index_sequence_for<Parameters...>{});
  }

  static constexpr Function function(const char* name, unsigned long long local_parameters) {
    return {name, sizeof...(Parameters), kParameters, local_parameters, run};
  }
};
// LITERALINCLUDE END: modules-run-item

}  // namespace openreg::device_code

// GCC has _Float16 on aarch64 since version 13; __fp16 has the same bits, and computes in float.
#if defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
typedef __fp16 half;
#else
typedef _Float16 half;
#endif

// LITERALINCLUDE START: modules-language-items
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

static inline size_t get_num_groups(uint d) { return d < 3 ? openreg::device_code::t_item->groups[d] : 1; }
static inline size_t get_local_size(uint d) { return d < 3 ? openreg::device_code::t_item->group_size[d] : 1; }
static inline size_t get_group_id(uint d) { return d < 3 ? openreg::device_code::t_item->group[d] : 0; }
static inline size_t get_local_id(uint d) { return d < 3 ? openreg::device_code::t_item->local[d] : 0; }
static inline size_t get_global_size(uint d) { return get_num_groups(d) * get_local_size(d); }
static inline size_t get_global_id(uint d) { return get_group_id(d) * get_local_size(d) + get_local_id(d); }
static inline size_t get_global_offset(uint) { return 0; }

enum : uint { CLK_LOCAL_MEM_FENCE = 1, CLK_GLOBAL_MEM_FENCE = 2 };

// All items of a group run on one thread, so each sees what the others have written.
static inline void barrier(uint) {
  openreg::device_code::Item* const own = openreg::device_code::t_item;
  own->wait(*own);
  openreg::device_code::t_item = own;  // other items ran meanwhile
}
static inline void mem_fence(uint) {}
// LITERALINCLUDE END: modules-language-items

#define OPENREG_FOR_EACH_FLOAT(define) define(float) define(double)
#define OPENREG_FLOAT_FUNCTIONS(T)                                                       \
  static inline T rsqrt(T x) { return 1 / sqrt(x); }                                     \
  static inline T mad(T a, T b, T c) { return a * b + c; }                               \
  static inline T mix(T a, T b, T t) { return a + (b - a) * t; }                         \
  static inline T sign(T x) { return x > 0 ? T{1} : x < 0 ? T{-1} : x == 0 ? x : T{0}; } \
  static inline T step(T edge, T x) { return x < edge ? T{0} : T{1}; }                   \
  static inline T pown(T x, int n) { return static_cast<T>(pow(double{x}, double(n))); } \
  static inline T native_divide(T a, T b) { return a / b; }                              \
  static inline T native_exp(T x) { return exp(x); }                                     \
  static inline T native_log(T x) { return log(x); }                                     \
  static inline T native_recip(T x) { return 1 / x; }                                    \
  static inline T native_rsqrt(T x) { return rsqrt(x); }                                 \
  static inline T native_sqrt(T x) { return sqrt(x); }
OPENREG_FOR_EACH_FLOAT(OPENREG_FLOAT_FUNCTIONS)

template <class T>
static inline T min(T a, std::type_identity_t<T> b) {
  return b < a ? b : a;
}
template <class T>
static inline T max(T a, std::type_identity_t<T> b) {
  return a < b ? b : a;
}
template <class T>
static inline T clamp(T x, std::type_identity_t<T> low, std::type_identity_t<T> high) {
  return min(max(x, low), high);
}
template <class T>
static inline T select(T a, std::type_identity_t<T> b, long condition) {
  return condition != 0 ? b : a;
}

#define OPENREG_FOR_EACH_TYPE(define)                                                                         \
  define(char) define(uchar) define(short) define(ushort) define(int) define(uint) define(long) define(ulong) \
      define(float) define(double) define(half)
#define OPENREG_CONVERSIONS(T)          \
  template <class From>                 \
  static inline T convert_##T(From x) { \
    return static_cast<T>(x);           \
  }                                     \
  template <class From>                 \
  static inline T as_##T(From x) {      \
    return __builtin_bit_cast(T, x);    \
  }
OPENREG_FOR_EACH_TYPE(OPENREG_CONVERSIONS)

static inline float vload_half(size_t offset, const half* p) { return p[offset]; }
static inline void vstore_half(float x, size_t offset, half* p) { p[offset] = static_cast<half>(x); }

// Groups on other streams may run concurrently.
template <class T>
static inline T atomic_add(volatile T* p, std::type_identity_t<T> x) {
  return __atomic_fetch_add(p, x, __ATOMIC_RELAXED);
}
template <class T>
static inline T atomic_sub(volatile T* p, std::type_identity_t<T> x) {
  return __atomic_fetch_sub(p, x, __ATOMIC_RELAXED);
}
template <class T>
static inline T atomic_xchg(volatile T* p, std::type_identity_t<T> x) {
  T old;
  __atomic_exchange(p, &x, &old, __ATOMIC_RELAXED);
  return old;
}
template <class T>
static inline T atomic_cmpxchg(volatile T* p, std::type_identity_t<T> expected, std::type_identity_t<T> x) {
  __atomic_compare_exchange(p, &expected, &x, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <class T>
static inline T atomic_max(volatile T* p, std::type_identity_t<T> x) {
  T old = *p;
  while (old < x && !__atomic_compare_exchange(p, &old, &x, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
template <class T>
static inline T atomic_min(volatile T* p, std::type_identity_t<T> x) {
  T old = *p;
  while (x < old && !__atomic_compare_exchange(p, &old, &x, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
template <class T>
static inline T atomic_inc(volatile T* p) {
  return atomic_add(p, 1);
}
template <class T>
static inline T atomic_dec(volatile T* p) {
  return atomic_sub(p, 1);
}

extern "C" int printf(const char* format, ...);

// In the namespace of the kernels, where it hides the functions of the C library: this one takes integers of any type,
// and returns an unsigned one, so that the smallest integer has an absolute value, too.
namespace kernels {
template <class T>
static inline std::make_unsigned_t<T> abs(T x) {
  using Unsigned = std::make_unsigned_t<T>;
  return x < 0 ? static_cast<Unsigned>(Unsigned{0} - static_cast<Unsigned>(x)) : static_cast<Unsigned>(x);
}
}  // namespace kernels

// LITERALINCLUDE START: modules-language-words
// Host code has one address space, so these qualifiers mean nothing, except for a variable in local memory, whose
// `__local` or `local` the driver turns into `__LOCAL` or `__LOC`. It outlives the item, and the items of a group share
// it, since they run on one thread.
#define __kernel static
#define kernel static
#define __global
#define global
#define __constant const
#define constant const
#define __local
#define local
#define __private
#define __LOCAL static thread_local
#define __LOC static thread_local
#define __read_only
#define __write_only
#define restrict __restrict__
// LITERALINCLUDE END: modules-language-words
