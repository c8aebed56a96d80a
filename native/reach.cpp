#include "reach.h"

#include <cstring>

namespace wl {

namespace {

bool is_valid(const PackedReach& packed, const Signature& signature) {
    if (packed.param < 0 || static_cast<size_t>(packed.param) >= signature.params.size()) return false;
    const Param& param = signature.params[static_cast<size_t>(packed.param)];
    return param.kind == ParamKind::Array && packed.axis >= 0 && packed.axis < param.ndim && packed.dim >= 0 &&
           packed.dim <= kMaxDims;
}

}  // namespace

bool read_reaches(const char* bytes, size_t size, const Signature& signature, std::vector<Reach>* reaches) {
    const size_t count = size / sizeof(PackedReach);
    bool valid = size == count * sizeof(PackedReach);
    for (size_t i = 0; i < count && valid; ++i) {
        PackedReach packed;
        std::memcpy(&packed, bytes + i * sizeof packed, sizeof packed);
        valid = is_valid(packed, signature);
        if (!valid) break;
        const int64_t array = signature.params[static_cast<size_t>(packed.param)].offset;
        const auto extent = kArrayShape + static_cast<int64_t>(sizeof(int64_t)) * packed.axis;
        reaches->push_back({array + extent, packed.offset, packed.dim});
    }
    if (!valid) PyErr_SetString(PyExc_ValueError, "not reaches into the arrays of these parameters");
    return valid;
}

}  // namespace wl
