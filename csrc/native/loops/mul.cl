// a * b. One of the two may be a number of the host: its pointer is then null.

// LITERALINCLUDE START: native-mul-source
static compute_t multiply(compute_t a, compute_t b) { return (compute_t)((wrap_t)a * (wrap_t)b); }

__kernel void mul_contiguous(__global memory_t* out, const __global memory_t* a, const __global memory_t* b,
                             compute_t number, long count) {
  for (long i = (long)get_global_id(0); i < count; i += (long)get_global_size(0)) {
    store(out, i, multiply(a ? load(a, i) : number, b ? load(b, i) : number));
  }
}

__kernel void mul_strided(__global memory_t* out, const __global memory_t* a, const __global memory_t* b,
                          compute_t number, Geometry geometry) {
  for (long i = (long)get_global_id(0); i < geometry.count; i += (long)get_global_size(0)) {
    const Offsets at = offsets_of(&geometry, (index_t)i);
    store(out, at.of[0], multiply(a ? load(a, at.of[1]) : number, b ? load(b, at.of[2]) : number));
  }
}
// LITERALINCLUDE END: native-mul-source
