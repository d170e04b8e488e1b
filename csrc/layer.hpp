// A whole layer for training on a CPU: messages, and perceptrons that hear them, forward and backward.
//
// Every pass goes over blocks of rows: what a product reads is made in the cache (sums over neighbours, or
// the norm and the activation of the stage before) and what comes out is looked at there (statistics of the
// norm, sums for its gradient). Blocks make slabs, which are the tasks of threads. Sums over slabs are taken
// in their order, and slabs depend on the number of rows alone: results do not depend on the threads. All is
// in float32; products may round their factors to bf16.
//
// The plain twins are cwnet.nn.CINConv and cwnet.nn.MLP.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "blocks.hpp"

namespace cwnet {

// Cells meet in hubs: messages relu(W₁ x_τ + W₂ x_δ + b) from members τ through hubs δ. W = [W₁ ‖ W₂].
struct Meeting {
    std::int64_t members, hubs;  // dimensions
    Rows down, up;               // from hubs to members, and back
    const float* weight;
    const float* bias;
};

// What a branch hears in one dimension: its cells, and with them messages of a meeting, or sums over other
// cells.
struct Heard {
    std::int64_t dim;
    std::int64_t meeting;  // -1 for none
    std::int64_t from;     // the dimension of the cells that are added up; -1 for none
    Rows rows, columns;    // from cells to those that are added up, and back
};

// y = x Wᵀ + b under a norm. A batch norm takes b away again: it enters the running averages alone.
struct Linear {
    const float *weight, *bias, *gamma, *beta;
    float *running_mean, *running_var;  // of batch norm
};

struct NormRule {
    bool layer;     // statistics of rows; else of columns
    bool training;  // whether to take those of the batch
    float eps, momentum;
    float limit;  // of running averages; 0 for none
    float cap;    // infinity for none
};

struct LayerPlan {
    std::vector<const float*> x;     // features of every dimension, [rows[d], width_in]
    std::vector<std::int64_t> rows;  // cells
    std::int64_t width_in, width;
    float own;  // the weight of a cell's own features
    std::vector<Meeting> meetings;
    std::vector<Heard> heard;  // by the groups of the first stage
    // A group of a later stage reads those of the stage before whose numbers are its own modulo the number of
    // its stage's groups: itself, or all branches of its dimension.
    std::vector<std::vector<Linear>> stages;
    NormRule norm;
    bool bf16;
    int threads;
};

// Where gradients go; all are written.
struct LinearGradient {
    float *weight, *bias, *gamma, *beta;  // no bias under batch norm
};
struct LayerGradients {
    std::vector<float*> x;
    std::vector<LinearGradient> meetings;  // weight and bias
    std::vector<std::vector<LinearGradient>> stages;
};

// One pass through a layer, and what its way back needs. Whatever the plan points to must stay until then.
class Layer {
  public:
    // Writes the features of every dimension to `out`. Moves the running averages, in training.
    Layer(LayerPlan plan, const std::vector<float*>& out);
    ~Layer();
    void backward(const std::vector<const float*>& grad, const LayerGradients& gradients, int threads);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace cwnet
