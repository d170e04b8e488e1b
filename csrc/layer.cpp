#include "layer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "pool.hpp"

namespace cwnet {
namespace {

using Size = std::int64_t;
using Floats = std::unique_ptr<float[]>;

Floats uninitialised(Size count) {
    return std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(count));
}

// ------------------------------------------------------------------------------------------------ slabs

// Some blocks of one group: what a thread does at a time, and what is summed by itself.
struct Slab {
    Size group, begin, end;
};

struct Slabs {
    std::vector<Slab> all;
    std::vector<Size> first;  // of each group, and their number

    explicit Slabs(const std::vector<Size>& rows) {
        for (std::size_t g = 0; g < rows.size(); ++g) {
            first.push_back(static_cast<Size>(all.size()));
            // About six: few sums to add up, enough tasks for some threads.
            const Size blocks = (rows[g] + kBlock - 1) / kBlock,
                       size = std::max<Size>(blocks / 6, 1) * kBlock;
            for (Size begin = 0; begin < rows[g]; begin += size)
                all.push_back({static_cast<Size>(g), begin, std::min(begin + size, rows[g])});
        }
        first.push_back(static_cast<Size>(all.size()));
    }

    Size count() const { return static_cast<Size>(all.size()); }

    template <class Work>
    static void for_each_block(const Slab& slab, const Work& work) {
        for (Size begin = slab.begin; begin < slab.end; begin += kBlock)
            work(begin, std::min(kBlock, slab.end - begin));
    }
};

// Numbers for every slab, which are added up in the order of slabs.
struct Parts {
    Floats data;
    Size size;

    Parts(const Slabs& slabs, Size numbers)
        : data(uninitialised(std::max<Size>(slabs.count() * numbers, 1))), size(numbers) {}
    float* of(Size slab) const { return data.get() + slab * size; }
};

// Blocks of a thread.
struct Workspace {
    Floats a = uninitialised(kBlock * kStride), g = uninitialised(kBlock * kStride),
           c = uninitialised(kBlock * kStride);
    std::unique_ptr<Unit[]> rows = std::make_unique_for_overwrite<Unit[]>(kBlock * kStride),
                            left = std::make_unique_for_overwrite<Unit[]>(kBlock * kStride),
                            right = std::make_unique_for_overwrite<Unit[]>(kBlock * kStride);
    static Workspace& mine() {
        static thread_local Workspace workspace;
        return workspace;
    }
};

const Unit* units(const float* x) {
    return reinterpret_cast<const Unit*>(x);
}

// c = a Wᵀ or a W for a block `a` and weights that are packed for it.
void multiply_block(bool bf16, Workspace& w, const float* a, Size rows, Size steps, const Unit* b,
                    Size b_stride, Size columns, float* c, Size c_stride, bool add) {
    const Unit* left = units(a);
    if (bf16) {
        blocks().to_bf16(a, kStride, rows, steps, w.rows.get(), kStride);
        left = w.rows.get();
        steps /= 2;
    }
    blocks().multiply({bf16, false, left, b, b_stride, c, c_stride, rows, steps, columns, add});
}

// c += gᵀ a for blocks of rows g and a.
void multiply_transposed(bool bf16, Workspace& w, const float* g, Size g_width, const float* a, Size a_stride,
                         Size a_width, Size rows, float* c, Size c_stride, bool add) {
    const Unit *left = units(g), *right = units(a);
    if (bf16) {
        blocks().to_bf16_pairs(g, kStride, rows, g_width, w.left.get(), kStride);
        blocks().to_bf16_pairs(a, a_stride, rows, a_width, w.right.get(), kStride);
        left = w.left.get();
        right = w.right.get();
        rows = (rows + 1) / 2;
        a_stride = kStride;
    }
    blocks().multiply({bf16, true, left, right, a_stride, c, c_stride, g_width, rows, a_width, add});
}

// A part of a weight: `outputs` rows, and `inputs` of its columns from `first` on.
struct Weight {
    const float* data;
    Size stride, first, inputs, outputs;

    Size size() const { return inputs * outputs; }

    // For x Wᵀ: [inputs][outputs].
    void pack(bool bf16, Unit* out) const {
        if (!bf16) return blocks().transpose(units(data + first), stride, outputs, inputs, out);
        const auto rows = std::make_unique_for_overwrite<Unit[]>(static_cast<std::size_t>(size() / 2));
        blocks().to_bf16(data + first, stride, outputs, inputs, rows.get(), inputs / 2);
        blocks().transpose(rows.get(), inputs / 2, outputs, inputs / 2, out);
    }

    // For g W: [outputs][inputs]. In float32 it lies so already.
    void pack_back(Unit* out) const {
        blocks().to_bf16_pairs(data + first, stride, outputs, inputs, out, inputs);
    }
};

// Weights as products want them.
struct Packed {
    std::vector<Weight> weights;
    std::unique_ptr<Unit[]> data;
    std::vector<Size> at;
    bool bf16 = false, back = false;

    void pack(bool in_bf16, bool for_back, int threads) {
        bf16 = in_bf16;
        back = for_back;
        if (back && !bf16) return;
        at.clear();
        Size size = 0;
        for (const Weight& w : weights) {
            at.push_back(size);
            size += bf16 ? w.size() / 2 : w.size();
        }
        data = std::make_unique_for_overwrite<Unit[]>(static_cast<std::size_t>(size));
        for_each_task(static_cast<Size>(weights.size()), threads, [&](Size i) {
            if (back)
                weights[i].pack_back(data.get() + at[i]);
            else
                weights[i].pack(bf16, data.get() + at[i]);
        });
    }

    const Unit* of(Size i) const {
        return back && !bf16 ? units(weights[i].data + weights[i].first) : data.get() + at[i];
    }
    Size stride(Size i) const {
        if (!back) return weights[i].outputs;
        return bf16 ? weights[i].inputs : weights[i].stride;
    }
};

}  // namespace

// ------------------------------------------------------------------------------------------------------- the
// state

// A product with its norm.
struct Group {
    Linear linear;
    Size rows;
    std::vector<Size> sources;  // groups of the stage before; none in the first stage
    Size inputs;                // of all sources together
    Size weight;                // the number of its first packed weight; one per source
    float *y, *mean, *rstd;
};

struct Layer::State {
    LayerPlan plan;
    std::vector<std::vector<Group>> stages;
    std::vector<float*> p, q;     // of meetings
    std::vector<const float*> z;  // what the groups of the first stage hear
    Packed forward, back;
    Size meeting_weights;  // these come first among the packed ones
    Floats memory;
    bool batch() const { return !plan.norm.layer; }

    State(LayerPlan given) : plan(std::move(given)) {
        lay_out();
        forward.pack(plan.bf16, false, plan.threads);
        meet_all();
        for (std::size_t s = 0; s < stages.size(); ++s) run_stage(s);
        sums.reset();
    }

    // ------------------------------------------------------------------------------------------- shapes

    bool hears_itself_alone(const Heard& heard) const {
        return heard.meeting < 0 && heard.from < 0 && plan.own == 1;
    }

    void lay_out() {
        const Size in = plan.width_in, out = plan.width;
        for (const Meeting& m : plan.meetings) {
            forward.weights.push_back({m.weight, 2 * in, 0, in, in});
            forward.weights.push_back({m.weight, 2 * in, in, in, in});
        }
        meeting_weights = static_cast<Size>(forward.weights.size());
        for (std::size_t s = 0; s < plan.stages.size(); ++s) {
            stages.emplace_back();
            const Size groups = static_cast<Size>(plan.stages[s].size());
            for (Size g = 0; g < groups; ++g) {
                Group group{plan.stages[s][g], 0,       {},     0, static_cast<Size>(forward.weights.size()),
                            nullptr,           nullptr, nullptr};
                if (s == 0) {
                    group.rows = plan.rows[plan.heard[g].dim];
                    group.inputs = in;
                    forward.weights.push_back({group.linear.weight, in, 0, in, out});
                } else {
                    for (Size c = g; c < static_cast<Size>(stages[s - 1].size()); c += groups)
                        group.sources.push_back(c);
                    group.rows = stages[s - 1][g].rows;
                    group.inputs = static_cast<Size>(group.sources.size()) * out;
                    for (std::size_t i = 0; i < group.sources.size(); ++i)
                        forward.weights.push_back(
                            {group.linear.weight, group.inputs, static_cast<Size>(i) * out, out, out});
                }
                stages.back().push_back(std::move(group));
            }
        }
        back.weights = forward.weights;
        Size size = 0;
        for (const Meeting& m : plan.meetings) size += (plan.rows[m.members] + plan.rows[m.hubs]) * in;
        for (const Heard& h : plan.heard) size += hears_itself_alone(h) ? 0 : plan.rows[h.dim] * in;
        for (const auto& stage : stages)
            for (const Group& g : stage) size += g.rows * out + 2 * statistics_of(g);
        memory = uninitialised(std::max<Size>(size, 1));
        float* at = memory.get();
        const auto take = [&](Size count) { return std::exchange(at, at + count); };
        for (const Meeting& m : plan.meetings) {
            p.push_back(take(plan.rows[m.members] * in));
            q.push_back(take(plan.rows[m.hubs] * in));
        }
        for (const Heard& h : plan.heard)
            z.push_back(hears_itself_alone(h) ? plan.x[h.dim] : take(plan.rows[h.dim] * in));
        for (auto& stage : stages)
            for (Group& g : stage) {
                g.y = take(g.rows * out);
                g.mean = take(statistics_of(g));
                g.rstd = take(statistics_of(g));
            }
    }

    Size statistics_of(const Group& g) const { return plan.norm.layer ? g.rows : plan.width; }

    std::vector<Size> rows_of(std::size_t stage) const {
        std::vector<Size> rows;
        for (const Group& g : stages[stage]) rows.push_back(g.rows);
        return rows;
    }

    Normed normed(const Group& g, Size begin) const {
        const Size first = plan.norm.layer ? begin : 0;
        return {g.y + begin * plan.width, g.mean + first, g.rstd + first, g.linear.gamma, g.linear.beta,
                plan.norm.layer,          plan.norm.cap};
    }

    // ------------------------------------------------------------------------------------------- forward

    // P = x W₁ᵀ of members and Q = x W₂ᵀ + b of hubs.
    void meet_all() {
        if (plan.meetings.empty()) return;
        std::vector<Size> rows;
        for (const Meeting& m : plan.meetings)
            rows.insert(rows.end(), {plan.rows[m.members], plan.rows[m.hubs]});
        const Slabs slabs(rows);
        const Size width = plan.width_in;
        for_each_task(slabs.count(), plan.threads, [&](Size task) {
            const Slab& slab = slabs.all[task];
            const Meeting& m = plan.meetings[slab.group / 2];
            const bool hub = slab.group % 2;
            const float* x = plan.x[hub ? m.hubs : m.members];
            float* out = (hub ? q : p)[slab.group / 2];
            Workspace& w = Workspace::mine();
            Slabs::for_each_block(slab, [&](Size begin, Size count) {
                blocks().copy_rows(w.a.get(), kStride, x + begin * width, width, count, width);
                multiply_block(plan.bf16, w, w.a.get(), count, width, forward.of(slab.group),
                               forward.stride(slab.group), width, out + begin * width, width, false);
                if (hub) blocks().add_row(out + begin * width, width, m.bias, count, width);
            });
        });
        sum_hubs([&](std::size_t i, float* of, Size begin, Size end) {
            blocks().meet(of, plan.meetings[i].down, p[i], q[i], begin, end, width);
        });
    }

    // Sums over the members of hubs, which are gone when a pass ends.
    Floats sums;

    Size hub_rows() const {
        Size rows = 0;
        for (const Meeting& m : plan.meetings) rows += plan.rows[m.hubs];
        return rows;
    }

    float* sums_of(std::size_t meeting) const {
        float* at = sums.get();
        for (std::size_t i = 0; i < meeting; ++i) at += plan.rows[plan.meetings[i].hubs] * plan.width_in;
        return at;
    }

    template <class Work>
    void sum_hubs(const Work& work) {
        sums = uninitialised(std::max<Size>(hub_rows() * plan.width_in, 1));
        std::vector<Size> rows;
        for (const Meeting& m : plan.meetings) rows.push_back(plan.rows[m.hubs]);
        const Slabs slabs(rows);
        for_each_task(slabs.count(), plan.threads, [&](Size task) {
            const Slab& slab = slabs.all[task];
            work(static_cast<std::size_t>(slab.group), sums_of(slab.group), slab.begin, slab.end);
        });
    }

    // What a branch hears in one dimension.
    void hear(Size group, Size begin, Size end) {
        const Heard& h = plan.heard[group];
        const Size width = plan.width_in;
        float* out = const_cast<float*>(z[group]);
        const float* x = plan.x[h.dim];
        if (h.meeting >= 0)
            blocks().hear_meeting(out, x, plan.own, plan.meetings[h.meeting].up, p[h.meeting], q[h.meeting],
                                  sums_of(h.meeting), begin, end, width);
        else if (h.from >= 0)
            blocks().gather(out, x, plan.own, h.rows, plan.x[h.from], begin, end, width);
        else if (!hears_itself_alone(h))
            blocks().scale_rows(out + begin * width, x + begin * width, plan.own, (end - begin) * width);
    }

    // The products of a stage, and the statistics of their norms.
    void run_stage(std::size_t s) {
        const Slabs slabs(rows_of(s));
        const Size width = plan.width;
        const bool batch_statistics = batch() && plan.norm.training;
        const Parts parts(slabs, batch_statistics ? 2 * width : 0);
        for_each_task(slabs.count(), plan.threads, [&](Size task) {
            const Slab& slab = slabs.all[task];
            const Group& g = stages[s][slab.group];
            Workspace& w = Workspace::mine();
            if (batch_statistics) std::fill_n(parts.of(task), 2 * width, 0.0f);
            Slabs::for_each_block(slab, [&](Size begin, Size count) {
                float* y = g.y + begin * width;
                if (s == 0) {
                    hear(slab.group, begin, begin + count);
                    blocks().copy_rows(w.a.get(), kStride, z[slab.group] + begin * plan.width_in,
                                       plan.width_in, count, plan.width_in);
                    multiply_block(plan.bf16, w, w.a.get(), count, plan.width_in, forward.of(g.weight), width,
                                   width, y, width, false);
                }
                for (std::size_t i = 0; i < g.sources.size(); ++i) {
                    blocks().activate(w.a.get(), kStride, normed(stages[s - 1][g.sources[i]], begin), count,
                                      width);
                    multiply_block(plan.bf16, w, w.a.get(), count, width,
                                   forward.of(g.weight + static_cast<Size>(i)), width, width, y, width,
                                   i > 0);
                }
                if (plan.norm.layer) {
                    blocks().add_row(y, width, g.linear.bias, count, width);
                    blocks().row_statistics(g.mean + begin, g.rstd + begin, y, count, width, plan.norm.eps);
                } else if (batch_statistics) {
                    blocks().add_statistics(parts.of(task), parts.of(task) + width, begin - slab.begin, y,
                                            count, width);
                }
            });
        });
        if (!batch()) return;
        for (std::size_t i = 0; i < stages[s].size(); ++i)
            batch_statistics ? of_batch(stages[s][i], slabs, parts, static_cast<Size>(i))
                             : of_averages(stages[s][i]);
    }

    // Statistics of all rows from those of slabs; running averages follow.
    void of_batch(const Group& g, const Slabs& slabs, const Parts& parts, Size number) {
        const Size width = plan.width;
        std::vector<float> spread(static_cast<std::size_t>(width), 0.0f);
        std::fill_n(g.mean, width, 0.0f);
        float before = 0;
        for (Size s = slabs.first[number]; s < slabs.first[number + 1]; ++s) {
            const float rows = static_cast<float>(slabs.all[s].end - slabs.all[s].begin),
                        share = rows / (before + rows);
            const float *mean = parts.of(s), *squares = mean + width;
            for (Size j = 0; j < width; ++j) {
                const float gap = mean[j] - g.mean[j];
                g.mean[j] += share * gap;
                spread[j] += squares[j] + share * before * gap * gap;
            }
            before += rows;
        }
        for (Size j = 0; j < width; ++j) {
            g.rstd[j] = 1 / std::sqrt(spread[j] / before + plan.norm.eps);
            follow(g.linear.running_mean[j], g.linear.running_var[j], g.mean[j] + g.linear.bias[j],
                   spread[j] / (before - 1));
        }
    }

    // Moves running averages towards those of a batch; see cwnet.nn.BatchNorm.
    void follow(float& mean, float& var, float new_mean, float new_var) const {
        const NormRule& rule = plan.norm;
        if (rule.limit == 0) {
            mean += rule.momentum * (new_mean - mean);
            var += rule.momentum * (new_var - var);
            return;
        }
        const auto clamped = [&](float v) {
            return v < -rule.limit ? -rule.limit : v > rule.limit ? rule.limit : v;
        };
        const float wide = var + rule.eps;
        const float away = clamped((new_mean - mean) / std::sqrt(wide));
        const float wider = clamped(std::log((new_var + rule.eps) / wide));
        mean += rule.momentum * away * std::sqrt(wide);
        var += wide * std::expm1(rule.momentum * wider);
    }

    void of_averages(const Group& g) const {
        for (Size j = 0; j < plan.width; ++j) {
            g.mean[j] = g.linear.running_mean[j] - g.linear.bias[j];
            g.rstd[j] = 1 / std::sqrt(g.linear.running_var[j] + plan.norm.eps);
        }
    }

    void write(const std::vector<float*>& out) const {
        const Slabs slabs(rows_of(stages.size() - 1));
        for_each_task(slabs.count(), plan.threads, [&](Size task) {
            const Slab& slab = slabs.all[task];
            blocks().activate(out[slab.group] + slab.begin * plan.width, plan.width,
                              normed(stages.back()[slab.group], slab.begin), slab.end - slab.begin,
                              plan.width);
        });
    }

    // ------------------------------------------------------------------------------------------- backward

    void go_back(const std::vector<const float*>& grad, const LayerGradients& gradients, int threads) {
        plan.threads = threads;
        back.pack(plan.bf16, true, threads);
        const Size width = plan.width;
        std::vector<Floats> tables;  // gradients before activations, and of what was heard
        std::vector<float*> g;
        const auto make = [&](std::size_t stage, Size columns) {
            Size size = 0;
            std::vector<float*> made;
            for (const Group& group : stages[stage]) size += group.rows * columns;
            tables.push_back(uninitialised(std::max<Size>(size, 1)));
            float* at = tables.back().get();
            for (const Group& group : stages[stage])
                made.push_back(std::exchange(at, at + group.rows * columns));
            return made;
        };
        std::size_t s = stages.size() - 1;
        g = make(s, width);
        std::vector<float> means = pass_back_last(grad, g, gradients.stages[s]);
        for (;; --s) {
            std::vector<float*> before = make(s > 0 ? s - 1 : 0, s > 0 ? width : plan.width_in);
            means = stage_back(s, g, means, before, gradients);
            g = before;
            if (s == 0) break;
        }
        messages_back(g, gradients);
    }

    // The sums that slabs leave for the norm of a group, in the gradients of γ and β, and divided by its
    // rows.
    void add_up_norm(const Group& group, const float* parts, Size size, Size slabs, const LinearGradient& to,
                     float* means) const {
        const Size width = plan.width;
        blocks().add_up(means, parts, size, slabs, 2 * width);
        std::copy_n(means, width, to.beta);
        std::copy_n(means + width, width, to.gamma);
        for (Size j = 0; j < 2 * width; ++j) means[j] /= static_cast<float>(std::max<Size>(group.rows, 1));
    }

    std::vector<float> room_for_means(std::size_t s) const {
        return std::vector<float>(stages[s].size() * 2 * static_cast<std::size_t>(plan.width));
    }

    std::vector<float> pass_back_last(const std::vector<const float*>& grad, const std::vector<float*>& g,
                                      const std::vector<LinearGradient>& gradients) {
        const std::size_t s = stages.size() - 1;
        const Slabs slabs(rows_of(s));
        const Size width = plan.width;
        const Parts parts(slabs, 2 * width);
        for_each_task(slabs.count(), plan.threads, [&](Size task) {
            const Slab& slab = slabs.all[task];
            const Size at = slab.begin * width;
            std::fill_n(parts.of(task), 2 * width, 0.0f);
            blocks().pass_back(g[slab.group] + at, grad[slab.group] + at, width,
                               normed(stages[s][slab.group], slab.begin), parts.of(task),
                               parts.of(task) + width, slab.end - slab.begin, width);
        });
        std::vector<float> means = room_for_means(s);
        for (std::size_t i = 0; i < stages[s].size(); ++i)
            add_up_norm(stages[s][i], parts.of(slabs.first[i]), parts.size,
                        slabs.first[i + 1] - slabs.first[i], gradients[i],
                        means.data() + static_cast<Size>(i) * 2 * width);
        return means;
    }

    // From gradients before the activations of a stage to those of the stage before, or of what was heard.
    std::vector<float> stage_back(std::size_t s, const std::vector<float*>& g,
                                  const std::vector<float>& means, const std::vector<float*>& before,
                                  const LayerGradients& gradients) {
        const Slabs slabs(rows_of(s));
        const Size width = plan.width, inputs = stages[s][0].inputs;
        const Size sources = std::max<Size>(static_cast<Size>(stages[s][0].sources.size()), 1);
        const Parts of_weight(slabs, width * inputs), of_bias(slabs, width);
        const Parts of_norms(slabs, 2 * width * sources);
        for_each_task(slabs.count(), plan.threads, [&](Size task) {
            const Slab& slab = slabs.all[task];
            const Group& group = stages[s][slab.group];
            const float* mean_g = means.data() + slab.group * 2 * width;
            Workspace& w = Workspace::mine();
            std::fill_n(of_bias.of(task), width, 0.0f);
            std::fill_n(of_norms.of(task), of_norms.size, 0.0f);
            Slabs::for_each_block(slab, [&](Size begin, Size count) {
                const float* here = g[slab.group] + begin * width;
                if (plan.norm.layer) {
                    blocks().row_gradient(w.g.get(), here, normed(group, begin), count, width);
                    blocks().add_columns(of_bias.of(task), w.g.get(), count, width);
                } else {
                    blocks().batch_gradient(w.g.get(), here, normed(group, begin), mean_g, mean_g + width,
                                            count, width);
                }
                const bool add = begin > slab.begin;
                if (s == 0) {
                    const Size in = plan.width_in;
                    multiply_transposed(plan.bf16, w, w.g.get(), width, z[slab.group] + begin * in, in, in,
                                        count, of_weight.of(task), inputs, add);
                    multiply_block(plan.bf16, w, w.g.get(), count, width, back.of(group.weight),
                                   back.stride(group.weight), in, before[slab.group] + begin * in, in, false);
                }
                for (std::size_t i = 0; i < group.sources.size(); ++i) {
                    const Size source = group.sources[i], weight = group.weight + static_cast<Size>(i);
                    const Normed earlier = normed(stages[s - 1][source], begin);
                    blocks().activate(w.a.get(), kStride, earlier, count, width);
                    multiply_transposed(plan.bf16, w, w.g.get(), width, w.a.get(), kStride, width, count,
                                        of_weight.of(task) + static_cast<Size>(i) * width, inputs, add);
                    multiply_block(plan.bf16, w, w.g.get(), count, width, back.of(weight),
                                   back.stride(weight), width, w.c.get(), kStride, false);
                    float* sums = of_norms.of(task) + static_cast<Size>(i) * 2 * width;
                    blocks().pass_back(before[source] + begin * width, w.c.get(), kStride, earlier, sums,
                                       sums + width, count, width);
                }
            });
        });
        add_up_weights(slabs, of_weight, inputs, [&](Size i) { return gradients.stages[s][i].weight; });
        if (plan.norm.layer)
            for (std::size_t i = 0; i < stages[s].size(); ++i)
                blocks().add_up(gradients.stages[s][i].bias, of_bias.of(slabs.first[i]), width,
                                slabs.first[i + 1] - slabs.first[i], width);
        return s == 0 ? std::vector<float>{} : earlier_sums(s, slabs, of_norms, gradients.stages[s - 1]);
    }

    // The sums for the norms of the stage before, of which a group here may read several.
    std::vector<float> earlier_sums(std::size_t s, const Slabs& slabs, const Parts& parts,
                                    const std::vector<LinearGradient>& gradients) const {
        std::vector<float> means = room_for_means(s - 1);
        const Size size = 2 * plan.width;
        for (std::size_t i = 0; i < stages[s].size(); ++i)
            for (std::size_t k = 0; k < stages[s][i].sources.size(); ++k) {
                const Size source = stages[s][i].sources[k];
                add_up_norm(stages[s - 1][source], parts.of(slabs.first[i]) + static_cast<Size>(k) * size,
                            parts.size, slabs.first[i + 1] - slabs.first[i], gradients[source],
                            means.data() + source * size);
            }
        return means;
    }

    // The gradients of weights, a few of their rows at a time.
    template <class Where>
    void add_up_weights(const Slabs& slabs, const Parts& parts, Size inputs, const Where& where) const {
        const Size groups = static_cast<Size>(slabs.first.size()) - 1, pieces = 4;
        const Size rows = parts.size / inputs, share = (rows + pieces - 1) / pieces;
        for_each_task(groups * pieces, plan.threads, [&](Size task) {
            const Size group = task / pieces, begin = task % pieces * share * inputs;
            const Size end = std::min(begin + share * inputs, parts.size);
            if (begin < end)
                blocks().add_up(where(group) + begin, parts.of(slabs.first[group]) + begin, parts.size,
                                slabs.first[group + 1] - slabs.first[group], end - begin);
        });
    }

    // What dimension `dim` has a part in: as members or as hubs of a meeting.
    struct Role {
        Size meeting;
        bool hub;
    };

    // From the gradients of what was heard to those of features and of the weights of meetings.
    void messages_back(const std::vector<float*>& g, const LayerGradients& gradients) {
        const Size width = plan.width_in;
        std::vector<const float*> of_meeting(plan.meetings.size(), nullptr);
        for (std::size_t i = 0; i < plan.heard.size(); ++i)
            if (plan.heard[i].meeting >= 0) of_meeting[plan.heard[i].meeting] = g[i];
        sum_hubs([&](std::size_t i, float* of, Size begin, Size end) {
            blocks().gather(of, nullptr, 0, plan.meetings[i].down, of_meeting[i], begin, end, width);
        });
        std::vector<std::vector<Role>> roles(plan.x.size());
        std::size_t most = 1;
        for (std::size_t m = 0; m < plan.meetings.size(); ++m)
            for (const bool hub : {false, true}) {
                auto& mine = roles[hub ? plan.meetings[m].hubs : plan.meetings[m].members];
                mine.push_back({static_cast<Size>(m), hub});
                most = std::max(most, mine.size());
            }
        const Slabs slabs(plan.rows);
        const Parts of_weight(slabs, static_cast<Size>(most) * width * width),
            of_bias(slabs, static_cast<Size>(most) * width);
        for_each_task(slabs.count(), plan.threads, [&](Size task) {
            const Slab& slab = slabs.all[task];
            const Size dim = slab.group;
            Workspace& w = Workspace::mine();
            std::fill_n(of_bias.of(task), of_bias.size, 0.0f);
            Slabs::for_each_block(slab, [&](Size begin, Size count) {
                float* out = gradients.x[dim] + begin * width;
                start_gradient(out, dim, g, begin, count);
                for (std::size_t i = 0; i < roles[dim].size(); ++i) {
                    const auto [number, hub] = roles[dim][i];
                    const Meeting& m = plan.meetings[number];
                    if (hub)
                        blocks().hub_gradient(w.g.get(), m.down, p[number], q[number], of_meeting[number],
                                              sums_of(number), begin, begin + count, width);
                    else
                        blocks().member_gradient(w.g.get(), m.up, p[number], q[number], of_meeting[number],
                                                 sums_of(number), begin, begin + count, width);
                    if (hub)
                        blocks().add_columns(of_bias.of(task) + static_cast<Size>(i) * width, w.g.get(),
                                             count, width);
                    multiply_transposed(
                        plan.bf16, w, w.g.get(), width, plan.x[dim] + begin * width, width, width, count,
                        of_weight.of(task) + static_cast<Size>(i) * width * width, width, begin > slab.begin);
                    const Size weight = 2 * number + hub;
                    multiply_block(plan.bf16, w, w.g.get(), count, width, back.of(weight),
                                   back.stride(weight), width, out, width, true);
                }
            });
        });
        for_each_task(static_cast<Size>(plan.x.size()), plan.threads, [&](Size dim) {
            const Size first = slabs.first[dim], count = slabs.first[dim + 1] - first;
            for (std::size_t i = 0; i < roles[dim].size(); ++i) {
                const auto [number, hub] = roles[dim][i];
                const LinearGradient& to = gradients.meetings[number];
                const Size at = static_cast<Size>(i) * width;
                // The two halves of a weight lie side by side.
                for (Size row = 0; row < width; ++row)
                    blocks().add_up(to.weight + row * 2 * width + (hub ? width : 0),
                                    of_weight.of(first) + at * width + row * width, of_weight.size, count,
                                    width);
                if (hub) blocks().add_up(to.bias, of_bias.of(first) + at, of_bias.size, count, width);
            }
        });
        sums.reset();
    }

    // What reaches features without a product: from the branches of their own cells, and from sums over them.
    void start_gradient(float* out, Size dim, const std::vector<float*>& g, Size begin, Size count) const {
        const Size width = plan.width_in;
        std::fill_n(out, count * width, 0.0f);
        for (std::size_t i = 0; i < plan.heard.size(); ++i) {
            const Heard& h = plan.heard[i];
            if (h.dim == dim) blocks().add_scaled(out, g[i] + begin * width, plan.own, count * width);
            if (h.from == dim)
                blocks().gather_more(out - begin * width, h.columns, g[i], begin, begin + count, width);
        }
    }
};

Layer::Layer(LayerPlan plan, const std::vector<float*>& out)
    : state_(std::make_unique<State>(std::move(plan))) {
    state_->write(out);
}
Layer::~Layer() = default;

void Layer::backward(const std::vector<const float*>& grad, const LayerGradients& gradients, int threads) {
    state_->go_back(grad, gradients, threads);
}

}  // namespace cwnet