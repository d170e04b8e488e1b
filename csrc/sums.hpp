// What training on a CPU spends its time on beside matrix products: sums over neighbours, and batch norm with
// ReLU.
//
// All are in float32 and sum in a fixed order: results do not depend on the number of threads. Their plain
// twins are in cwnet.nn.functional and cwnet.nn.BatchNorm.
#pragma once

#include <cstdint>

namespace cwnet {

// Compressed sparse rows.
struct Rows {
    std::int64_t count;
    const std::int64_t* ptr;
    const std::int64_t* idx;
};

// out_σ = Σ_{δ ∈ up(σ)} ( S(δ) − m(σ, δ) ), S(δ) = Σ_{τ ∈ down(δ)} m(τ, δ), m(τ, δ) = relu(x_τ + shared_δ).
// `total` holds S.
void adjacent_sum(const Rows& down, const Rows& up, const float* x, const float* shared, std::int64_t width,
                  float* total, float* out, int threads);

// The gradients of x and of shared, given that of out. `total` holds Σ_{τ ∈ down(δ)} G_τ.
void adjacent_sum_backward(const Rows& down, const Rows& up, const float* grad, const float* x,
                           const float* shared, std::int64_t width, float* total, float* grad_x,
                           float* grad_shared, int threads);

// A table [rows, width] under batch norm.
struct Norm {
    std::int64_t rows, width;
    const float* gamma;
    const float* beta;
    float eps;
};

// out = relu(γ (x − μ) / √(σ² + ε) + β); writes μ, σ² and 1 / √(σ² + ε) of every column.
void norm_relu(const Norm& norm, const float* x, float* out, float* mean, float* var, float* rstd,
               int threads);

// The gradients of x, γ and β, given that of out.
void norm_relu_backward(const Norm& norm, const float* grad, const float* x, const float* out,
                        const float* mean, const float* rstd, float* grad_x, float* grad_gamma,
                        float* grad_beta, int threads);

}  // namespace cwnet
