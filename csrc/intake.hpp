// Graphs in: Python's many kinds of graphs become one packed set, in one pass.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "lift.hpp"
#include "molecules.hpp"
#include "tensors.hpp"

namespace cwnet {

// How a graph is kept by its library; `kind_of` in Python says it of a class.
enum class GraphKind : int {
    other = 0,     // asked for in Python
    networkx = 1,  // a networkx.Graph: dictionaries of neighbours
    pyg = 2,       // a PyG Data: edge_index in both directions
    rdkit = 3,     // an RDKit Mol, whose binary form is known here
};

// Features or targets of all graphs, one row per cell or graph: tensors to be concatenated.
struct Column {
    bool decided = false;  // the first graph decides of what kind they are
    bool present = false;
    std::uint32_t type = 0;           // of the numbers, as DLPack writes it
    std::vector<std::int64_t> shape;  // of one row
    nanobind::list parts;
    bool numbers = false;                // whether rows are made here, of one number each
    GrowingArray<std::int64_t> pending;  // such rows that are not in a tensor yet
};

// Reads graphs and appends them to packed arrays. What is not understood here is given to `slowly`, the
// Python function that reads any graph or says what is wrong with it; it returns None to leave the graph out.
//
// Understood are (num_nodes, edges) with edges in a list or tuple of pairs of ints or in an array or tensor
// of whole numbers in any strides, and the kinds above. Of every graph it is checked that vertex numbers fit
// 32 bits, that features have a row for every cell, are of the same kind in all graphs and not NaN, and that
// PyG's two directions agree. Whether the vertices are there is left to the lifting, which looks at all edges
// anyway. O(vertices + edges) per graph, plus a sort for a PyG Data of more than 64 vertices.
class Intake {
  public:
    Intake(nanobind::callable kind_of, nanobind::callable slowly);

    // Appends the graph at a place of a list. Returns false where it was left out.
    bool append(nanobind::handle graph, std::int64_t position);

    std::int64_t count() const { return static_cast<std::int64_t>(vertex_ptr.size()) - 1; }
    Graphs view() const { return {count(), vertex_ptr.data(), edge_ptr.data(), ends.data()}; }
    void finish();

    GrowingArray<std::int64_t> vertex_ptr, edge_ptr, positions;
    GrowingArray<std::int32_t> ends;
    Column x, edge_x, y;
    // Rows of edge_x that belong to an edge; all of them unless a PyG Data has each twice.
    GrowingArray<std::int64_t> kept;
    bool all_kept = true;

  private:
    struct Offer;
    bool read(nanobind::handle graph);
    bool read_tuple(PyObject* graph);
    bool read_edges(PyObject* edges);
    bool read_networkx(PyObject* graph);
    bool read_pyg(PyObject* graph);
    bool read_rdkit(PyObject* graph);
    bool read_asked(nanobind::handle graph);
    static bool fits(const Column& column, Offer& offer);
    void commit(Column& column, Offer& offer);
    // All features of a graph, or none of them. `rows` are those of its edges, if not all are.
    bool take(Offer& of_x, Offer& of_edges, Offer& of_y, const std::vector<std::int64_t>* rows);
    void keep(std::int64_t rows);
    static bool fits_numbers(const Column& column);
    static void decide_numbers(Column& column);
    GraphKind kind(PyTypeObject* type);

    nanobind::callable kind_of_, slowly_;
    std::vector<std::pair<PyTypeObject*, GraphKind>> kinds_;
    std::int64_t edge_rows_ = 0;  // of edge_x so far
    // Of the graph that is being read.
    std::int64_t num_vertices_ = 0;
    std::vector<std::int32_t> both_;
    std::vector<std::pair<std::int64_t, std::int64_t>> forward_, backward_;  // (edge, its column)
    std::vector<std::int64_t> kept_now_;
    MoleculeArrays molecule_;
};

}  // namespace cwnet
