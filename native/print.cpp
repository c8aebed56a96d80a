#include "print.h"

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "context.h"
#include "scalar.h"

namespace wl {

namespace {

thread_local std::string line;

// Whether the decimal `text` reads back as `value` in the type of `bits` bits.
bool reads_back(const char* text, double value, int32_t bits) {
    const double read = std::strtod(text, nullptr);
    switch (bits) {
        case 16:
            return to_float16(read) == to_float16(value);
        case -16:
            return to_bfloat16(read) == to_bfloat16(value);
        case 32:
            return std::strtof(text, nullptr) == static_cast<float>(value);
        default:
            return read == value;
    }
}

// Writes the digits as Python does: an exponent below 1e-4 and from 1e16 on, else a point.
void append_decimal(const char* scientific) {
    const char* mark = std::strchr(scientific, 'e');
    const int exponent = std::atoi(mark + 1);
    std::string digits;
    for (const char* c = scientific; c < mark; ++c) {
        if (*c >= '0' && *c <= '9') digits += *c;
    }
    while (digits.size() > 1 && digits.back() == '0') digits.pop_back();
    if (*scientific == '-') line += '-';
    const int count = static_cast<int>(digits.size());
    if (exponent < -4 || exponent >= 16) {
        char tail[16];
        std::snprintf(tail, sizeof tail, "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
        line += digits[0];
        if (count > 1) line.append(".").append(digits, 1);
        line += tail;
    } else if (exponent < 0) {
        line.append("0.").append(static_cast<size_t>(-exponent - 1), '0').append(digits);
    } else if (count <= exponent + 1) {
        line.append(digits).append(static_cast<size_t>(exponent + 1 - count), '0').append(".0");
    } else {
        line.append(digits, 0, exponent + 1).append(".").append(digits, exponent + 1);
    }
}

template <typename T>
void append_formatted(const char* format, T value) {
    const int needed = std::snprintf(nullptr, 0, format, value);
    if (needed <= 0) return;
    const size_t before = line.size();
    line.resize(before + static_cast<size_t>(needed) + 1);
    std::snprintf(line.data() + before, static_cast<size_t>(needed) + 1, format, value);
    line.pop_back();
}

}  // namespace

extern "C" {

void wl_print_begin(Context*) { line.clear(); }

void wl_print_bool(Context*, int32_t value) { line += value ? "True" : "False"; }

void wl_print_i64(Context*, int64_t value) { line += std::to_string(value); }

void wl_print_u64(Context*, uint64_t value) { line += std::to_string(value); }

void wl_print_f64(Context*, double value, int32_t bits) {
    if (std::isnan(value)) {
        line += "nan";
    } else if (std::isinf(value)) {
        line += value < 0 ? "-inf" : "inf";
    } else {
        char text[40];
        int precision = 0;
        do {
            std::snprintf(text, sizeof text, "%.*e", precision, value);
        } while (!reads_back(text, value, bits) && ++precision < 17);
        append_decimal(text);
    }
}

void wl_print_str(Context*, const char* text) { line += text; }

void wl_print_format_i64(Context*, const char* format, int64_t value) {
    if (format[std::strlen(format) - 1] == 'c') {
        append_formatted(format, static_cast<int>(value));
    } else {
        append_formatted(format, static_cast<long long>(value));
    }
}

void wl_print_format_f64(Context*, const char* format, double value) { append_formatted(format, value); }

void wl_print_end(Context* context) {
    std::fwrite(line.data(), 1, line.size(), stdout);
    line.clear();
    context->record->printed.store(1, std::memory_order_relaxed);
}

}  // extern "C"

}  // namespace wl
