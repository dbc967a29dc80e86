// out = alpha * a b + beta * added, for matrices of any strides. Without an addend, `added` is null.

// LITERALINCLUDE START: native-product-source
// product.cpp declares the same struct for the host.
typedef struct Matrices {
  long rows, columns, inner;
  long a[2], b[2], out[2], added[2];  // strides in elements: to the next row, to the next column
} Matrices;

// A group computes a tile of TILE x TILE outputs, one for each work-item. It loads a tile of each factor into local
// memory, where each element is read TILE times, and continues with the next tiles along the inner dimension. Adjacent
// work-items (dimension 0) have adjacent columns. Groups of dimension 0 have the rows, since CUDA allows 65,535 groups in
// the others. Beyond the edge of a matrix a tile is 0.
__kernel void matrix_product(__global memory_t* out, const __global memory_t* a, const __global memory_t* b,
                             const __global memory_t* added, compute_t alpha, compute_t beta,
                             __local compute_t* a_tile, __local compute_t* b_tile, Matrices m) {
  const int x = (int)get_local_id(0);
  const int y = (int)get_local_id(1);
  const long column = (long)get_group_id(1) * TILE + x;
  const long row = (long)get_group_id(0) * TILE + y;
  compute_t sum = 0;
  for (long first = 0; first < m.inner; first += TILE) {
    const bool has_a = row < m.rows && first + x < m.inner;
    const bool has_b = column < m.columns && first + y < m.inner;
    a_tile[y * TILE + x] = has_a ? load(a, row * m.a[0] + (first + x) * m.a[1]) : 0;
    b_tile[y * TILE + x] = has_b ? load(b, (first + y) * m.b[0] + column * m.b[1]) : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < TILE; ++i) sum += a_tile[y * TILE + i] * b_tile[i * TILE + x];
    barrier(CLK_LOCAL_MEM_FENCE);  // before the next tiles replace these
  }
  if (row < m.rows && column < m.columns) {
    compute_t result = alpha * sum;
    if (added) result += beta * load(added, row * m.added[0] + column * m.added[1]);
    store(out, row * m.out[0] + column * m.out[1], result);
  }
}
// LITERALINCLUDE END: native-product-source
