#include "sums.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "pool.hpp"

// One version of a function for each generation of vector units, chosen when the program is loaded.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define CWNET_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CWNET_VECTORS
#endif

namespace cwnet {
namespace {

constexpr std::int64_t kGrain = 64;  // rows that are worth a thread
constexpr std::int64_t kBlock =
    256;  // rows whose sums are taken together, before the sums of blocks are added up

CWNET_VECTORS
void add_relu(float* __restrict total, const float* __restrict a, const float* __restrict b, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) total[i] += std::max(a[i] + b[i], 0.0f);
}

CWNET_VECTORS
void add_others(float* __restrict out, const float* __restrict total, const float* __restrict a,
                const float* __restrict b, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) out[i] += total[i] - std::max(a[i] + b[i], 0.0f);
}

CWNET_VECTORS
void add(float* __restrict total, const float* __restrict a, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) total[i] += a[i];
}

// out += (a + b > 0) (total − own); a NaN lets the gradient pass, as in PyTorch.
CWNET_VECTORS
void add_gradient(float* __restrict out, const float* __restrict total, const float* __restrict own,
                  const float* __restrict a, const float* __restrict b, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) out[i] += a[i] + b[i] <= 0 ? 0.0f : total[i] - own[i];
}

CWNET_VECTORS
void add_squares(float* __restrict total, const float* __restrict x, const float* __restrict mean,
                 std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) total[i] += (x[i] - mean[i]) * (x[i] - mean[i]);
}

CWNET_VECTORS
void scale_relu(float* __restrict out, const float* __restrict x, const float* __restrict scale,
                const float* __restrict shift, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        const float z = x[i] * scale[i] + shift[i];
        out[i] = z < 0 ? 0.0f : z;
    }
}

CWNET_VECTORS
void add_norm_sums(float* __restrict of_beta, float* __restrict of_gamma, const float* __restrict grad,
                   const float* __restrict out, const float* __restrict x, const float* __restrict mean,
                   const float* __restrict rstd, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        const float g = out[i] <= 0 ? 0.0f : grad[i];
        of_beta[i] += g;
        of_gamma[i] += g * (x[i] - mean[i]) * rstd[i];
    }
}

CWNET_VECTORS
void norm_gradient(float* __restrict grad_x, const float* __restrict grad, const float* __restrict out,
                   const float* __restrict x, const float* __restrict mean, const float* __restrict rstd,
                   const float* __restrict scale, const float* __restrict mean_g,
                   const float* __restrict mean_gx, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        const float g = out[i] <= 0 ? 0.0f : grad[i];
        grad_x[i] = scale[i] * (g - mean_g[i] - (x[i] - mean[i]) * rstd[i] * mean_gx[i]);
    }
}

// Sums over all rows into `columns` numbers. Every block is summed by itself and the blocks in their order,
// so the result does not depend on the threads.
template <class AddRow>
std::vector<float> sum_rows(std::int64_t rows, std::int64_t columns, int threads, const AddRow& add_row) {
    const std::int64_t blocks = (rows + kBlock - 1) / kBlock;
    std::vector<float> parts(static_cast<std::size_t>(blocks * columns), 0.0f);
    for_each_range(blocks, 1, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t b = begin; b < end; ++b)
            for (std::int64_t r = b * kBlock; r < std::min(rows, (b + 1) * kBlock); ++r)
                add_row(parts.data() + b * columns, r);
    });
    std::vector<float> total(static_cast<std::size_t>(columns), 0.0f);
    for (std::int64_t b = 0; b < blocks; ++b) add(total.data(), parts.data() + b * columns, columns);
    return total;
}

}  // namespace

void adjacent_sum(const Rows& down, const Rows& up, const float* x, const float* shared, std::int64_t width,
                  float* total, float* out, int threads) {
    for_each_range(down.count, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t hub = begin; hub < end; ++hub) {
            std::fill_n(total + hub * width, width, 0.0f);
            for (std::int64_t k = down.ptr[hub]; k < down.ptr[hub + 1]; ++k)
                add_relu(total + hub * width, x + down.idx[k] * width, shared + hub * width, width);
        }
    });
    for_each_range(up.count, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t member = begin; member < end; ++member) {
            std::fill_n(out + member * width, width, 0.0f);
            for (std::int64_t k = up.ptr[member]; k < up.ptr[member + 1]; ++k)
                add_others(out + member * width, total + up.idx[k] * width, x + member * width,
                           shared + up.idx[k] * width, width);
        }
    });
}

void adjacent_sum_backward(const Rows& down, const Rows& up, const float* grad, const float* x,
                           const float* shared, std::int64_t width, float* total, float* grad_x,
                           float* grad_shared, int threads) {
    for_each_range(down.count, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t hub = begin; hub < end; ++hub) {
            float* of_all = total + hub * width;
            std::fill_n(of_all, width, 0.0f);
            std::fill_n(grad_shared + hub * width, width, 0.0f);
            for (std::int64_t k = down.ptr[hub]; k < down.ptr[hub + 1]; ++k)
                add(of_all, grad + down.idx[k] * width, width);
            for (std::int64_t k = down.ptr[hub]; k < down.ptr[hub + 1]; ++k)
                add_gradient(grad_shared + hub * width, of_all, grad + down.idx[k] * width,
                             x + down.idx[k] * width, shared + hub * width, width);
        }
    });
    for_each_range(up.count, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t member = begin; member < end; ++member) {
            std::fill_n(grad_x + member * width, width, 0.0f);
            for (std::int64_t k = up.ptr[member]; k < up.ptr[member + 1]; ++k)
                add_gradient(grad_x + member * width, total + up.idx[k] * width, grad + member * width,
                             x + member * width, shared + up.idx[k] * width, width);
        }
    });
}

void norm_relu(const Norm& norm, const float* x, float* out, float* mean, float* var, float* rstd,
               int threads) {
    const auto [rows, width, gamma, beta, eps] = norm;
    const auto sums =
        sum_rows(rows, width, threads, [&](float* part, std::int64_t r) { add(part, x + r * width, width); });
    for (std::int64_t i = 0; i < width; ++i) mean[i] = sums[i] / static_cast<float>(rows);
    const auto squares = sum_rows(rows, width, threads, [&](float* part, std::int64_t r) {
        add_squares(part, x + r * width, mean, width);
    });
    std::vector<float> scale(width), shift(width);
    for (std::int64_t i = 0; i < width; ++i) {
        var[i] = squares[i] / static_cast<float>(rows);
        rstd[i] = 1 / std::sqrt(var[i] + eps);
        scale[i] = gamma[i] * rstd[i];
        shift[i] = beta[i] - mean[i] * scale[i];
    }
    for_each_range(rows, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r)
            scale_relu(out + r * width, x + r * width, scale.data(), shift.data(), width);
    });
}

void norm_relu_backward(const Norm& norm, const float* grad, const float* x, const float* out,
                        const float* mean, const float* rstd, float* grad_x, float* grad_gamma,
                        float* grad_beta, int threads) {
    const std::int64_t rows = norm.rows, width = norm.width;
    const auto sums = sum_rows(rows, 2 * width, threads, [&](float* part, std::int64_t r) {
        add_norm_sums(part, part + width, grad + r * width, out + r * width, x + r * width, mean, rstd,
                      width);
    });
    std::copy_n(sums.data(), width, grad_beta);
    std::copy_n(sums.data() + width, width, grad_gamma);
    std::vector<float> scale(width), mean_g(width), mean_gx(width);
    for (std::int64_t i = 0; i < width; ++i) {
        scale[i] = norm.gamma[i] * rstd[i];
        mean_g[i] = grad_beta[i] / static_cast<float>(rows);
        mean_gx[i] = grad_gamma[i] / static_cast<float>(rows);
    }
    for_each_range(rows, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r)
            norm_gradient(grad_x + r * width, grad + r * width, out + r * width, x + r * width, mean, rstd,
                          scale.data(), mean_g.data(), mean_gx.data(), width);
    });
}

}  // namespace cwnet
