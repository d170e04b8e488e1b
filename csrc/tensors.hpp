// Arrays and tensors of Python, looked at where they lie.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

#include "lift.hpp"

namespace cwnet {

enum NumberCode : std::uint8_t { kInt = 0, kUnsigned = 1, kFloat = 2 };  // as DLPack numbers them

bool is_tensor(PyObject* value);

// A tensor that owns these numbers.
nanobind::object new_tensor(GrowingArray<std::int64_t>& numbers);

// An array of numbers in memory, whoever holds it: NumPy, PyTorch on a CPU, or anything with a buffer.
class Array {
  public:
    Array() = default;
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    ~Array();

    // False where it is no array, or not one of this processor's numbers. No Python error is left behind.
    bool open(PyObject* value);

    // One number for what is known of the numbers.
    std::uint32_t type() const { return code << 8 | static_cast<std::uint32_t>(size); }
    bool contiguous() const;
    std::int64_t numbers() const;

    const char* data = nullptr;
    std::uint8_t code = 0xff;
    std::int64_t size = 0;                     // bytes of a number
    std::vector<std::int64_t> shape, strides;  // in bytes

  private:
    bool open_buffer(PyObject* value);

    Py_buffer buffer_;
    bool held_ = false;
    nanobind::object owner_;
};

// A row of whole numbers in 32 or 64 bits, one after another.
class Numbers {
  public:
    // Throws a ValueError where it is none.
    explicit Numbers(PyObject* value);

    std::int64_t size() const { return size_; }
    std::int64_t operator[](std::int64_t i) const {
        return wide_ ? static_cast<const std::int64_t*>(data_)[i]
                     : static_cast<const std::int32_t*>(data_)[i];
    }

  private:
    Array array_;
    const void* data_;
    bool wide_;
    std::int64_t size_;
};

}  // namespace cwnet
