// a + alpha * b. One of the two may be a number of the host, as in x + 1: its pointer is then null.

// LITERALINCLUDE START: native-add-source
static compute_t add(compute_t a, compute_t b, compute_t alpha) {
  return (compute_t)((wrap_t)a + (wrap_t)alpha * (wrap_t)b);
}

__kernel void add_contiguous(__global memory_t* out, const __global memory_t* a, const __global memory_t* b,
                             compute_t number, compute_t alpha, long count) {
  for (long i = (long)get_global_id(0); i < count; i += (long)get_global_size(0)) {
    store(out, i, add(a ? load(a, i) : number, b ? load(b, i) : number, alpha));
  }
}

__kernel void add_strided(__global memory_t* out, const __global memory_t* a, const __global memory_t* b,
                          compute_t number, compute_t alpha, Geometry geometry) {
  for (long i = (long)get_global_id(0); i < geometry.count; i += (long)get_global_size(0)) {
    const Offsets at = offsets_of(&geometry, (index_t)i);
    store(out, at.of[0], add(a ? load(a, at.of[1]) : number, b ? load(b, at.of[2]) : number, alpha));
  }
}
// LITERALINCLUDE END: native-add-source
