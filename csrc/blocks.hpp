// What a layer does with a block of rows, which stays in the cache: products, norms, sums over neighbours.
#pragma once

#include <cstdint>

#include "sums.hpp"

namespace cwnet {

// Widths are multiples of this: the numbers in a register of AVX-512, the widest there is.
constexpr std::int64_t kColumns = 16;

// Factors are read in units of 32 bits: a float, or two numbers in bf16 that follow each other in the sum.
using Unit = std::uint32_t;

constexpr std::int64_t kBlock = 96;                     // rows that are multiplied at a time
constexpr std::int64_t kStride = 768 + kColumns;        // units between the rows of a block; no power of two
constexpr std::int64_t kMaxWidth = kStride - kColumns;  // the widest rows that a block can hold

// Whether this machine multiplies bf16 and adds up in float32.
bool multiplies_bf16();

// C [rows, columns] = A B, or C += A B with `add`. A is [rows][steps] or, `transposed`, [steps][rows]: a
// block, so `kStride` lies between its rows. B is [steps][columns].
struct Product {
    bool bf16;
    bool transposed;
    const Unit* a;
    const Unit* b;
    std::int64_t b_stride;
    float* c;
    std::int64_t c_stride;
    std::int64_t rows, steps, columns;
    bool add;
};

// A norm and what it has found: y as (y − mean) rstd, and that times γ plus β.
struct Normed {
    const float* y;            // [rows, width], at the first row of a block
    const float *mean, *rstd;  // of columns; under layer norm of rows, at the first row of a block
    const float *gamma, *beta;
    bool layer;
    float cap;
};

// The functions of blocks; what each does is said in blocks.inc. Rows lie `kStride` apart in a block, and the
// width in a table.
struct Blocks {
    // C = A B, or C += A B.
    void (*multiply)(const Product& p);
    // A matrix in bf16, two neighbours in a row as one unit: [rows, columns / 2].
    void (*to_bf16)(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t columns, Unit* out,
                    std::int64_t out_stride);
    // A matrix in bf16, two neighbours in a column as one unit: [rows / 2, columns]; an odd row is followed
    // by zeros.
    void (*to_bf16_pairs)(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                          Unit* out, std::int64_t out_stride);
    // The transpose of a matrix of units: [rows, columns] to [columns, rows].
    void (*transpose)(const Unit* x, std::int64_t stride, std::int64_t rows, std::int64_t columns, Unit* out);
    void (*hear_meeting)(float* out, const float* x, float own, const Rows& up, const float* p,
                         const float* q, const float* sums, std::int64_t begin, std::int64_t end,
                         std::int64_t width);
    void (*meet)(float* sums, const Rows& down, const float* p, const float* q, std::int64_t begin,
                 std::int64_t end, std::int64_t width);
    void (*gather)(float* out, const float* x, float own, const Rows& rows, const float* others,
                   std::int64_t begin, std::int64_t end, std::int64_t width);
    void (*gather_more)(float* out, const Rows& rows, const float* others, std::int64_t begin,
                        std::int64_t end, std::int64_t width);
    void (*member_gradient)(float* block, const Rows& up, const float* p, const float* q, const float* g,
                            const float* sums, std::int64_t begin, std::int64_t end, std::int64_t width);
    void (*hub_gradient)(float* block, const Rows& down, const float* p, const float* q, const float* g,
                         const float* sums, std::int64_t begin, std::int64_t end, std::int64_t width);
    void (*copy_rows)(float* out, std::int64_t out_stride, const float* x, std::int64_t x_stride,
                      std::int64_t rows, std::int64_t width);
    void (*scale_rows)(float* out, const float* x, float factor, std::int64_t count);
    void (*add_scaled)(float* out, const float* x, float factor, std::int64_t count);
    void (*add_row)(float* y, std::int64_t stride, const float* bias, std::int64_t rows, std::int64_t width);
    void (*add_columns)(float* sums, const float* block, std::int64_t rows, std::int64_t width);
    void (*add_statistics)(float* mean, float* squares, std::int64_t count, const float* y, std::int64_t rows,
                           std::int64_t width);
    void (*row_statistics)(float* mean, float* rstd, const float* y, std::int64_t rows, std::int64_t width,
                           float eps);
    void (*activate)(float* out, std::int64_t stride, const Normed& n, std::int64_t rows, std::int64_t width);
    void (*pass_back)(float* out, const float* grad, std::int64_t stride, const Normed& n, float* sum_g,
                      float* sum_gx, std::int64_t rows, std::int64_t width);
    void (*batch_gradient)(float* out, const float* g, const Normed& n, const float* mean_g,
                           const float* mean_gx, std::int64_t rows, std::int64_t width);
    void (*row_gradient)(float* out, const float* g, const Normed& n, std::int64_t rows, std::int64_t width);
    void (*add_up)(float* out, const float* parts, std::int64_t size, std::int64_t slabs, std::int64_t count);
};

// Those for this machine.
const Blocks& blocks();

// For tests: those for any machine.
void use_portable_blocks(bool portable);

}  // namespace cwnet
