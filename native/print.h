// Printing from kernels: the pieces of a line gather in a buffer of the OS thread, and leave as one line.
#pragma once

#include <cstdint>

namespace wl {

struct Context;

extern "C" {
void wl_print_begin(Context* context);
void wl_print_bool(Context* context, int32_t value);
void wl_print_i64(Context* context, int64_t value);
void wl_print_u64(Context* context, uint64_t value);
// The shortest decimal that reads back as the same value of the `bits`-bit type: 16, 32 or 64, or -16 for
// bfloat16.
void wl_print_f64(Context* context, double value, int32_t bits);
void wl_print_str(Context* context, const char* text);
// `format` is one conversion of C's printf, for a long long (an int with %c) or a double.
void wl_print_format_i64(Context* context, const char* format, int64_t value);
void wl_print_format_f64(Context* context, const char* format, double value);
void wl_print_end(Context* context);
}

}  // namespace wl
