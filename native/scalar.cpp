#include "scalar.h"

#include <cmath>
#include <cstring>

namespace wl {

namespace {

struct Row {
    int64_t size;
    uint8_t dlpack;
    const char* format;
};

constexpr Row kRows[kScalarCount] = {
    {1, kDLBool, "?"},       {1, kDLInt, "b"},   {1, kDLUInt, "B"},  {2, kDLInt, "h"},  {2, kDLUInt, "H"},
    {4, kDLInt, "i"},        {4, kDLUInt, "I"},  {8, kDLInt, "q"},   {8, kDLUInt, "Q"}, {2, kDLFloat, "e"},
    {2, kDLBfloat, nullptr}, {4, kDLFloat, "f"}, {8, kDLFloat, "d"},
};

const Row& row(Scalar scalar) { return kRows[static_cast<int>(scalar)]; }

// The DLPack kind of a struct-module character, or -1.
int kind_of(char character) {
    switch (character) {
        case '?':
            return kDLBool;
        case 'b':
        case 'h':
        case 'i':
        case 'l':
        case 'q':
        case 'n':
            return kDLInt;
        case 'B':
        case 'H':
        case 'I':
        case 'L':
        case 'Q':
        case 'N':
            return kDLUInt;
        case 'e':
        case 'f':
        case 'd':
            return kDLFloat;
        default:
            return -1;
    }
}

bool is_little_endian() {
    const uint16_t probe = 1;
    uint8_t first;
    std::memcpy(&first, &probe, 1);
    return first == 1;
}

// Rounds |value| to `digits` significand bits with exponents from `min_exponent`, and returns the bits of the
// format without the sign: the exponent field above `digits - 1` stored bits.
uint32_t round_to(double value, int digits, int min_exponent, uint32_t infinity) {
    const double magnitude = std::fabs(value);
    if (std::isnan(value)) return infinity | 1u << (digits - 2);
    if (std::isinf(value)) return infinity;
    if (magnitude == 0) return 0;
    int exponent;
    std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, f in [0.5, 1)
    --exponent;
    if (exponent < min_exponent) exponent = min_exponent;  // subnormal
    // One unit in the last place is 2^(exponent - digits + 1). Both the scaling and nearbyint are exact or
    // rounded once; a carry into the next exponent adds up to the right bits.
    const double units = std::nearbyint(std::ldexp(magnitude, digits - 1 - exponent));
    const uint32_t bits = static_cast<uint32_t>(units);
    const uint32_t result = bits + (static_cast<uint32_t>(exponent - min_exponent) << (digits - 1));
    return result > infinity ? infinity : result;
}

}  // namespace

int64_t scalar_size(Scalar scalar) { return row(scalar).size; }

DLDataType dlpack_dtype(Scalar scalar) { return {row(scalar).dlpack, static_cast<uint8_t>(row(scalar).size * 8), 1}; }

const char* buffer_format(Scalar scalar) { return row(scalar).format; }

bool Element::decode(uint32_t type_code, Element* out) {
    const uint32_t scalar = type_code & 0xff;
    const int64_t rows = type_code >> kRowsBit & 0xff;
    const int64_t columns = type_code >> kColumnsBit & 0xff;
    const auto kind = static_cast<ElementKind>(type_code >> kKindBit);
    if (scalar >= kScalarCount || kind > ElementKind::Transform || (columns && !rows)) return false;
    const bool plain = kind == ElementKind::Plain;
    if (!plain && (rows != (kind == ElementKind::Quaternion ? 4 : 7) || columns)) return false;
    Element e{};
    e.scalar = static_cast<Scalar>(scalar);
    e.scalar_size = kRows[scalar].size;
    e.components = columns ? 2 : rows ? 1 : 0;
    e.size = e.scalar_size;
    if (e.components == 2) {
        e.extents[0] = rows;
        e.extents[1] = columns;
        e.strides[0] = columns * e.scalar_size;
        e.strides[1] = e.scalar_size;
        e.size *= rows * columns;
    } else if (e.components == 1) {
        e.extents[0] = rows;
        e.strides[0] = e.scalar_size;
        e.size *= rows;
    }
    *out = e;
    return true;
}

bool matches_format(Scalar scalar, const char* format, int64_t itemsize) {
    if (itemsize != row(scalar).size) return false;
    if (!format) return scalar == Scalar::Uint8;
    switch (*format) {
        case '@':
        case '=':
            ++format;
            break;
        case '<':
            if (!is_little_endian()) return false;
            ++format;
            break;
        case '>':
        case '!':
            if (is_little_endian() && itemsize > 1) return false;
            ++format;
            break;
        default:
            break;
    }
    // The item size tells `l` and `q` apart, so that only the kind is left to compare; bfloat16 has no
    // character.
    return scalar != Scalar::Bfloat16 && format[0] && !format[1] && kind_of(format[0]) == row(scalar).dlpack;
}

uint16_t to_float16(double value) {
    const uint32_t sign = std::signbit(value) ? 0x8000 : 0;
    return static_cast<uint16_t>(sign | round_to(value, 11, -14, 0x7c00));
}

uint16_t to_bfloat16(double value) {
    const uint32_t sign = std::signbit(value) ? 0x8000 : 0;
    return static_cast<uint16_t>(sign | round_to(value, 8, -126, 0x7f80));
}

}  // namespace wl
