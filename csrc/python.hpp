// What the intake looks at in Python's own objects, in the stable ABI and without it. All references are
// borrowed.
//
// The stable ABI, which lets one build run on all versions from 3.12 on, has functions where a build for one
// version has macros that look into the objects.
#pragma once

#include <nanobind/nanobind.h>

namespace cwnet {

#ifdef Py_LIMITED_API

inline Py_ssize_t tuple_size(PyObject* tuple) {
    return PyTuple_Size(tuple);
}
inline PyObject* tuple_item(PyObject* tuple, Py_ssize_t i) {
    return PyTuple_GetItem(tuple, i);
}
inline Py_ssize_t dict_size(PyObject* dict) {
    return PyDict_Size(dict);
}

// The entries of a list or a tuple.
class Entries {
  public:
    explicit Entries(PyObject* sequence) : sequence_(sequence), list_(PyList_CheckExact(sequence)) {}
    Py_ssize_t size() const { return list_ ? PyList_Size(sequence_) : PyTuple_Size(sequence_); }
    PyObject* operator[](Py_ssize_t i) const {
        return list_ ? PyList_GetItem(sequence_, i) : PyTuple_GetItem(sequence_, i);
    }

  private:
    PyObject* sequence_;
    bool list_;
};

// The dictionary of an object; null where it has none.
inline PyObject* instance_dict(PyObject* object) {
    PyObject* dict = PyObject_GenericGetDict(object, nullptr);
    if (!dict) PyErr_Clear();
    Py_XDECREF(dict);  // the object holds it
    return dict;
}

#else

inline Py_ssize_t tuple_size(PyObject* tuple) {
    return PyTuple_GET_SIZE(tuple);
}
inline PyObject* tuple_item(PyObject* tuple, Py_ssize_t i) {
    return PyTuple_GET_ITEM(tuple, i);
}
inline Py_ssize_t dict_size(PyObject* dict) {
    return PyDict_GET_SIZE(dict);
}

class Entries {
  public:
    explicit Entries(PyObject* sequence)
        : items_(PySequence_Fast_ITEMS(sequence)), size_(PySequence_Fast_GET_SIZE(sequence)) {}
    Py_ssize_t size() const { return size_; }
    PyObject* operator[](Py_ssize_t i) const { return items_[i]; }

  private:
    PyObject** items_;
    Py_ssize_t size_;
};

inline PyObject* instance_dict(PyObject* object) {
    PyObject** dict = _PyObject_GetDictPtr(object);
    return dict ? *dict : nullptr;
}

#endif

}  // namespace cwnet
