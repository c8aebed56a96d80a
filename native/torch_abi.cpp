#include "torch_abi.h"

#include <cstring>

#include "platform.h"

namespace wl {

namespace {

constexpr const char* kIsNeg = "_ZN2at6native6is_negERKNS_6TensorE";
constexpr const char* kIsInference = "_ZN2at6native12is_inferenceERKNS_6TensorE";
constexpr const char* kBumpVersion = "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE";

constexpr const char* kData = "aoti_torch_get_data_ptr";

enum class Layout { Unknown, Expected, Other };

// The functions take an `at::Tensor`, a pointer to the tensor's state, by reference.
struct Library {
    const DLPackExchangeAPI* api;
    bool (*is_neg)(void* const& tensor);
    bool (*is_inference)(void* const& tensor);
    void (*bump_version)(void* const& tensor);
    int32_t (*data)(void* const* tensor, void** data);  // 0 is success; null where the library lacks it
    Layout layout;
};

Library torch{};

// The `at::Tensor` in an object: where PyTorch has it in all versions of late, which `is_laid_out` confirms.
void* const& tensor_in(PyObject* object) { return *reinterpret_cast<void* const*>(object + 1); }

// Whether PyTorch says that the tensor's state is where we look for it.
bool is_laid_out(PyObject* tensor) {
    if (Py_TYPE(tensor)->tp_basicsize < static_cast<Py_ssize_t>(sizeof(PyObject) + sizeof(void*))) return false;
    const Ref state(PyObject_GetAttrString(tensor, "_cdata"));
    void* const said = state && PyLong_Check(state.get()) ? PyLong_AsVoidPtr(state.get()) : nullptr;
    forget_error();
    return said && said == tensor_in(tensor);
}

template <typename F>
void find(void* beside, const char* name, F* out) {
    void* const address = find_beside(beside, name);
    std::memcpy(out, &address, sizeof address);
}

Library load(const DLPackExchangeAPI* api) {
    Library found{api, nullptr, nullptr, nullptr, nullptr, Layout::Unknown};
    void* const theirs = reinterpret_cast<void*>(api->dltensor_from_py_object_no_sync);
    find(theirs, kIsNeg, &found.is_neg);
    find(theirs, kIsInference, &found.is_inference);
    find(theirs, kBumpVersion, &found.bump_version);
    find(theirs, kData, &found.data);
    return found;
}

}  // namespace

bool is_torch(const DLPackExchangeAPI* api) {
    if (!torch.api) {
        const Library found = load(api);
        if (found.is_neg && found.is_inference && found.bump_version) torch = found;
    }
    return torch.api == api;
}

bool reads_torch(PyObject* tensor) {
    if (torch.layout == Layout::Unknown) {
        const bool expected = is_laid_out(tensor);
        torch.layout = expected ? Layout::Expected : Layout::Other;
    }
    return torch.layout == Layout::Expected;
}

bool torch_is_negated(PyObject* tensor) { return torch.is_neg(tensor_in(tensor)); }

bool torch_is_inference(PyObject* tensor) { return torch.is_inference(tensor_in(tensor)); }

const void* torch_data(PyObject* tensor) {
    void* data = nullptr;
    return torch.data && torch.data(&tensor_in(tensor), &data) == 0 ? data : nullptr;
}

bool torch_count_write(PyObject* tensor) {
    try {
        if (!torch_is_inference(tensor)) torch.bump_version(tensor_in(tensor));
    } catch (...) {  // Python's way raises it as an exception of its own
        return false;
    }
    return true;
}

}  // namespace wl
