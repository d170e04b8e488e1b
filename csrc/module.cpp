#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdio>
#include <limits>
#include <optional>
#include <stdexcept>
#include <tuple>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "certify.hpp"
#include "forest.hpp"
#include "fwl.hpp"
#include "intake.hpp"
#include "layer.hpp"
#include "lift.hpp"
#include "molecules.hpp"
#include "nearest.hpp"
#include "refine.hpp"
#include "sums.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace cwnet;

namespace {

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T>
Out<T> give(GrowingArray<T>& array) {
    const std::size_t size = array.size();
    T* data = array.release();
    return Out<T>(data, {size}, nb::capsule(data, [](void* p) noexcept { std::free(p); }));
}

// True when Python has a signal to deliver; called without the GIL.
bool interrupted() {
    const nb::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;
}

[[noreturn]] void raise_interrupt() {
    if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw nb::python_error();
}

// Whether numbers start at 0, never fall, and end at `last`.
template <class T>
bool rises_to(const In<T>& ptr, std::size_t last) {
    if (ptr.shape(0) == 0 || ptr(0) != 0) return false;
    const T* at = ptr.data();
    bool falls = false;
    for (std::size_t i = 1; i < ptr.shape(0); ++i) falls |= at[i] < at[i - 1];
    return !falls && static_cast<std::size_t>(at[ptr.shape(0) - 1]) == last;
}

using PackedOut = std::tuple<Out<std::int64_t>, Out<std::int32_t>, Out<std::int32_t>>;
using IncidentOut = std::tuple<std::int64_t, int, std::int64_t, std::int64_t, std::int64_t, double, int>;

std::tuple<std::vector<PackedOut>, std::vector<IncidentOut>> lift_graphs(
    In<std::int64_t> vertex_ptr, In<std::int64_t> edge_ptr, In<std::int32_t> ends, int rings, int cycles,
    int cliques, std::int64_t max_cells, double max_seconds, int threads, bool keep_repeated,
    bool stop_at_error, int on_budget) {
    if (vertex_ptr.shape(0) == 0 || vertex_ptr.shape(0) != edge_ptr.shape(0))
        throw nb::value_error("vertex_ptr and edge_ptr must have one entry per graph and one more");
    const Graphs graphs{static_cast<std::int64_t>(vertex_ptr.shape(0)) - 1, vertex_ptr.data(),
                        edge_ptr.data(), ends.data()};
    if (!rises_to(vertex_ptr, static_cast<std::size_t>(vertex_ptr(graphs.count))) || ends.shape(0) % 2 != 0 ||
        !rises_to(edge_ptr, ends.shape(0) / 2))
        throw nb::value_error(
            "vertex_ptr and edge_ptr must rise from 0, the latter to half the number of ends");
    const Lifting lifting{rings, cycles, cliques, max_cells, max_seconds};
    const LiftOptions options{threads, keep_repeated, stop_at_error, static_cast<OnBudget>(on_budget)};
    Lifted lifted;
    {
        const nb::gil_scoped_release release;
        lifted = lift(graphs, lifting, options, interrupted);
    }
    if (lifted.cancelled) raise_interrupt();
    std::vector<PackedOut> dims;
    for (auto& cells : lifted.dims)
        dims.emplace_back(give(cells.cell_ptr), give(cells.boundary_ptr), give(cells.boundary_idx));
    std::vector<IncidentOut> incidents;
    for (const auto& i : lifted.incidents)
        incidents.emplace_back(i.graph, static_cast<int>(i.status), i.edge, i.other_edge, i.cells, i.seconds,
                               i.kept);
    return {std::move(dims), std::move(incidents)};
}

// A vector as an array that owns it.
template <class T, class V>
Out<T> give(std::vector<V>&& vector) {
    auto* owner = new std::vector<V>(std::move(vector));
    const std::size_t size = owner->size() * sizeof(V) / sizeof(T);
    return Out<T>(reinterpret_cast<T*>(owner->data()), {size},
                  nb::capsule(owner, [](void* p) noexcept { delete static_cast<std::vector<V>*>(p); }));
}

// ------------------------------------------------------------------------------------------- graphs in

// The tensors of a column, or None.
nb::object parts(Column& column) {
    return column.present ? nb::object(column.parts) : nb::none();
}

// Any iterable of graphs as packed arrays, and the tensors of their features.
nb::tuple read_graphs_py(nb::iterable graphs, nb::callable kind_of, nb::callable slowly) {
    Intake intake(std::move(kind_of), std::move(slowly));
    std::int64_t position = 0;
    for (const nb::handle graph : graphs) {
        intake.append(graph, position++);
        if (position % 1024 == 0 && PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    intake.finish();
    nb::object kept = nb::none();
    if (intake.edge_x.present && !intake.all_kept) kept = nb::cast(give(intake.kept));
    return nb::make_tuple(give(intake.vertex_ptr), give(intake.edge_ptr), give(intake.ends),
                          give(intake.positions), parts(intake.x), parts(intake.edge_x), kept,
                          parts(intake.y));
}

using SpecIn = std::tuple<int, int, int, std::int64_t, double>;

Lifting lifting_of(const SpecIn& spec) {
    const auto [rings, cycles, cliques, max_cells, max_seconds] = spec;
    return {rings, cycles, cliques, max_cells, max_seconds};
}

// One graph, read and lifted. False where something is wrong with it.
bool lift_single(nb::handle graph, std::int64_t position, const SpecIn& spec, Intake& intake,
                 Lifted& lifted) {
    if (!intake.append(graph, position)) return false;
    intake.finish();
    {
        const nb::gil_scoped_release release;
        lifted = lift(intake.view(), lifting_of(spec), {1, false, true, OnBudget::stop}, interrupted);
    }
    if (lifted.cancelled) raise_interrupt();
    return lifted.incidents.empty();
}

// Numbers in 64 bits, as one complex has them.
nb::object widened(const std::int32_t* from, std::size_t count) {
    GrowingArray<std::int64_t> out;
    std::copy_n(from, count, out.extend(count));
    return new_tensor(out);
}

// One graph as (num_cells, tensors ptr and idx of every boundary, features): a complex without a store in
// between. None where something is wrong with it, which `lift_graphs` tells of.
nb::object lift_one_py(nb::handle graph, nb::callable kind_of, nb::callable slowly, const SpecIn& spec) {
    Intake intake(std::move(kind_of), std::move(slowly));
    Lifted lifted;
    if (!lift_single(graph, 0, spec, intake, lifted)) return nb::none();
    const std::size_t edges = intake.ends.size() / 2;
    nb::list num_cells, arrays;
    num_cells.append(intake.vertex_ptr.back());
    num_cells.append(edges);
    GrowingArray<std::int64_t> ptr;
    std::int64_t* at = ptr.extend(edges + 1);
    for (std::size_t i = 0; i <= edges; ++i) at[i] = static_cast<std::int64_t>(2 * i);
    arrays.append(new_tensor(ptr));
    arrays.append(widened(intake.ends.data(), 2 * edges));
    for (const PackedCells& cells : lifted.dims) {
        num_cells.append(cells.cell_ptr.back());
        arrays.append(widened(cells.boundary_ptr.data(), cells.boundary_ptr.size()));
        arrays.append(widened(cells.boundary_idx.data(), cells.boundary_idx.size()));
    }
    nb::object kept = nb::none();
    if (intake.edge_x.present && !intake.all_kept) kept = nb::cast(give(intake.kept));
    return nb::make_tuple(nb::tuple(num_cells), arrays, parts(intake.x), parts(intake.edge_x), kept,
                          parts(intake.y));
}

// ------------------------------------------------------------------------------- one complex, and many

// Complex i out of many: (num_cells, tensors ptr and idx of every boundary, where its cells are). Numbers
// inside boundaries are local to each complex (a store) or go through (a batch). O(cells and incidences of
// complex i).
nb::tuple cut_py(nb::tuple cell_ptr, nb::tuple boundaries, nb::handle dims, std::int64_t i, bool local) {
    const Numbers last_dims(dims.ptr());
    if (i < 0 || i >= last_dims.size()) throw nb::index_error("there is no such complex");
    const std::int64_t last = last_dims[i];
    if (last < 0 || last >= static_cast<std::int64_t>(cell_ptr.size()) ||
        last > static_cast<std::int64_t>(boundaries.size()))
        throw nb::value_error("a complex has more dimensions than there are");
    nb::list num_cells, tensors, spans;
    std::int64_t first_below = 0, below = 0;
    for (std::int64_t d = 0; d <= last; ++d) {
        const Numbers cells(nb::handle(cell_ptr[d]).ptr());
        if (cells.size() != last_dims.size() + 1)
            throw nb::value_error("cell_ptr must have one entry per complex and one more");
        const std::int64_t first = cells[i], end = cells[i + 1];
        if (first < 0 || end < first) throw nb::value_error("cell_ptr must rise from 0");
        num_cells.append(end - first);
        spans.append(nb::make_tuple(first, end));
        if (d > 0) {
            const nb::handle boundary = boundaries[d - 1];
            const nb::object ptr_of = boundary[0], idx_of = boundary[1];
            const Numbers ptr(ptr_of.ptr()), idx(idx_of.ptr());
            if (end >= ptr.size()) throw nb::value_error("cell_ptr goes beyond the boundaries");
            const std::int64_t begin = ptr[first], stop = ptr[end], shift = local ? 0 : first_below;
            if (begin < 0 || stop < begin || stop > idx.size())
                throw nb::value_error(
                    "the pointers of boundaries must rise from 0 to the number of incidences");
            GrowingArray<std::int64_t> rows, faces;
            std::int64_t* row = rows.extend(end - first + 1);
            for (std::int64_t c = first; c <= end; ++c) *row++ = ptr[c] - begin;
            std::int64_t* face = faces.extend(stop - begin);
            bool missing = false;
            for (std::int64_t k = begin; k < stop; ++k) {
                *face++ = idx[k] - shift;
                missing |= static_cast<std::uint64_t>(idx[k] - shift) >= static_cast<std::uint64_t>(below);
            }
            if (missing) throw nb::value_error("a boundary names a cell that is not in its complex");
            tensors.append(new_tensor(rows));
            tensors.append(new_tensor(faces));
        }
        first_below = first;
        below = end - first;
    }
    return nb::make_tuple(nb::tuple(num_cells), tensors, spans);
}

// The boundaries of many complexes, packed: per dimension d from one on, all complexes' ptr and idx in 32
// bits. `boundaries` has a tuple of (ptr, idx) per complex. O(cells and incidences).
nb::list pack_boundaries_py(nb::list boundaries, std::int64_t top) {
    nb::list out;
    for (std::int64_t d = 1; d <= top; ++d) {
        GrowingArray<std::int32_t> rows, faces;
        rows.push_back(0);
        for (const nb::handle complex : boundaries) {
            if (static_cast<std::int64_t>(nb::len(complex)) < d) continue;
            const nb::object boundary = complex[d - 1];
            const nb::object ptr_of = boundary[nb::int_(0)], idx_of = boundary[nb::int_(1)];
            const Numbers ptr(ptr_of.ptr()), idx(idx_of.ptr());
            if (ptr.size() == 0 || ptr[0] != 0 || ptr[ptr.size() - 1] != idx.size())
                throw nb::value_error(
                    "the pointers of boundaries must rise from 0 to the number of incidences");
            const auto before = static_cast<std::int64_t>(faces.size());
            if (before + idx.size() > std::numeric_limits<std::int32_t>::max())
                throw std::length_error("more than 2^31 - 1 incidences, which one store can not hold");
            std::int32_t* row = rows.extend(ptr.size() - 1);
            for (std::int64_t c = 1; c < ptr.size(); ++c) *row++ = static_cast<std::int32_t>(before + ptr[c]);
            std::int32_t* face = faces.extend(idx.size());
            for (std::int64_t k = 0; k < idx.size(); ++k) *face++ = static_cast<std::int32_t>(idx[k]);
        }
        out.append(nb::make_tuple(give(rows), give(faces)));
    }
    return out;
}

using Labels = std::vector<std::optional<In<std::int64_t>>>;

// Holds pointers into its arguments, which must outlive it. Pointers are checked here, in linear time;
// the numbers inside boundaries where they are read.
Complexes view(const std::vector<In<std::int64_t>>& cell_ptr,
               const std::vector<In<std::int32_t>>& boundary_ptr,
               const std::vector<In<std::int32_t>>& boundary_idx, const Labels& labels) {
    const std::size_t dims = cell_ptr.size();
    if (dims == 0 || boundary_ptr.size() != dims - 1 || boundary_idx.size() != dims - 1 ||
        labels.size() != dims)
        throw nb::value_error("one cell_ptr and one labels entry per dimension, one boundary less");
    Complexes complexes;
    complexes.count = static_cast<std::int64_t>(cell_ptr[0].shape(0)) - 1;
    for (std::size_t d = 0; d < dims; ++d) {
        const std::size_t entries = cell_ptr[d].shape(0);
        if (entries == 0 || entries != cell_ptr[0].shape(0))
            throw nb::value_error("cell_ptr must have one entry per complex and one more");
        const auto cells = static_cast<std::size_t>(cell_ptr[d](entries - 1));
        if (!rises_to(cell_ptr[d], cells)) throw nb::value_error("cell_ptr must rise from 0");
        if (labels[d] && labels[d]->shape(0) != cells)
            throw nb::value_error("labels must be one number per cell");
        complexes.cell_ptr.push_back(cell_ptr[d].data());
        complexes.labels.push_back(labels[d] ? labels[d]->data() : nullptr);
        if (d == 0) continue;
        if (boundary_ptr[d - 1].shape(0) != cells + 1 ||
            !rises_to(boundary_ptr[d - 1], boundary_idx[d - 1].shape(0)))
            throw nb::value_error("the pointers of boundaries must rise from 0 to the number of incidences");
        complexes.boundary_ptr.push_back(boundary_ptr[d - 1].data());
        complexes.boundary_idx.push_back(boundary_idx[d - 1].data());
    }
    return complexes;
}

RefineOptions refine_options(int adjacencies, bool by_dimension, int max_rounds, bool until_stable) {
    RefineOptions options;
    options.adjacencies = {(adjacencies & 1) != 0, (adjacencies & 2) != 0, (adjacencies & 4) != 0,
                           (adjacencies & 8) != 0};
    options.initial = by_dimension ? Initial::dimension : Initial::uniform;
    options.max_rounds = max_rounds;
    options.until_stable = until_stable;
    return options;
}

auto refine_fast_py(std::vector<In<std::int64_t>> cell_ptr, std::vector<In<std::int32_t>> boundary_ptr,
                    std::vector<In<std::int32_t>> boundary_idx, Labels labels, int adjacencies,
                    bool by_dimension, int max_rounds, bool until_stable, bool keep_colours,
                    bool keep_history, int threads) {
    const Complexes complexes = view(cell_ptr, boundary_ptr, boundary_idx, labels);
    RefineOptions options = refine_options(adjacencies, by_dimension, max_rounds, until_stable);
    options.keep_colours = keep_colours;
    options.keep_history = keep_history;
    options.threads = threads;
    Refined refined;
    {
        const nb::gil_scoped_release release;
        refined = refine_fast(complexes, options, interrupted);
    }
    if (refined.cancelled) raise_interrupt();
    return std::make_tuple(
        give<std::int32_t>(std::move(refined.rounds)), give<std::int64_t>(std::move(refined.history_ptr)),
        give<std::uint64_t>(std::move(refined.histograms)), give<std::int64_t>(std::move(refined.colour_ptr)),
        give<std::uint64_t>(std::move(refined.colours)));
}

// One graph, lifted: a set of one complex. It is empty where something is wrong with the graph, which
// `lift_graphs` tells of.
class Single {
  public:
    Single(nb::handle graph, std::int64_t position, nb::callable kind_of, nb::callable slowly,
           const SpecIn& spec)
        : intake_(std::move(kind_of), std::move(slowly)) {
        if (!lift_single(graph, position, spec, intake_, lifted_)) return;
        pairs_.resize(intake_.ends.size() / 2 + 1);
        for (std::size_t i = 0; i < pairs_.size(); ++i) pairs_[i] = static_cast<std::int32_t>(2 * i);
        complexes_.count = 1;
        complexes_.cell_ptr = {intake_.vertex_ptr.data(), intake_.edge_ptr.data()};
        complexes_.boundary_ptr = {pairs_.data()};
        complexes_.boundary_idx = {intake_.ends.data()};
        for (const PackedCells& cells : lifted_.dims) {
            complexes_.cell_ptr.push_back(cells.cell_ptr.data());
            complexes_.boundary_ptr.push_back(cells.boundary_ptr.data());
            complexes_.boundary_idx.push_back(cells.boundary_idx.data());
        }
        complexes_.labels.assign(complexes_.cell_ptr.size(), nullptr);
    }
    const Complexes& complexes() const { return complexes_; }

  private:
    Intake intake_;
    Lifted lifted_;
    std::vector<std::int32_t> pairs_;  // where the ends of each edge begin
    Complexes complexes_;
};

// The hash of one graph's histogram after every round, 16 bytes each, or None.
nb::object refine_one_py(nb::handle graph, std::int64_t position, nb::callable kind_of, nb::callable slowly,
                         const SpecIn& spec, int adjacencies, bool by_dimension) {
    const Single single(graph, position, std::move(kind_of), std::move(slowly), spec);
    if (single.complexes().count == 0) return nb::none();
    Refined refined;
    {
        const nb::gil_scoped_release release;
        refined =
            refine_fast(single.complexes(), refine_options(adjacencies, by_dimension, -1, true), interrupted);
    }
    if (refined.cancelled) raise_interrupt();
    return nb::bytes(refined.histograms.data(), refined.histograms.size() * sizeof(Colour));
}

auto certify_py(std::vector<In<std::int64_t>> cell_ptr, std::vector<In<std::int32_t>> boundary_ptr,
                std::vector<In<std::int32_t>> boundary_idx, Labels labels, int threads) {
    const Complexes complexes = view(cell_ptr, boundary_ptr, boundary_idx, labels);
    Certified certified;
    {
        const nb::gil_scoped_release release;
        certified = certify(complexes, threads, interrupted);
    }
    if (certified.cancelled) raise_interrupt();
    return give<std::uint64_t>(std::move(certified.certificates));
}

// The certificate of one graph as hexadecimal digits, or None.
nb::object certify_one_py(nb::handle graph, std::int64_t position, nb::callable kind_of, nb::callable slowly,
                          const SpecIn& spec) {
    const Single single(graph, position, std::move(kind_of), std::move(slowly), spec);
    if (single.complexes().count == 0) return nb::none();
    Certified certified;
    {
        const nb::gil_scoped_release release;
        certified = certify(single.complexes(), 1, interrupted);
    }
    if (certified.cancelled) raise_interrupt();
    char text[33];
    std::snprintf(text, sizeof text, "%016llx%016llx",
                  static_cast<unsigned long long>(certified.certificates[0].a),
                  static_cast<unsigned long long>(certified.certificates[0].b));
    return nb::str(text);
}

auto refine_exact_py(std::vector<In<std::int64_t>> cell_ptr, std::vector<In<std::int32_t>> boundary_ptr,
                     std::vector<In<std::int32_t>> boundary_idx, Labels labels, int adjacencies,
                     bool by_dimension, int max_rounds, bool until_stable) {
    const Complexes complexes = view(cell_ptr, boundary_ptr, boundary_idx, labels);
    const RefineOptions options = refine_options(adjacencies, by_dimension, max_rounds, until_stable);
    RefinedExactly refined;
    {
        const nb::gil_scoped_release release;
        refined = refine_exact(complexes, options, interrupted);
    }
    if (refined.cancelled) raise_interrupt();
    std::vector<Out<std::int32_t>> colours;
    for (auto& round : refined.colours) colours.push_back(give<std::int32_t>(std::move(round)));
    return std::make_tuple(refined.rounds, std::move(colours),
                           give<std::int64_t>(std::move(refined.complex_ptr)));
}

auto refine_folklore_py(In<std::int64_t> vertex_ptr, In<std::int64_t> edge_ptr, In<std::int32_t> ends, int k,
                        std::optional<In<std::int64_t>> vertex_labels,
                        std::optional<In<std::int64_t>> edge_labels) {
    if (k < 1 || k > 3) throw nb::value_error("k must be 1, 2 or 3");
    const Graphs graphs{static_cast<std::int64_t>(vertex_ptr.shape(0)) - 1, vertex_ptr.data(),
                        edge_ptr.data(), ends.data()};
    FolkloreResult result;
    {
        const nb::gil_scoped_release release;
        result = refine_folklore(graphs, k, vertex_labels ? vertex_labels->data() : nullptr,
                                 edge_labels ? edge_labels->data() : nullptr, interrupted);
    }
    if (result.cancelled) raise_interrupt();
    std::vector<Out<std::int32_t>> histograms;
    for (auto& round : result.histograms) histograms.push_back(give<std::int32_t>(std::move(round)));
    return std::make_tuple(result.rounds, std::move(histograms));
}

// Tensors are given by their addresses: to ask PyTorch for arrays costs more than some of the sums.
template <class T>
T* at(std::uintptr_t address) {
    return reinterpret_cast<T*>(address);
}

using Address = std::uintptr_t;
using RowsAt = std::tuple<std::int64_t, Address, Address>;

Rows rows_at(const RowsAt& rows) {
    const auto [count, ptr, idx] = rows;
    return {count, at<const std::int64_t>(ptr), at<const std::int64_t>(idx)};
}

void adjacent_sum_py(const RowsAt& down, const RowsAt& up, Address x, Address shared, std::int64_t width,
                     Address total, Address out, int threads) {
    adjacent_sum(rows_at(down), rows_at(up), at<const float>(x), at<const float>(shared), width,
                 at<float>(total), at<float>(out), threads);
}

void adjacent_sum_backward_py(const RowsAt& down, const RowsAt& up, Address grad, Address x, Address shared,
                              std::int64_t width, Address total, Address grad_x, Address grad_shared,
                              int threads) {
    adjacent_sum_backward(rows_at(down), rows_at(up), at<const float>(grad), at<const float>(x),
                          at<const float>(shared), width, at<float>(total), at<float>(grad_x),
                          at<float>(grad_shared), threads);
}

void norm_relu_py(std::int64_t rows, std::int64_t width, Address gamma, Address beta, float eps, Address x,
                  Address out, Address mean, Address var, Address rstd, int threads) {
    norm_relu({rows, width, at<const float>(gamma), at<const float>(beta), eps}, at<const float>(x),
              at<float>(out), at<float>(mean), at<float>(var), at<float>(rstd), threads);
}

void norm_relu_backward_py(std::int64_t rows, std::int64_t width, Address gamma, Address grad, Address x,
                           Address out, Address mean, Address rstd, Address grad_x, Address grad_gamma,
                           Address grad_beta, int threads) {
    norm_relu_backward({rows, width, at<const float>(gamma), nullptr, 0}, at<const float>(grad),
                       at<const float>(x), at<const float>(out), at<const float>(mean), at<const float>(rstd),
                       at<float>(grad_x), at<float>(grad_gamma), at<float>(grad_beta), threads);
}

using MeetingAt = std::tuple<std::int64_t, std::int64_t, RowsAt, RowsAt, Address, Address>;
using HeardAt = std::tuple<std::int64_t, std::int64_t, std::int64_t, RowsAt, RowsAt>;
using LinearAt = std::tuple<Address, Address, Address, Address, Address, Address>;
using GradientAt = std::tuple<Address, Address, Address, Address>;
using NormAt = std::tuple<bool, bool, float, float, float, float>;

template <class T>
std::vector<T*> all_at(const std::vector<Address>& addresses) {
    std::vector<T*> found;
    for (const Address address : addresses) found.push_back(at<T>(address));
    return found;
}

void make_layer(Layer* self, const std::vector<Address>& x, const std::vector<std::int64_t>& rows,
                std::int64_t width_in, std::int64_t width, float own, const std::vector<MeetingAt>& meetings,
                const std::vector<HeardAt>& heard, const std::vector<std::vector<LinearAt>>& stages,
                const NormAt& norm, bool bf16, int threads, const std::vector<Address>& out) {
    const auto [layer, training, eps, momentum, limit, cap] = norm;
    LayerPlan plan{all_at<const float>(x), rows, width_in, width, own, {}, {}, {}, {}, bf16, threads};
    plan.norm = {layer, training, eps, momentum, limit, cap};
    for (const auto& [members, hubs, down, up, weight, bias] : meetings)
        plan.meetings.push_back(
            {members, hubs, rows_at(down), rows_at(up), at<const float>(weight), at<const float>(bias)});
    for (const auto& [dim, meeting, from, down, up] : heard)
        plan.heard.push_back({dim, meeting, from, rows_at(down), rows_at(up)});
    for (const auto& stage : stages) {
        plan.stages.emplace_back();
        for (const auto& [weight, bias, gamma, beta, mean, var] : stage)
            plan.stages.back().push_back({at<const float>(weight), at<const float>(bias),
                                          at<const float>(gamma), at<const float>(beta), at<float>(mean),
                                          at<float>(var)});
    }
    new (self) Layer(std::move(plan), all_at<float>(out));
}

LinearGradient gradient_at(const GradientAt& addresses) {
    const auto [weight, bias, gamma, beta] = addresses;
    return {at<float>(weight), at<float>(bias), at<float>(gamma), at<float>(beta)};
}

void layer_backward(Layer& self, const std::vector<Address>& grad, const std::vector<Address>& x,
                    const std::vector<GradientAt>& meetings,
                    const std::vector<std::vector<GradientAt>>& stages, int threads) {
    LayerGradients gradients{all_at<float>(x), {}, {}};
    for (const GradientAt& m : meetings) gradients.meetings.push_back(gradient_at(m));
    for (const auto& stage : stages) {
        gradients.stages.emplace_back();
        for (const GradientAt& g : stage) gradients.stages.back().push_back(gradient_at(g));
    }
    self.backward(all_at<const float>(grad), gradients, threads);
}

// The molecules of a list up to the first that is not understood, and how many they are.
std::tuple<Out<std::int64_t>, Out<std::int64_t>, Out<std::int32_t>, Out<std::uint8_t>, Out<std::uint8_t>>
decode_molecules_py(nb::list binaries, std::size_t start, nb::bytes chirality, nb::bytes hybridisation,
                    nb::bytes bond_type, nb::bytes stereo) {
    for (const nb::bytes& table : {chirality, hybridisation, bond_type, stereo})
        if (table.size() != 256) throw nb::value_error("a table has 256 categories");
    const auto data = [](const nb::bytes& table) {
        return reinterpret_cast<const std::uint8_t*>(table.c_str());
    };
    const Categories categories{data(chirality), data(hybridisation), data(bond_type), data(stereo)};
    MoleculeArrays out;
    GrowingArray<std::int64_t> atoms, bonds;
    for (std::size_t i = start; i < binaries.size(); ++i) {
        const nb::bytes binary = nb::borrow<nb::bytes>(binaries[i]);
        MoleculeSize size;
        if (!append_molecule({binary.c_str(), binary.size()}, categories, out, size)) break;
        atoms.push_back(size.atoms);
        bonds.push_back(size.bonds);
    }
    return {give(atoms), give(bonds), give(out.ends), give(out.atoms), give(out.bonds)};
}

template <class T>
using Table = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
nb::ndarray<nb::numpy, T> make(std::initializer_list<std::size_t> shape) {
    std::size_t size = 1;
    for (const std::size_t length : shape) size *= length;
    T* data = new T[size];
    return nb::ndarray<nb::numpy, T>(
        data, shape, nb::capsule(data, [](void* p) noexcept { delete[] static_cast<T*>(p); }));
}

std::tuple<nb::ndarray<nb::numpy, double>, nb::ndarray<nb::numpy, double>> predict_forest_py(
    In<std::int64_t> tree_ptr, In<std::uint16_t> feature, In<float> threshold, In<std::uint32_t> next,
    Table<float> values, Table<float> x, int threads) {
    const std::size_t nodes = feature.shape(0);
    if (threshold.shape(0) != nodes || next.shape(0) != nodes)
        throw nb::value_error("feature, threshold and next must have one entry per node");
    if (!rises_to(tree_ptr, nodes)) throw nb::value_error("tree_ptr must rise from 0 to the number of nodes");
    const auto count = [](std::size_t number) { return static_cast<std::int64_t>(number); };
    const Forest forest{count(tree_ptr.shape(0)) - 1,
                        count(nodes),
                        count(values.shape(0)),
                        count(values.shape(1)),
                        tree_ptr.data(),
                        feature.data(),
                        threshold.data(),
                        next.data(),
                        values.data()};
    auto mean = make<double>({x.shape(0), values.shape(1)}),
         std = make<double>({x.shape(0), values.shape(1)});
    {
        const nb::gil_scoped_release unlocked;
        predict_forest(forest, x.data(), count(x.shape(0)), count(x.shape(1)), mean.data(), std.data(),
                       threads);
    }
    return {mean, std};
}

using CountedIn = std::tuple<In<std::int64_t>, In<std::uint16_t>, In<std::uint8_t>>;

Counted counted(const CountedIn& rows, std::int64_t columns) {
    const auto& [ptr, column, times] = rows;
    if (column.shape(0) != times.shape(0) || !rises_to(ptr, column.shape(0)))
        throw nb::value_error("ptr must rise from 0 to the number of columns, and each has a count");
    for (std::size_t i = 0; i < column.shape(0); ++i)
        if (column(i) >= columns) throw nb::value_error("there is a column beyond the last");
    return {static_cast<std::int64_t>(ptr.shape(0)) - 1, ptr.data(), column.data(), times.data()};
}

nb::ndarray<nb::numpy, float> nearest_similarity_py(const CountedIn& members, const CountedIn& queries,
                                                    std::int64_t columns, std::int64_t k, int threads) {
    if (columns < 0 || columns > 65536 || k < 1) throw nb::value_error("columns or k is out of range");
    const Counted known = counted(members, columns), asked = counted(queries, columns);
    auto similarity = make<float>({static_cast<std::size_t>(asked.count)});
    {
        const nb::gil_scoped_release unlocked;
        nearest_similarity(known, asked, columns, k, similarity.data(), threads);
    }
    return similarity;
}

// A step of training frees what the next one needs. Pages that go back to the system between two steps come
// again one fault at a time, which took a fifth of a small step.
void keep_freed_memory() {
#if defined(__GLIBC__)
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "The combinatorial core of cwnet.";
    m.def("lift", &lift_graphs, "vertex_ptr"_a, "edge_ptr"_a, "ends"_a, nb::kw_only(), "rings"_a, "cycles"_a,
          "cliques"_a, "max_cells"_a, "max_seconds"_a, "threads"_a, "keep_repeated"_a, "stop_at_error"_a,
          "on_budget"_a,
          "Attach cells to packed graphs. Returns one (cell_ptr, boundary_ptr, boundary_idx) per dimension "
          "from\n"
          "two on, and one (graph, status, edge, other_edge, cells, seconds, kept) per graph that failed.");
    m.def("read_graphs", &read_graphs_py, "graphs"_a, "kind_of"_a, "slowly"_a,
          "Graphs of any kind as packed arrays. Returns (vertex_ptr, edge_ptr, ends, positions, tensors of "
          "vertex\nfeatures, of edge features, rows of these that count, tensors of targets).");
    m.def(
        "lift_one", &lift_one_py, "graph"_a.none(), "kind_of"_a, "slowly"_a, "spec"_a,
        "One graph, lifted. Returns (num_cells, [ptr, idx, ptr, ...], features as in read_graphs), or None.");
    m.def("refine_one", &refine_one_py, "graph"_a.none(), "position"_a, "kind_of"_a, "slowly"_a, "spec"_a,
          "adjacencies"_a, "by_dimension"_a,
          "One graph, lifted and refined. Returns 16 bytes per round, or None.");
    m.def("certify_one", &certify_one_py, "graph"_a.none(), "position"_a, "kind_of"_a, "slowly"_a, "spec"_a,
          "The certificate of one graph, lifted, as hexadecimal digits; or None.");
    m.def("cut", &cut_py, "cell_ptr"_a, "boundaries"_a, "dims"_a, "i"_a, "local"_a,
          "One complex out of many. Returns (num_cells, [ptr, idx, ptr, ...], where its cells are).");
    m.def("pack_boundaries", &pack_boundaries_py, "boundaries"_a, "top"_a,
          "The boundaries of many complexes. Returns (ptr, idx) per dimension from one on.");
    m.def("refine_fast", &refine_fast_py, "cell_ptr"_a, "boundary_ptr"_a, "boundary_idx"_a, "labels"_a.none(),
          nb::kw_only(), "adjacencies"_a, "by_dimension"_a, "max_rounds"_a, "until_stable"_a,
          "keep_colours"_a, "keep_history"_a, "threads"_a,
          "Colour refinement with 128-bit colours, complex by complex. Returns (rounds, history_ptr, "
          "histograms,\n"
          "colour_ptr, colours); 128-bit values are pairs of words.");
    m.def("certify", &certify_py, "cell_ptr"_a, "boundary_ptr"_a, "boundary_idx"_a, "labels"_a.none(),
          nb::kw_only(), "threads"_a, "The certificate of every complex, as a pair of words.");
    m.def("refine_exact", &refine_exact_py, "cell_ptr"_a, "boundary_ptr"_a, "boundary_idx"_a, "labels"_a,
          nb::kw_only(), "adjacencies"_a, "by_dimension"_a, "max_rounds"_a, "until_stable"_a,
          "Colour refinement by comparison, all complexes together. Returns (rounds, colours per round, "
          "complex_ptr).");
    m.def("refine_folklore", &refine_folklore_py, "vertex_ptr"_a, "edge_ptr"_a, "ends"_a, "k"_a,
          "vertex_labels"_a.none(), "edge_labels"_a.none(),
          "Folklore k-WL of graphs, all together. Returns (rounds, histogram classes per round).");
    m.def(
        "decode_molecules", &decode_molecules_py, "binaries"_a, "start"_a, "chirality"_a, "hybridisation"_a,
        "bond_type"_a, "stereo"_a,
        "Molecules in RDKit's binary form, from a number on and up to the first that is not understood.\n"
        "Returns (atoms per molecule, bonds per molecule, ends, categories of atoms, categories of bonds).");
    m.def("predict_forest", &predict_forest_py, "tree_ptr"_a, "feature"_a, "threshold"_a, "next"_a,
          "values"_a, "x"_a, "threads"_a,
          "What trees say of the rows of x. Returns (mean, standard deviation) over the trees, [rows, "
          "outputs].");
    m.def("nearest_similarity", &nearest_similarity_py, "members"_a, "queries"_a, "columns"_a, "k"_a,
          "threads"_a, "The mean Tanimoto similarity of queries to the k members most like them.");
    using Unlocked = nb::call_guard<nb::gil_scoped_release>;
    m.def("adjacent_sum", &adjacent_sum_py, Unlocked(),
          "Sums over neighbours. Addresses of float32 tensors.");
    m.def("adjacent_sum_backward", &adjacent_sum_backward_py, Unlocked(), "Their gradients.");
    m.def("norm_relu", &norm_relu_py, Unlocked(), "Batch norm and ReLU. Addresses of float32 tensors.");
    m.def("norm_relu_backward", &norm_relu_backward_py, Unlocked(), "Their gradients.");
    nb::class_<Layer>(m, "Layer",
                      "A pass through a whole layer. Addresses of float32 tensors, which must stay.")
        .def("__init__", &make_layer, Unlocked())
        .def("backward", &layer_backward, Unlocked(), "Write all gradients.");
    m.attr("LANES") = kColumns;
    m.attr("MAX_WIDTH") = kMaxWidth;
    m.def(
        "keep_freed_memory", &keep_freed_memory,
        "Let this process keep memory that it frees, up to 256 MiB, instead of asking for it at every step.");
    m.def("multiplies_bf16", &multiplies_bf16, "Whether this processor has products in bf16.");
    m.def("use_portable_blocks", &use_portable_blocks,
          "Compute as a machine without vector units does; for tests.");
}
