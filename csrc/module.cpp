#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "lift.hpp"

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

using PackedOut = std::tuple<Out<std::int64_t>, Out<std::int64_t>, Out<std::int32_t>>;
using IncidentOut = std::tuple<std::int64_t, int, std::int64_t, std::int64_t, std::int64_t, double, int>;

std::tuple<std::vector<PackedOut>, std::vector<IncidentOut>> lift_graphs(
    In<std::int64_t> vertex_ptr, In<std::int64_t> edge_ptr, In<std::int32_t> ends, int rings, int cycles,
    int cliques, std::int64_t max_cells, double max_seconds, int threads, bool keep_repeated,
    bool stop_at_error, int on_budget) {
    if (vertex_ptr.shape(0) == 0 || vertex_ptr.shape(0) != edge_ptr.shape(0))
        throw nb::value_error("vertex_ptr and edge_ptr must have one entry per graph and one more");
    const Graphs graphs{static_cast<std::int64_t>(vertex_ptr.shape(0)) - 1, vertex_ptr.data(),
                        edge_ptr.data(), ends.data()};
    if (static_cast<std::int64_t>(ends.shape(0)) != 2 * graphs.edge_ptr[graphs.count])
        throw nb::value_error("ends must have two entries per edge");
    const Lifting lifting{rings, cycles, cliques, max_cells, max_seconds};
    const LiftOptions options{threads, keep_repeated, stop_at_error, static_cast<OnBudget>(on_budget)};
    Lifted lifted;
    {
        const nb::gil_scoped_release release;
        lifted = lift(graphs, lifting, options, interrupted);
    }
    if (lifted.cancelled) {
        if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
        throw nb::python_error();
    }
    std::vector<PackedOut> dims;
    for (auto& cells : lifted.dims)
        dims.emplace_back(give(cells.cell_ptr), give(cells.boundary_ptr), give(cells.boundary_idx));
    std::vector<IncidentOut> incidents;
    for (const auto& i : lifted.incidents)
        incidents.emplace_back(i.graph, static_cast<int>(i.status), i.edge, i.other_edge, i.cells, i.seconds,
                               i.kept);
    return {std::move(dims), std::move(incidents)};
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
}
