#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>

#include "fwl.hpp"
#include "lift.hpp"
#include "molecules.hpp"
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
    if (!rises_to(vertex_ptr, static_cast<std::size_t>(vertex_ptr(graphs.count))) ||
        ends.shape(0) % 2 != 0 || !rises_to(edge_ptr, ends.shape(0) / 2))
        throw nb::value_error("vertex_ptr and edge_ptr must rise from 0, the latter to half the number of ends");
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
                    bool by_dimension, int max_rounds, bool until_stable, bool keep_colours, bool keep_history,
                    int threads) {
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
        give<std::int32_t>(std::move(refined.rounds)), give<std::uint64_t>(std::move(refined.certificates)),
        give<std::int64_t>(std::move(refined.history_ptr)),
        give<std::uint64_t>(std::move(refined.histograms)), give<std::int64_t>(std::move(refined.colour_ptr)),
        give<std::uint64_t>(std::move(refined.colours)));
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

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "The combinatorial core of cwnet.";
    m.def("lift", &lift_graphs, "vertex_ptr"_a, "edge_ptr"_a, "ends"_a, nb::kw_only(), "rings"_a, "cycles"_a,
          "cliques"_a, "max_cells"_a, "max_seconds"_a, "threads"_a, "keep_repeated"_a, "stop_at_error"_a,
          "on_budget"_a,
          "Attach cells to packed graphs. Returns one (cell_ptr, boundary_ptr, boundary_idx) per dimension "
          "from\n"
          "two on, and one (graph, status, edge, other_edge, cells, seconds, kept) per graph that failed.");
    m.def("refine_fast", &refine_fast_py, "cell_ptr"_a, "boundary_ptr"_a, "boundary_idx"_a, "labels"_a.none(),
          nb::kw_only(), "adjacencies"_a, "by_dimension"_a, "max_rounds"_a, "until_stable"_a,
          "keep_colours"_a, "keep_history"_a, "threads"_a,
          "Colour refinement with 128-bit colours, complex by complex. Returns (rounds, certificates, "
          "history_ptr,\n"
          "histograms, colour_ptr, colours); 128-bit values are pairs of words.");
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
    using Unlocked = nb::call_guard<nb::gil_scoped_release>;
    m.def("adjacent_sum", &adjacent_sum_py, Unlocked(),
          "Sums over neighbours. Addresses of float32 tensors.");
    m.def("adjacent_sum_backward", &adjacent_sum_backward_py, Unlocked(), "Their gradients.");
    m.def("norm_relu", &norm_relu_py, Unlocked(), "Batch norm and ReLU. Addresses of float32 tensors.");
    m.def("norm_relu_backward", &norm_relu_backward_py, Unlocked(), "Their gradients.");
}
