// abs of one tensor. A work-item takes every n-th element, where n is the number of work-items: adjacent ones read
// adjacent addresses, and any number of work-items computes any number of elements.

// LITERALINCLUDE START: native-abs-source
static compute_t magnitude(compute_t x) {
  // The smallest integer is its own magnitude. -0.0 becomes 0.0, and a NaN stays a NaN.
#if defined(DTYPE_INT) || defined(DTYPE_LONG)
  return x < 0 ? (compute_t)((wrap_t)0 - (wrap_t)x) : x;
#else
  return fabs(x);
#endif
}

__kernel void abs_contiguous(__global memory_t* out, const __global memory_t* in, long count) {
  for (long i = (long)get_global_id(0); i < count; i += (long)get_global_size(0)) {
    store(out, i, magnitude(load(in, i)));
  }
}

__kernel void abs_strided(__global memory_t* out, const __global memory_t* in, Geometry geometry) {
  for (long i = (long)get_global_id(0); i < geometry.count; i += (long)get_global_size(0)) {
    const Offsets at = offsets_of(&geometry, (index_t)i);
    store(out, at.of[0], magnitude(load(in, at.of[1])));
  }
}
// LITERALINCLUDE END: native-abs-source
