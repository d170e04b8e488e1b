#include "tensors.hpp"

#include <nanobind/ndarray.h>

#include <bit>
#include <string_view>

namespace nb = nanobind;

namespace cwnet {

namespace {

// Of DLPack 1 (dmlc/dlpack, dlpack.h): what a tensor says of itself, and the table of functions that says it
// in some ten nanoseconds, without a capsule.
struct DlTensor {
    void* data;
    std::int32_t device, device_id;
    std::int32_t ndim;
    std::uint8_t code, bits;
    std::uint16_t lanes;
    std::int64_t* shape;
    std::int64_t* strides;  // in numbers, not in bytes
    std::uint64_t byte_offset;
};
struct DlManaged {
    std::uint32_t major, minor;
    void* context;
    void (*deleter)(DlManaged* self);
    std::uint64_t flags;
    DlTensor tensor;
};
struct DlExchange {
    std::uint32_t major, minor;
    void* older;
    void* allocate;
    void* managed_from_object;
    int (*tensor_to_object)(DlManaged* tensor, void** out);
    int (*tensor_from_object)(void* object, DlTensor* out);
    void* stream;
};
constexpr std::int32_t kCpu = 1;

// What is asked of PyTorch, once.
struct Torch {
    PyTypeObject* tensor;
    PyObject* from_numpy;
    int (*look)(void* object, DlTensor* out) = nullptr;
    int (*make)(DlManaged* tensor, void** out) = nullptr;

    Torch() {
        const nb::module_ torch = nb::module_::import_("torch");
        tensor = reinterpret_cast<PyTypeObject*>(torch.attr("Tensor").inc_ref().ptr());
        from_numpy = torch.attr("from_numpy").inc_ref().ptr();
        const nb::object table = nb::getattr(torch.attr("Tensor"), "__dlpack_c_exchange_api__", nb::none());
        if (!PyCapsule_IsValid(table.ptr(), "dlpack_exchange_api")) return;
        const auto* api =
            static_cast<const DlExchange*>(PyCapsule_GetPointer(table.ptr(), "dlpack_exchange_api"));
        if (api->major != 1) return;
        look = api->tensor_from_object;
        make = api->tensor_to_object;
    }
};

const Torch& torch() {
    static const Torch* the = new Torch();  // never freed: Python may be gone first
    return *the;
}

// Whether a value is of a class derived from NumPy's arrays: what lies in its memory may not be all there is
// to it, as with masks.
bool is_derived_array(PyObject* value) {
    static PyTypeObject* const array =
        reinterpret_cast<PyTypeObject*>(nb::module_::import_("numpy").attr("ndarray").inc_ref().ptr());
    return Py_TYPE(value) != array && PyType_IsSubtype(Py_TYPE(value), array);
}

}  // namespace

bool is_tensor(PyObject* value) {
    return Py_TYPE(value) == torch().tensor;
}

nb::object new_tensor(GrowingArray<std::int64_t>& numbers) {
    const auto count = static_cast<std::int64_t>(numbers.size());
    std::int64_t* data = numbers.release();
    if (!torch().make) {
        const nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>> array(
            data, {static_cast<std::size_t>(count)},
            nb::capsule(data, [](void* p) noexcept { std::free(p); }));
        return nb::handle(torch().from_numpy)(array);
    }
    struct Owner {
        DlManaged managed;
        std::int64_t shape, stride;
    };
    const auto free_all = [](DlManaged* self) {
        std::free(self->tensor.data);
        delete static_cast<Owner*>(self->context);
    };
    auto* owner = new Owner{{1, 0, nullptr, free_all, 0, {}}, count, 1};
    owner->managed.context = owner;
    owner->managed.tensor = {data, kCpu, 0, 1, kInt, 64, 1, &owner->shape, &owner->stride, 0};
    void* made = nullptr;
    if (torch().make(&owner->managed, &made) != 0) throw nb::python_error();
    return nb::steal(static_cast<PyObject*>(made));
}

Array::~Array() {
    if (held_) PyBuffer_Release(&buffer_);
}

bool Array::open(PyObject* value) {
    if (!is_tensor(value)) return open_buffer(value);
    if (!torch().look) {
        owner_ = nb::steal(PyObject_CallMethod(value, "numpy", nullptr));
        if (!owner_.is_valid()) return PyErr_Clear(), false;
        return open_buffer(owner_.ptr());
    }
    DlTensor t{};
    if (torch().look(value, &t) != 0) return PyErr_Clear(), false;
    if (t.device != kCpu || t.lanes != 1 || t.bits % 8 != 0 || t.ndim < 0) return false;
    data = static_cast<const char*>(t.data) + t.byte_offset;
    code = t.code;
    size = t.bits / 8;
    shape.assign(t.shape, t.shape + t.ndim);
    strides.resize(t.ndim);
    std::int64_t dense = 1;
    for (int i = t.ndim; i-- > 0; dense *= t.shape[i]) strides[i] = (t.strides ? t.strides[i] : dense) * size;
    return true;
}

bool Array::contiguous() const {
    std::int64_t dense = size;
    for (std::size_t i = shape.size(); i-- > 0; dense *= shape[i])
        if (shape[i] > 1 && strides[i] != dense) return false;
    return true;
}

std::int64_t Array::numbers() const {
    std::int64_t total = 1;
    for (const std::int64_t n : shape) total *= n;
    return total;
}

bool Array::open_buffer(PyObject* value) {
    if (!PyObject_CheckBuffer(value) || is_derived_array(value)) return false;
    if (PyObject_GetBuffer(value, &buffer_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) return PyErr_Clear(), false;
    held_ = true;
    data = static_cast<const char*>(buffer_.buf);
    size = buffer_.itemsize;
    std::string_view format = buffer_.format ? buffer_.format : "B";
    if (format.size() == 2 && std::string_view("@=<").find(format[0]) != std::string_view::npos &&
        (format[0] != '<' || std::endian::native == std::endian::little))
        format.remove_prefix(1);
    if (format.size() != 1) return false;
    if (std::string_view("bhilqn").find(format[0]) != std::string_view::npos)
        code = kInt;
    else if (std::string_view("BHILQN").find(format[0]) != std::string_view::npos)
        code = kUnsigned;
    else if (std::string_view("fd").find(format[0]) != std::string_view::npos)
        code = kFloat;
    else
        return false;
    shape.assign(buffer_.shape, buffer_.shape + buffer_.ndim);
    strides.assign(buffer_.strides, buffer_.strides + buffer_.ndim);
    return true;
}

Numbers::Numbers(PyObject* value) {
    if (!array_.open(value) || array_.code != kInt || (array_.size != 4 && array_.size != 8) ||
        array_.shape.size() != 1 || !array_.contiguous())
        throw nb::value_error("a row of whole numbers is needed, in 32 or 64 bits and one after another");
    data_ = array_.data;
    wide_ = array_.size == 8;
    size_ = array_.shape[0];
}

}  // namespace cwnet
