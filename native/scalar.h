// Element types: what the type codes of ir/layout.py mean, and how foreign formats map to them.
#pragma once

#include <cstdint>

#include "contract.h"
#include "dlpack_abi.h"

namespace wl {

constexpr int kMaxComponents = 2;
constexpr int kMaxFullDims = kMaxDims + kMaxComponents;

// What a type code says: a scalar and the dimensions that a vector, matrix, quaternion or transform adds to an array.
struct Element {
    Scalar scalar;
    int components;                   // 0 for a scalar, 1 for a vector, quaternion or transform, 2 for a matrix
    int64_t extents[kMaxComponents];  // the dimensions, in elements
    int64_t strides[kMaxComponents];  // packed, in bytes
    int64_t scalar_size;
    int64_t size;

    // False when `type_code` names no type that this extension knows; `out` is then left alone.
    static bool decode(uint32_t type_code, Element* out);
};

int64_t scalar_size(Scalar scalar);
DLDataType dlpack_dtype(Scalar scalar);

// The struct-module character of a scalar, or null for bfloat16, which has none.
const char* buffer_format(Scalar scalar);

// Whether a buffer's `format` (null means bytes) and `itemsize` describe native-endian values of `scalar`.
bool matches_format(Scalar scalar, const char* format, int64_t itemsize);

// Rounds to nearest, ties to even; a finite value beyond the largest one gives an infinity.
uint16_t to_float16(double value);
uint16_t to_bfloat16(double value);

}  // namespace wl
