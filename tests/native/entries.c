// Entry points for the tests of the native extension, with the ABI of warp_like/ir/layout.py.
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef struct {
    char* stack;
    int64_t top;
    int64_t capacity;
    const int32_t* error;
    const int32_t* cancel;
    int64_t alone;
} Context;

void (*wl_error)(Context*, int32_t, int32_t, int64_t);
void (*wl_abort)(Context*, int32_t, int32_t, int64_t);
void (*wl_fail)(Context*, int32_t, const char*, int64_t, int32_t, const int64_t*);
void (*wl_breakpoint)(Context*);
void (*wl_stack_grow)(Context*, int64_t);
void (*wl_poll)(Context*);
int32_t (*wl_is_live)(uint64_t, int32_t);
void* (*wl_local_memory)(Context*, int64_t);
char* (*wl_lane_partials)(Context*, char*, int64_t, int32_t, int32_t);
int32_t (*wl_tree_ray)(uint64_t, uint64_t, uint64_t, uint64_t, int32_t, float, float, float, float, float, float, float,
                       int32_t, int32_t);
void (*wl_tree_rays)(uint64_t, uint64_t, uint64_t, uint64_t, int32_t, int32_t, int32_t, const float*, int32_t, uint64_t,
                     int32_t*);
int32_t (*wl_tree_point)(uint64_t, uint64_t, uint64_t, uint64_t, int32_t, float, float, float, float);
int64_t (*wl_next_in_box)(uint64_t, uint64_t, int32_t, int32_t, int32_t, int32_t, float, float, float, float, float,
                          float);
void (*wl_print_begin)(Context*);
void (*wl_print_bool)(Context*, int32_t);
void (*wl_print_i64)(Context*, int64_t);
void (*wl_print_u64)(Context*, uint64_t);
void (*wl_print_f64)(Context*, double, int32_t);
void (*wl_print_format_i64)(Context*, const char*, int64_t);
void (*wl_print_format_f64)(Context*, const char*, double);
void (*wl_print_str)(Context*, const char*);
void (*wl_print_end)(Context*);

static void spin(int64_t us) {
    struct timespec t0, t;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    do {
        clock_gettime(CLOCK_MONOTONIC, &t);
    } while ((t.tv_sec - t0.tv_sec) * 1000000000ll + t.tv_nsec - t0.tv_nsec < us * 1000);
}

// ---- records what it is called with
uint8_t echo_args[1 << 16];
int64_t echo_size;
int64_t echo_dims[8];
atomic_llong echo_threads;
atomic_llong echo_calls;

void echo(const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end, Context* context) {
    (void)context;
    memcpy(echo_args, args, echo_size);
    memcpy(echo_dims, dims, sizeof echo_dims);
    atomic_fetch_add(&echo_threads, end - begin);
    atomic_fetch_add(&echo_calls, 1);
}

typedef struct {
    float* data;
    int64_t shape, stride;
} Floats;
typedef struct {
    int32_t* data;
    int64_t shape, stride;
} Ints;

#define AT(a, i) (*(__typeof__((a).data))((char*)(a).data + (i) * (a).stride))

// ---- z = 2 x + y, for any strides
typedef struct {
    Floats x, y, z;
} AxpyArgs;

void axpy(const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end, Context* context) {
    const AxpyArgs* a = (const AxpyArgs*)args;
    (void)dims, (void)context;
    for (int64_t t = begin; t < end; ++t) AT(a->z, t) = 2 * AT(a->x, t) + AT(a->y, t);
}

// ---- writes for each thread where the call began that ran it; takes about 100 ns for each
// ---- asks for the partial sums of two arrays of floats
typedef struct {
    Floats x, y;
    int64_t us;
} PartialsArgs;
atomic_llong partials_given[2];

void ask_for_partials(const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end, Context* context) {
    const PartialsArgs* a = (const PartialsArgs*)args;
    (void)dims;
    const Floats arrays[2] = {a->x, a->y};
    for (int k = 0; k < 2; ++k) {
        if (wl_lane_partials(context, (char*)arrays[k].data, arrays[k].shape, 32, 4)) {
            atomic_fetch_add(&partials_given[k], 1);
        }
    }
    spin(a->us * (end - begin));
}

typedef struct {
    Ints begins;
} CutArgs;

void cut(const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end, Context* context) {
    const CutArgs* a = (const CutArgs*)args;
    (void)dims, (void)context;
    for (int64_t t = begin; t < end; ++t) {
        AT(a->begins, t) = (int32_t)begin;
        spin(0);
    }
}

// ---- counts each thread in an array, and takes `us` microseconds for it
typedef struct {
    Ints counts;
    int64_t us;
} CountArgs;

atomic_llong longest_chunk;

void count(const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end, Context* context) {
    const CountArgs* a = (const CountArgs*)args;
    (void)dims, (void)context;
    long long longest = atomic_load(&longest_chunk);
    while (end - begin > longest && !atomic_compare_exchange_weak(&longest_chunk, &longest, end - begin)) {
    }
    for (int64_t t = begin; t < end; ++t) {
        __atomic_fetch_add(a->counts.data + t, 1, __ATOMIC_RELAXED);
        if (a->us) spin(a->us);
    }
}

// ---- fails at one thread: mode 0 goes on, 1 gives up, 2 goes on and says why
// ---- counts each thread; a vector of four from `first` on takes `us`, those before it next to nothing
typedef struct {
    Ints counts;
    int64_t first, us;
} CountLateArgs;

void count_late(const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end, Context* context) {
    const CountLateArgs* a = (const CountLateArgs*)args;
    (void)dims, (void)context;
    for (int64_t i = begin; i < end; ++i) atomic_fetch_add((_Atomic(int32_t)*)&AT(a->counts, i), 1);
    if (end > a->first) spin(a->us * (end - (begin > a->first ? begin : a->first)) / 4);
}

typedef struct {
    int64_t at, mode, us;
} FailArgs;

atomic_llong fail_ran;

void fail(const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end, Context* context) {
    const FailArgs* a = (const FailArgs*)args;
    (void)dims;
    for (int64_t t = begin; t < end; ++t) {
        atomic_fetch_add(&fail_ran, 1);
        if (a->us) spin(a->us);
        const int64_t values[2] = {t, -1};
        if (t >= a->at && a->mode == 2) wl_fail(context, 17, "why", t, 2, values);
        if (t >= a->at && a->mode < 2) (a->mode ? wl_abort : wl_error)(context, 17, 42, t);
    }
}

// ---- writes for each thread whether the launch was alone: 1 or 0; takes `us` microseconds for it
void alone(const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end, Context* context) {
    const CountArgs* a = (const CountArgs*)args;
    (void)dims;
    for (int64_t t = begin; t < end; ++t) {
        AT(a->counts, t) = context->alone != 0;
        if (a->us) spin(a->us);
    }
}

// ---- the same, and takes four times as long while another OS thread is at it, as code does that waits for its memory
atomic_int crowd;

void crowded(const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end, Context* context) {
    const CountArgs* a = (const CountArgs*)args;
    (void)dims;
    atomic_fetch_add(&crowd, 1);
    for (int64_t t = begin; t < end; ++t) {
        spin(a->us * (atomic_load(&crowd) > 1 ? 4 : 1));
        AT(a->counts, t) += context->alone ? 100 : 1;
    }
    atomic_fetch_sub(&crowd, 1);
}

// ---- writes for each thread the number of the OS thread that ran it; those before the middle take `us` microseconds
// each
atomic_int who_next;

void who(const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end, Context* context) {
    static _Thread_local int32_t number;
    const CountArgs* a = (const CountArgs*)args;
    (void)context;
    if (!number) number = atomic_fetch_add(&who_next, 1) + 1;
    for (int64_t t = begin; t < end; ++t) {
        if (t < dims[0] / 2) spin(a->us);
        AT(a->counts, t) = number;
    }
}

// ---- pushes `count` int64 in each thread, pops them again and checks them
typedef struct {
    int64_t count;
    Ints bad;
} PushArgs;

void push(const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end, Context* context) {
    const PushArgs* a = (const PushArgs*)args;
    (void)dims;
    for (int64_t t = begin; t < end; ++t) {
        if (t == begin && context->top != 0) __atomic_fetch_add(a->bad.data, 1, __ATOMIC_RELAXED);
        for (int64_t i = 0; i < a->count; ++i) {
            if (context->capacity - context->top < 8) wl_stack_grow(context, 8);
            *(int64_t*)(context->stack + context->top) = t * 1000003 + i;
            context->top += 8;
        }
        for (int64_t i = a->count - 1; i >= 1; --i) {  // leaves one value behind on purpose
            context->top -= 8;
            if (*(int64_t*)(context->stack + context->top) != t * 1000003 + i) {
                __atomic_fetch_add(a->bad.data, 1, __ATOMIC_RELAXED);
            }
        }
    }
}

// ---- prints
typedef struct {
    double value;
    int64_t bits;
} PrintArgs;

void print(const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end, Context* context) {
    const PrintArgs* a = (const PrintArgs*)args;
    (void)dims;
    for (int64_t t = begin; t < end; ++t) {
        wl_print_begin(context);
        wl_print_str(context, "thread ");
        wl_print_i64(context, t);
        wl_print_str(context, " ");
        wl_print_u64(context, UINT64_MAX);
        wl_print_str(context, " ");
        wl_print_bool(context, t % 2 == 0);
        wl_print_str(context, " ");
        wl_print_f64(context, a->value, (int32_t)a->bits);
        wl_print_str(context, "\n");
        wl_print_end(context);
    }
}

// ---- threads that poll without end: those from `first` on, but thread `fails`, which reports an error
void hang(const uint8_t* args, const int64_t* dims, int64_t begin, int64_t end, Context* context) {
    int64_t first, fails;
    memcpy(&first, args, 8);
    memcpy(&fails, args + 8, 8);
    for (int64_t i = begin; i < end; ++i) {
        if (i == fails) {
            spin(20000);
            wl_error(context, 17, 42, i);
        } else if (i >= first) {
            for (;;) wl_poll(context);
        } else {
            spin(50);
        }
    }
}
