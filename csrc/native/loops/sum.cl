// Computes sums. `kept` describes the outputs: operand 0 is the output, operand 1 the first input of each; `reduced`
// describes the inputs of one output, as operand 1.

// LITERALINCLUDE START: native-sum-group
// Returns the sum over the work-items of a group. Requires: the group size is a power of two, and no work-item returns
// from the kernel earlier, since each barrier waits until all of the group have reached it.
static compute_t sum_of_group(compute_t own, __local compute_t* scratch) {
  const uint item = (uint)get_local_id(0);
  scratch[item] = own;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint half_size = (uint)get_local_size(0) / 2; half_size > 0; half_size /= 2) {
    if (item < half_size) scratch[item] = (compute_t)((wrap_t)scratch[item] + (wrap_t)scratch[item + half_size]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return scratch[0];
}
// LITERALINCLUDE END: native-sum-group

// LITERALINCLUDE START: native-sum-parts
// A group sums one part of the inputs of one output. If there are several parts, their sums go to `partial`, for
// sum_partials.
__kernel void sum_parts(__global memory_t* out, __global compute_t* partial, const __global memory_t* in,
                        __local compute_t* scratch, long parts, Geometry kept, Geometry reduced) {
  const long group = (long)get_group_id(0);
  const Offsets first = offsets_of(&kept, (index_t)(group / parts));
  const long step = parts * (long)get_local_size(0);
  wrap_t sum = 0;
  for (long i = group % parts * (long)get_local_size(0) + (long)get_local_id(0); i < reduced.count; i += step) {
    sum += (wrap_t)load(in, first.of[1] + offsets_of(&reduced, (index_t)i).of[1]);
  }
  const compute_t all = sum_of_group((compute_t)sum, scratch);
  if (get_local_id(0) == 0) {
    if (parts > 1) {
      partial[group] = all;
    } else {
      store(out, first.of[0], all);
    }
  }
}

__kernel void sum_partials(__global memory_t* out, const __global compute_t* partial, __local compute_t* scratch,
                           long parts, Geometry kept) {
  const long output = (long)get_group_id(0);
  wrap_t sum = 0;
  for (long i = (long)get_local_id(0); i < parts; i += (long)get_local_size(0)) {
    sum += (wrap_t)partial[output * parts + i];
  }
  const compute_t all = sum_of_group((compute_t)sum, scratch);
  if (get_local_id(0) == 0) store(out, offsets_of(&kept, (index_t)output).of[0], all);
}
// LITERALINCLUDE END: native-sum-parts

// LITERALINCLUDE START: native-sum-items
// A work-item for each output, for many outputs or few inputs: it needs no barrier, and if outputs are adjacent, so are
// the addresses that adjacent work-items read.
__kernel void sum_items(__global memory_t* out, const __global memory_t* in, Geometry kept, Geometry reduced) {
  for (long output = (long)get_global_id(0); output < kept.count; output += (long)get_global_size(0)) {
    const Offsets first = offsets_of(&kept, (index_t)output);
    // The rounding error of a sum grows with the number of additions: few in each part, and one for each part.
    wrap_t sum = 0;
    for (long begin = 0; begin < reduced.count; begin += 256) {
      wrap_t part = 0;
      for (long i = begin; i < reduced.count && i < begin + 256; ++i) {
        part += (wrap_t)load(in, first.of[1] + offsets_of(&reduced, (index_t)i).of[1]);
      }
      sum += part;
    }
    store(out, first.of[0], (compute_t)sum);
  }
}
// LITERALINCLUDE END: native-sum-items
