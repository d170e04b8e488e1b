#include "intake.hpp"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "python.hpp"

namespace nb = nanobind;

namespace cwnet {

namespace {

// Copies whole numbers, two per edge, to 32 bits. False where one does not fit.
template <class T>
bool copy_pairs(const char* data, std::int64_t rows, std::int64_t step, std::int64_t side,
                std::int32_t* out) {
    bool fits = true;
    for (std::int64_t i = 0; i < rows; ++i)
        for (int end = 0; end < 2; ++end) {
            T value;
            std::memcpy(&value, data + i * step + end * side, sizeof(T));
            out[2 * i + end] = static_cast<std::int32_t>(value);
            fits &=
                static_cast<T>(out[2 * i + end]) == value && (std::is_signed_v<T> || out[2 * i + end] >= 0);
        }
    return fits;
}

// The same for an array whose dimension `along` counts the edges, and whose other one has their two ends.
bool copy_pairs(const Array& array, int along, std::int32_t* out) {
    const std::int64_t rows = array.shape[along], step = array.strides[along],
                       side = array.strides[1 - along];
    if (array.code != kInt && array.code != kUnsigned) return false;
    const bool plain = array.code == kInt;
    switch (array.size) {
        case 1:
            return plain ? copy_pairs<std::int8_t>(array.data, rows, step, side, out)
                         : copy_pairs<std::uint8_t>(array.data, rows, step, side, out);
        case 2:
            return plain ? copy_pairs<std::int16_t>(array.data, rows, step, side, out)
                         : copy_pairs<std::uint16_t>(array.data, rows, step, side, out);
        case 4:
            return plain ? copy_pairs<std::int32_t>(array.data, rows, step, side, out)
                         : copy_pairs<std::uint32_t>(array.data, rows, step, side, out);
        case 8:
            return plain ? copy_pairs<std::int64_t>(array.data, rows, step, side, out)
                         : copy_pairs<std::uint64_t>(array.data, rows, step, side, out);
        default:
            return false;
    }
}

template <class T>
bool has_nan(const char* data, std::int64_t count) {
    bool nan = false;
    for (std::int64_t i = 0; i < count; ++i) {
        T value;
        std::memcpy(&value, data + i * sizeof(T), sizeof(T));
        nan |= value != value;
    }
    return nan;
}

// Whether numbers can be taken as they lie: in one piece, of a kind whose NaN are known here, and without
// one.
bool is_sound(const Array& array) {
    if (!array.contiguous()) return false;
    if (array.code == kInt || array.code == kUnsigned) return true;
    if (array.code != kFloat || (array.size != 4 && array.size != 8)) return false;
    return array.size == 4 ? !has_nan<float>(array.data, array.numbers())
                           : !has_nan<double>(array.data, array.numbers());
}

// A vertex number that fits, from an int and nothing that only behaves like one: no Python code runs here, so
// no list changes while it is read.
bool as_vertex(PyObject* value, std::int32_t& out) {
    if (!PyLong_CheckExact(value)) return false;
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0 || number < std::numeric_limits<std::int32_t>::min() ||
        number > std::numeric_limits<std::int32_t>::max())
        return false;
    out = static_cast<std::int32_t>(number);
    return true;
}

bool as_count(PyObject* value, std::int64_t& out) {
    std::int32_t number = 0;
    if (!as_vertex(value, number) || number < 0) return false;
    out = number;
    return true;
}

bool is_sequence(PyObject* value) {
    return PyList_CheckExact(value) || PyTuple_CheckExact(value);
}

// Attributes that are kept in an object's dictionary; null where there is none. Borrowed.
PyObject* own(PyObject* object, const char* name) {
    PyObject* dict = instance_dict(object);
    return dict ? PyDict_GetItemString(dict, name) : nullptr;
}

// The molecules' categories as RDKit numbers them.
const std::uint8_t* same_number() {
    static const std::array<std::uint8_t, 256> table = [] {
        std::array<std::uint8_t, 256> numbers;
        for (int i = 0; i < 256; ++i) numbers[i] = static_cast<std::uint8_t>(i);
        return numbers;
    }();
    return table.data();
}

}  // namespace

// ------------------------------------------------------------------------------------------- the intake

// Features that a graph brings, looked at once.
struct Intake::Offer {
    PyObject* value;
    std::int64_t rows;
    Array array{};
    bool opened = false;

    bool open() {
        if (!opened) opened = array.open(value);
        return opened;
    }
};

Intake::Intake(nb::callable kind_of, nb::callable slowly)
    : kind_of_(std::move(kind_of)), slowly_(std::move(slowly)) {
    vertex_ptr.push_back(0);
    edge_ptr.push_back(0);
}

bool Intake::append(nb::handle graph, std::int64_t position) {
    const std::size_t edges_before = ends.size();
    if (!read(graph)) {
        ends.cut(edges_before);
        nb::object first = nb::none();
        if (count() > 0) {
            finish();  // so that every part is a tensor
            const auto one = [](const Column& c) { return c.present ? nb::object(c.parts[0]) : nb::none(); };
            first = nb::make_tuple(positions.data()[0], one(x), one(edge_x), one(y));
        }
        const nb::object asked = slowly_(graph, position, first);
        if (asked.is_none()) return false;
        if (!read_asked(asked)) throw nb::value_error("a graph that was read in Python was not understood");
    }
    vertex_ptr.push_back(vertex_ptr.back() + num_vertices_);
    edge_ptr.push_back(static_cast<std::int64_t>(ends.size() / 2));
    positions.push_back(position);
    return true;
}

void Intake::finish() {
    for (Column* column : {&x, &edge_x}) {
        if (column->pending.size() == 0 && !(column->numbers && column->parts.size() == 0)) continue;
        const std::size_t rows = column->pending.size();
        std::int64_t* data = column->pending.release();
        const nb::ndarray<nb::numpy, std::int64_t, nb::ndim<2>> array(
            data, {rows, 1}, nb::capsule(data, [](void* p) noexcept { std::free(p); }));
        column->parts.append(nb::module_::import_("torch").attr("from_numpy")(array));
    }
}

GraphKind Intake::kind(PyTypeObject* type) {
    for (const auto& [known, kind] : kinds_)
        if (known == type) return kind;
    const auto kind = static_cast<GraphKind>(nb::cast<int>(kind_of_(nb::handle((PyObject*)type))));
    kinds_.emplace_back(type, kind);
    return kind;
}

bool Intake::read(nb::handle graph) {
    if (PyTuple_Check(graph.ptr())) return read_tuple(graph.ptr());
    switch (kind(Py_TYPE(graph.ptr()))) {
        case GraphKind::networkx:
            return read_networkx(graph.ptr());
        case GraphKind::pyg:
            return read_pyg(graph.ptr());
        case GraphKind::rdkit:
            return read_rdkit(graph.ptr());
        default:
            return false;
    }
}

// (num_nodes, edges) and, where they are tensors, features of vertices and edges.
bool Intake::read_tuple(PyObject* graph) {
    const Py_ssize_t length = tuple_size(graph);
    if (length < 2 || length > 5) return false;
    const auto item = [&](Py_ssize_t i) { return i < length ? tuple_item(graph, i) : Py_None; };
    const std::size_t before = ends.size();
    if (item(4) != Py_None || !as_count(item(0), num_vertices_) || !read_edges(item(1))) return false;
    const auto rows = static_cast<std::int64_t>(ends.size() - before) / 2;
    Offer of_x{item(2), num_vertices_}, of_edges{item(3), rows}, none{Py_None, 1};
    return take(of_x, of_edges, none, nullptr);
}

bool Intake::read_edges(PyObject* edges) {
    if (is_sequence(edges)) {
        const Entries rows(edges);
        const Py_ssize_t count = rows.size();
        std::int32_t* out = ends.extend(2 * count);
        for (Py_ssize_t i = 0; i < count; ++i) {
            PyObject* row = rows[i];
            if (!is_sequence(row)) return false;
            const Entries pair(row);
            if (pair.size() != 2) return false;
            if (!as_vertex(pair[0], out[2 * i]) || !as_vertex(pair[1], out[2 * i + 1])) return false;
        }
        return true;
    }
    Array array;
    if (!array.open(edges) || array.shape.size() != 2 || array.shape[1] != 2) return false;
    if (array.shape[0] == 0) return true;
    return copy_pairs(array, 0, ends.extend(2 * array.shape[0]));
}

// A Graph as `slowly` gives it: an int, an array of int32, and tensors or None.
bool Intake::read_asked(nb::handle graph) {
    PyObject* tuple = graph.ptr();
    if (!PyTuple_Check(tuple) || tuple_size(tuple) != 5) return false;
    Array edges;
    if (!as_count(tuple_item(tuple, 0), num_vertices_) || !edges.open(tuple_item(tuple, 1)) ||
        edges.shape.size() != 2 || edges.shape[1] != 2)
        return false;
    if (edges.shape[0] > 0 && !copy_pairs(edges, 0, ends.extend(2 * edges.shape[0]))) return false;
    // Python has looked at these, so they are taken as they are.
    Column* columns[3] = {&x, &edge_x, &y};
    for (int i = 0; i < 3; ++i) {
        PyObject* value = tuple_item(tuple, 2 + i);
        Offer offer{value, -1};
        if (value != Py_None) offer.array.open(value);
        commit(*columns[i], offer);
    }
    keep(tuple_item(tuple, 3) == Py_None ? 0 : edges.shape[0]);
    return true;
}

bool Intake::read_networkx(PyObject* graph) {
    PyObject *nodes = own(graph, "_node"), *adjacent = own(graph, "_adj"), *about = own(graph, "graph");
    if (!nodes || !adjacent || !about || !PyDict_CheckExact(nodes) || !PyDict_CheckExact(adjacent) ||
        !PyDict_CheckExact(about) || PyDict_GetItemString(about, "y"))
        return false;
    if (dict_size(nodes) != dict_size(adjacent)) return false;
    num_vertices_ = dict_size(nodes);
    if (num_vertices_ > std::numeric_limits<std::int32_t>::max()) return false;
    static PyObject* const x_key = PyUnicode_InternFromString("x");
    const auto plain = [](PyObject* data) {
        return PyDict_CheckExact(data) && (dict_size(data) == 0 || !PyDict_Contains(data, x_key));
    };
    // Vertices are numbered in the order of the nodes. Only ints and texts are looked up: nothing of the
    // user's runs here.
    PyObject *node = nullptr, *data = nullptr, *other = nullptr, *near = nullptr;
    Py_ssize_t at_node = 0, at_adjacent = 0;
    bool numbered = true;
    std::int64_t position = 0;
    while (PyDict_Next(nodes, &at_node, &node, &data)) {
        if (!PyDict_Next(adjacent, &at_adjacent, &other, &near) || other != node) return false;
        std::int32_t number = 0;
        if (!plain(data) || !PyDict_CheckExact(near)) return false;
        if (!PyLong_CheckExact(node) && !PyUnicode_CheckExact(node)) return false;
        numbered = numbered && as_vertex(node, number) && number == position;
        ++position;
    }
    nb::object numbers;
    if (!numbered) {
        numbers = nb::steal(PyDict_New());
        at_node = position = 0;
        while (PyDict_Next(nodes, &at_node, &node, &data)) {
            const nb::int_ number(position++);
            if (PyDict_SetItem(numbers.ptr(), node, number.ptr()) != 0) return PyErr_Clear(), false;
        }
    }
    const auto number_of = [&](PyObject* vertex, std::int32_t& out) {
        if (numbered) return as_vertex(vertex, out);
        if (!PyLong_CheckExact(vertex) && !PyUnicode_CheckExact(vertex)) return false;
        PyObject* number = PyDict_GetItem(numbers.ptr(), vertex);
        return number && as_vertex(number, out);
    };
    // As networkx lists them: each edge from the end that comes first.
    at_adjacent = position = 0;
    while (PyDict_Next(adjacent, &at_adjacent, &node, &near)) {
        Py_ssize_t at = 0;
        while (PyDict_Next(near, &at, &other, &data)) {
            std::int32_t number = 0;
            if (!number_of(other, number) || !plain(data)) return false;
            if (number < position) continue;
            std::int32_t* pair = ends.extend(2);
            pair[0] = static_cast<std::int32_t>(position);
            pair[1] = number;
        }
        ++position;
    }
    Offer none{Py_None, 0}, no_edges{Py_None, 0}, no_y{Py_None, 1};
    return take(none, no_edges, no_y, nullptr);
}

// Every edge of a PyG Data is there in both directions; the one from the smaller vertex is kept.
bool Intake::read_pyg(PyObject* graph) {
    PyObject* store = own(graph, "_store");
    PyObject* mapping = store ? own(store, "_mapping") : nullptr;
    if (!mapping || !PyDict_CheckExact(mapping)) return false;
    Py_ssize_t known = 0;
    const auto item = [&](const char* key) {
        PyObject* value = PyDict_GetItemString(mapping, key);
        known += value != nullptr;
        return value ? value : Py_None;
    };
    PyObject *of_x = item("x"), *index = item("edge_index"), *attributes = item("edge_attr"),
             *of_y = item("y"), *count = item("num_nodes");
    Array array;
    if (!is_tensor(index) || !array.open(index) || array.shape.size() != 2 || array.shape[0] != 2)
        return false;
    const std::int64_t columns = array.shape[1];
    both_.resize(2 * columns);
    if (columns > 0 && !copy_pairs(array, 1, both_.data())) return false;

    Offer offer_x{of_x, -1}, offer_edges{attributes, columns}, offer_y{of_y, 1};
    if (count != Py_None) {
        if (!as_count(count, num_vertices_)) return false;
    } else if (of_x != Py_None && known == dict_size(mapping) && offer_x.open() &&
               !offer_x.array.shape.empty()) {
        num_vertices_ = offer_x.array.shape[0];
    } else {
        return false;
    }
    offer_x.rows = num_vertices_;

    // The column of each edge's other direction, for the attributes to be compared.
    forward_.clear();
    backward_.clear();
    for (std::int64_t i = 0; i < columns; ++i) {
        const std::int64_t u = both_[2 * i], v = both_[2 * i + 1];
        if (u < 0 || v < 0) return false;
        if (u == v) return false;
        (u < v ? forward_ : backward_).push_back({std::min(u, v) << 32 | std::max(u, v), i});
    }
    if (forward_.size() != backward_.size()) return false;
    kept_now_.clear();
    for (const auto& [key, column] : forward_) {
        kept_now_.push_back(column);
        std::int32_t* pair = ends.extend(2);
        pair[0] = static_cast<std::int32_t>(key >> 32);
        pair[1] = static_cast<std::int32_t>(key & 0xffffffff);
    }
    std::sort(forward_.begin(), forward_.end());
    std::sort(backward_.begin(), backward_.end());
    for (std::size_t i = 0; i < forward_.size(); ++i)
        if (forward_[i].first != backward_[i].first) return false;
    if (attributes != Py_None) {
        if (!offer_edges.open() || !is_sound(offer_edges.array) || offer_edges.array.shape.empty() ||
            offer_edges.array.shape[0] != columns)
            return false;
        const std::int64_t width =
            columns ? offer_edges.array.numbers() / columns * offer_edges.array.size : 0;
        for (std::size_t i = 0; i < forward_.size(); ++i)
            if (std::memcmp(offer_edges.array.data + forward_[i].second * width,
                            offer_edges.array.data + backward_[i].second * width, width) != 0)
                return false;
    }
    return take(offer_x, offer_edges, offer_y, &kept_now_);
}

// Vertices are atoms with their atomic number, edges are bonds with RDKit's number of the bond type.
bool Intake::read_rdkit(PyObject* graph) {
    static PyObject* const to_binary = PyUnicode_InternFromString("ToBinary");
    static PyObject* const nothing_else = PyLong_FromLong(0);
    const nb::object binary = nb::steal(PyObject_CallMethodObjArgs(graph, to_binary, nothing_else, nullptr));
    if (!binary.is_valid()) return PyErr_Clear(), false;
    if (!PyBytes_CheckExact(binary.ptr())) return false;
    const Categories categories{same_number(), same_number(), same_number(), same_number()};
    MoleculeSize size;
    molecule_.atoms.cut(0);
    molecule_.bonds.cut(0);
    molecule_.ends.cut(0);
    if (!append_molecule(
            {PyBytes_AsString(binary.ptr()), static_cast<std::size_t>(PyBytes_Size(binary.ptr()))},
            categories, molecule_, size))
        return false;
    num_vertices_ = size.atoms;
    if (!fits_numbers(x) || !fits_numbers(edge_x) || (y.decided && y.present)) return false;
    std::copy_n(molecule_.ends.data(), 2 * size.bonds, ends.extend(2 * size.bonds));
    decide_numbers(x);
    decide_numbers(edge_x);
    y.decided = true;
    std::int64_t* atoms = x.pending.extend(size.atoms);
    for (std::int64_t i = 0; i < size.atoms; ++i) {
        const std::uint8_t number = molecule_.atoms.data()[kAtomWidth * i];
        atoms[i] = number == 118 ? 0 : number + 1;
    }
    std::int64_t* bonds = edge_x.pending.extend(size.bonds);
    for (std::int64_t i = 0; i < size.bonds; ++i) bonds[i] = molecule_.bonds.data()[kBondWidth * i];
    keep(size.bonds);
    return true;
}

// ------------------------------------------------------------------------------------------- features

bool Intake::fits(const Column& column, Offer& offer) {
    const bool present = offer.value != Py_None;
    if (column.decided && column.present != present) return false;
    if (!present) return true;
    if (!is_tensor(offer.value) || !offer.open() || !is_sound(offer.array)) return false;
    const auto& shape = offer.array.shape;
    if (shape.empty() || shape[0] != offer.rows) return false;
    return !column.decided ||
           (column.type == offer.array.type() &&
            std::equal(column.shape.begin(), column.shape.end(), shape.begin() + 1, shape.end()));
}

void Intake::commit(Column& column, Offer& offer) {
    const bool present = offer.value != Py_None;
    if (!column.decided) {
        column.decided = true;
        column.present = present;
        if (present) {
            column.type = offer.array.type();
            if (!offer.array.shape.empty())
                column.shape.assign(offer.array.shape.begin() + 1, offer.array.shape.end());
        }
    }
    if (!present) return;
    finish();  // what is pending comes before this
    column.parts.append(nb::handle(offer.value));
}

bool Intake::take(Offer& of_x, Offer& of_edges, Offer& of_y, const std::vector<std::int64_t>* rows) {
    if (!fits(x, of_x) || !fits(edge_x, of_edges) || !fits(y, of_y)) return false;
    commit(x, of_x);
    commit(edge_x, of_edges);
    commit(y, of_y);
    if (of_edges.value == Py_None) return true;
    if (!rows) {
        keep(of_edges.rows);
        return true;
    }
    all_kept = false;
    for (const std::int64_t row : *rows) kept.push_back(edge_rows_ + row);
    edge_rows_ += of_edges.rows;
    return true;
}

void Intake::keep(std::int64_t rows) {
    std::int64_t* at = kept.extend(rows);
    for (std::int64_t i = 0; i < rows; ++i) at[i] = edge_rows_++;
}

bool Intake::fits_numbers(const Column& column) {
    return !column.decided || (column.present && column.type == (kInt << 8 | 8u) &&
                               column.shape == std::vector<std::int64_t>{1});
}

void Intake::decide_numbers(Column& column) {
    if (column.decided) return;
    column.decided = column.present = column.numbers = true;
    column.type = kInt << 8 | 8u;
    column.shape = {1};
}

}  // namespace cwnet
