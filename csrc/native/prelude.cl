// The beginning of every kernel in this folder: the dtype that it is compiled for, and the offsets of elements. The
// host prepends this text to each source (module_cache.cpp).
//
// The language is OpenCL C 1.2 without vector types, which is also valid C++: the simulated device compiles it as such.

// LITERALINCLUDE START: native-prelude-dtypes
// memory_t is the type of an element in memory, compute_t the one to compute with, and wrap_t one whose overflow is
// defined. load and store convert; they take an index, since a pointer to half cannot be dereferenced.
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#if defined(DTYPE_HALF)
typedef half memory_t;
typedef float compute_t;
typedef float wrap_t;
static compute_t load(const __global memory_t* from, long i) { return vload_half(i, from); }
static void store(__global memory_t* to, long i, compute_t value) { vstore_half(value, i, to); }

#elif defined(DTYPE_BFLOAT16)
// The upper half of a float, rounded to nearest, ties to even.
typedef ushort memory_t;
typedef float compute_t;
typedef float wrap_t;
static compute_t load(const __global memory_t* from, long i) { return as_float((uint)from[i] << 16); }
static void store(__global memory_t* to, long i, compute_t value) {
  const uint bits = as_uint(value);
  const uint rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  to[i] = (ushort)(value != value ? 0x7fc0 : rounded);
}

#else
#if defined(DTYPE_FLOAT)
typedef float memory_t;
typedef float wrap_t;
#elif defined(DTYPE_DOUBLE)
typedef double memory_t;
typedef double wrap_t;
#elif defined(DTYPE_INT)
typedef int memory_t;
typedef uint wrap_t;
#elif defined(DTYPE_LONG)
typedef long memory_t;
typedef ulong wrap_t;
#endif
typedef memory_t compute_t;
static compute_t load(const __global memory_t* from, long i) { return from[i]; }
static void store(__global memory_t* to, long i, compute_t value) { to[i] = value; }
#endif
// LITERALINCLUDE END: native-prelude-dtypes

// LITERALINCLUDE START: native-prelude-geometry
// The sizes and strides of up to three operands of one shape. geometry.h declares the same struct for the host.
#define MAX_DIMENSIONS 16

typedef struct Geometry {
  long count;  // elements of the shape
  long dimensions;
  long sizes[MAX_DIMENSIONS];  // the fastest dimension first
  long strides[3][MAX_DIMENSIONS];  // in elements
} Geometry;

typedef struct Offsets {
  index_t of[3];
} Offsets;

// The offset of element i in each operand. Division is the slowest part of an address: the last dimension needs none,
// and index_t is int if all numbers fit, with which a device computes several times as fast as with long.
static Offsets offsets_of(const Geometry* geometry, index_t i) {
  const int last = (int)geometry->dimensions - 1;
  Offsets at;
  at.of[0] = at.of[1] = at.of[2] = 0;
  for (int d = 0; d < last; ++d) {
    const index_t size = (index_t)geometry->sizes[d];
    const index_t slower = i / size;
    const index_t here = i - slower * size;
    for (int operand = 0; operand < 3; ++operand) at.of[operand] += here * (index_t)geometry->strides[operand][d];
    i = slower;
  }
  if (last >= 0) {
    for (int operand = 0; operand < 3; ++operand) at.of[operand] += i * (index_t)geometry->strides[operand][last];
  }
  return at;
}
// LITERALINCLUDE END: native-prelude-geometry
