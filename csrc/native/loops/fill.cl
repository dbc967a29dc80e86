// Fills memory with gaps. A fill computes nothing: it repeats the bytes of one element, whatever they mean.

// LITERALINCLUDE START: native-fill-source
#if PATTERN_BYTES == 1
typedef uchar pattern_t;
#elif PATTERN_BYTES == 2
typedef ushort pattern_t;
#elif PATTERN_BYTES == 4
typedef uint pattern_t;
#elif PATTERN_BYTES == 8
typedef ulong pattern_t;
#else
typedef struct Pattern {
  ulong low;
  ulong high;
} pattern_t;
#endif

__kernel void fill_strided(__global pattern_t* out, pattern_t pattern, Geometry geometry) {
  for (long i = (long)get_global_id(0); i < geometry.count; i += (long)get_global_size(0)) {
    out[offsets_of(&geometry, (index_t)i).of[0]] = pattern;
  }
}
// LITERALINCLUDE END: native-fill-source
