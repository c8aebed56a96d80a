// A stand-in for the CUDA driver's library, for the tests of runtime/cuda/driver.py: cuda-python loads it as libcuda.so.1
// and calls it. Device memory is the host's, launches run nothing, everything succeeds at once. Each function fails if it
// is called without a context where the driver needs one, or with arguments that make no sense.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int R;
typedef uint64_t P;
typedef void* H;

enum { OK = 0, INVALID = 1, NO_CONTEXT = 201, NOT_FOUND = 500 };

static H stack[16];
static int depth;
static char contexts[2], pools[2];
static int peers;
static uint64_t threshold;
static int launches;
static P managed, pooled;  // what was allocated so last

// What runs of captures: the stream, its graph, and the node that the next one comes after.
static struct {
    H stream, graph, last;
} captures[8];
static int capture_of(H s) {
    for (int i = 0; i < 8; ++i)
        if (captures[i].stream == s) return i;
    return -1;
}

#define NEED_CONTEXT \
    if (!depth) return NO_CONTEXT

static H fresh(void) { return malloc(8); }

R cuInit(unsigned flags) { return flags ? INVALID : OK; }
R cuDriverGetVersion(int* v) { return *v = 13000, OK; }
R cuDeviceGetCount(int* n) { return *n = 2, OK; }
R cuDeviceGet(int* d, int i) { return *d = i, OK; }
R cuDeviceGetName(char* s, int n, int d) { return snprintf(s, n, "Stub %d", d), OK; }
R cuDeviceGetUuid(char* u, int d) { return memset(u, d, 16), OK; }
R cuDeviceGetPCIBusId(char* s, int n, int d) { return snprintf(s, n, "0000:%02d:00.0", d), OK; }
R cuDeviceTotalMem(size_t* n, int d) { return *n = (size_t)(d + 1) << 30, OK; }
R cuDeviceGetAttribute(int* v, int a, int d) {
    (void)d;
    *v = a == 75 ? 9 : a == 76 ? 0 : a == 16 ? 132 : 1;  // compute capability, multiprocessors
    return OK;
}
R cuDeviceCanAccessPeer(int* yes, int a, int b) { return *yes = a != b, OK; }
R cuDevicePrimaryCtxRetain(H* c, int d) { return *c = &contexts[d], OK; }
R cuDevicePrimaryCtxRelease(int d) { return d < 2 ? OK : INVALID; }
R cuCtxGetCurrent(H* c) { return *c = depth ? stack[depth - 1] : NULL, OK; }
R cuCtxPushCurrent(H c) { return c ? (stack[depth++] = c, OK) : INVALID; }
R cuCtxPopCurrent(H* c) {
    NEED_CONTEXT;
    *c = stack[--depth];
    return OK;
}
R cuCtxGetDevice(int* d) {
    NEED_CONTEXT;
    *d = (int)((char*)stack[depth - 1] - contexts);
    return OK;
}
R cuCtxSynchronize(void) {
    NEED_CONTEXT;
    return OK;
}
R cuCtxEnablePeerAccess(H c, unsigned flags) {
    NEED_CONTEXT;
    return flags || !c ? INVALID : peers++ ? 704 : OK;
}
R cuCtxDisablePeerAccess(H c) {
    NEED_CONTEXT;
    return c && peers-- > 0 ? OK : 705;
}
R cuCtxGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -5, OK; }
R cuMemGetInfo(size_t* available, size_t* total) {
    NEED_CONTEXT;
    *available = 1 << 20, *total = 1 << 30;
    return OK;
}
R cuStreamCreateWithPriority(H* s, unsigned flags, int priority) {
    NEED_CONTEXT;
    (void)flags, *s = fresh();
    *(int*)*s = priority;
    return OK;
}
R cuStreamDestroy(H s) { return free(s), OK; }
R cuStreamQuery(H s) { return (uintptr_t)s > 1 ? 600 : OK; }  // 1 is the legacy default stream
R cuStreamSynchronize(H s) { return (void)s, OK; }
R cuStreamWaitEvent(H s, H e, unsigned flags) { return (void)s, e && !flags ? OK : INVALID; }
R cuStreamGetPriority(H s, int* p) { return *p = *(int*)s, OK; }
R cuStreamGetCtx(H s, H* c) { return (void)s, *c = depth ? stack[depth - 1] : contexts, OK; }
R cuPointerGetAttribute(void* out, int attribute, P p) {
    if (!p) return INVALID;
    switch (attribute) {
        case 8: return *(char*)out = p == managed, OK;            // CU_POINTER_ATTRIBUTE_IS_MANAGED
        case 9: return *(int*)out = 1, OK;                        // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        case 17: return *(H*)out = p == pooled ? pools : NULL, OK;  // CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE
        default: return INVALID;
    }
}
R cuStreamGetFlags(H s, unsigned* f) { return (void)s, *f = 1, OK; }
R cuEventCreate(H* e, unsigned flags) {
    NEED_CONTEXT;
    *e = fresh();
    return flags < 8 ? OK : INVALID;
}
R cuEventDestroy(H e) { return free(e), OK; }
R cuEventRecord(H e, H s) { return (void)s, e ? OK : INVALID; }
R cuEventQuery(H e) { return e ? OK : INVALID; }
R cuEventSynchronize(H e) { return e ? OK : INVALID; }
R cuEventElapsedTime(float* ms, H a, H b) { return *ms = 1.5f, a && b ? OK : INVALID; }
R cuMemAlloc(P* p, size_t n) {
    NEED_CONTEXT;
    *p = (P)calloc(n, 1);
    return OK;
}
R cuMemAllocAsync(P* p, size_t n, H s) {
    NEED_CONTEXT;
    (void)s, *p = pooled = (P)calloc(n, 1);
    return OK;
}
R cuMemAllocManaged(P* p, size_t n, unsigned flags) {
    NEED_CONTEXT;
    *p = managed = (P)calloc(n, 1);
    return flags == 1 ? OK : INVALID;
}
R cuMemHostAlloc(H* p, size_t n, unsigned flags) { return flags == 1 ? (*p = calloc(n, 1), OK) : INVALID; }
R cuMemFree(P p) { return free((H)p), OK; }
R cuMemFreeAsync(P p, H s) { return (void)s, free((H)p), OK; }
R cuMemFreeHost(H p) { return free(p), OK; }
R cuMemcpyHtoDAsync(P to, const void* from, size_t n, H s) { return (void)s, memcpy((H)to, from, n), OK; }
R cuMemcpyDtoHAsync(void* to, P from, size_t n, H s) { return (void)s, memcpy(to, (H)from, n), OK; }
R cuMemcpyDtoDAsync(P to, P from, size_t n, H s) { return (void)s, memcpy((H)to, (H)from, n), OK; }
R cuMemcpyPeerAsync(P to, H tc, P from, H fc, size_t n, H s) {
    return (void)s, tc == fc ? INVALID : (memcpy((H)to, (H)from, n), OK);
}
typedef struct {
    size_t sx, sy, sz, slod;
    unsigned skind;
    const char* shost;
    P sdevice;
    H sarray, r0;
    size_t spitch, sheight, dx, dy, dz, dlod;
    unsigned dkind;
    char* dhost;
    P ddevice;
    H darray, r1;
    size_t dpitch, dheight, width, height, depth;
} Copy3D;
R cuMemcpy3DAsync(const Copy3D* c, H s) {
    (void)s;
    const char* from = c->skind == 1 ? c->shost : (const char*)c->sdevice;
    char* to = c->dkind == 1 ? c->dhost : (char*)c->ddevice;
    if (!from || !to || c->spitch < c->width || c->dpitch < c->width) return INVALID;
    for (size_t z = 0; z < c->depth; ++z)
        for (size_t y = 0; y < c->height; ++y)
            memcpy(to + (z * c->dheight + y) * c->dpitch, from + (z * c->sheight + y) * c->spitch, c->width);
    return OK;
}
R cuMemsetD8Async(P p, unsigned char v, size_t n, H s) { return (void)s, memset((H)p, v, n), OK; }
R cuMemsetD16Async(P p, unsigned short v, size_t n, H s) {
    (void)s;
    for (size_t i = 0; i < n; ++i) ((unsigned short*)p)[i] = v;
    return OK;
}
R cuMemsetD32Async(P p, unsigned v, size_t n, H s) {
    (void)s;
    for (size_t i = 0; i < n; ++i) ((unsigned*)p)[i] = v;
    return OK;
}
R cuDeviceGetMemPool(H* pool, int d) { return *pool = &pools[d], OK; }
R cuMemPoolGetAttribute(H pool, int a, void* v) {
    (void)pool;
    *(uint64_t*)v = a == 4 ? threshold : 7;
    return OK;
}
R cuMemPoolSetAttribute(H pool, int a, void* v) { return (void)pool, a == 4 ? (threshold = *(uint64_t*)v, OK) : INVALID; }
R cuMemPoolTrimTo(H pool, size_t n) { return (void)pool, (void)n, OK; }
static int pool_access;
R cuMemPoolGetAccess(int* flags, H pool, int* location) {
    return (void)pool, *flags = pool_access, location[0] == 1 && location[1] == 1 ? OK : INVALID;
}
R cuMemPoolSetAccess(H pool, const int* desc, size_t n) {
    return (void)pool, n == 1 && desc[0] == 1 && desc[1] == 1 ? (pool_access = desc[2], OK) : INVALID;
}
R cuIpcGetMemHandle(char* h, P p) { return memset(h, 0, 64), memcpy(h, &p, 8), OK; }
R cuIpcCloseMemHandle(P p) { return p ? OK : INVALID; }
typedef struct {
    char bytes[64];
} Handle;
static R open_memory(P* p, Handle h, unsigned flags) { return flags == 1 ? (memcpy(p, h.bytes, 8), OK) : INVALID; }
R cuIpcGetEventHandle(char* h, H e) { return memset(h, 0, 64), memcpy(h, &e, 8), OK; }
static R open_event(H* e, Handle h) { return memcpy(e, h.bytes, 8), OK; }
R cuMemGetAddressRange(P* base, size_t* n, P p) { return *base = p & ~(P)15, *n = 64, OK; }
R cuModuleLoadDataEx(H* m, const char* image, unsigned n, const int* options, void** values) {
    NEED_CONTEXT;
    if (n != 2 || options[0] != 5 || options[1] != 6) return INVALID;
    if (!strncmp(image, "bad", 3)) return snprintf(values[0], (size_t)values[1], "line 1: bad"), 218;
    *m = strdup(*image == 0x7f ? "ELF" : image);
    return OK;
}
R cuModuleUnload(H m) { return free(m), OK; }
R cuModuleGetFunction(H* f, H m, const char* name) {
    return strstr(m, name) || !strcmp(m, "ELF") ? (*f = m, OK) : NOT_FOUND;
}
R cuModuleGetGlobal(P* p, size_t* n, H m, const char* name) { return (void)name, *p = (P)m, *n = 8, OK; }
R cuFuncGetAttribute(int* v, int a, H f) { return (void)f, *v = a == 0 ? 1024 : 0, OK; }
R cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, H f, int block, size_t shared) {
    return (void)f, (void)shared, *n = 2048 / block, OK;
}
R cuOccupancyMaxPotentialBlockSize(int* blocks, int* threads, H f, H sizes, size_t shared, int limit) {
    *blocks = 264, *threads = 768;
    return f && !sizes && !shared && !limit ? OK : INVALID;
}
R cuProfilerStart(void) {
    NEED_CONTEXT;
    return OK;
}
R cuProfilerStop(void) {
    NEED_CONTEXT;
    return OK;
}
R cuLaunchKernel(H f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, H s,
                 void** params, void** extra) {
    NEED_CONTEXT;
    (void)s;
    ++launches;
    return f && gx && gy == 1 && gz == 1 && bx && by == 1 && bz == 1 && !shared && params && !extra ? OK : INVALID;
}
static R begin_capture(H s, H graph, H last) {
    const int i = capture_of(NULL);
    if (!s || capture_of(s) >= 0 || i < 0) return INVALID;
    captures[i].stream = s, captures[i].graph = graph, captures[i].last = last;
    return OK;
}
R cuStreamBeginCapture(H s, int mode) {
    NEED_CONTEXT;
    return mode >= 0 && mode <= 2 ? begin_capture(s, fresh(), NULL) : INVALID;
}
R cuStreamBeginCaptureToGraph(H s, H graph, const H* nodes, const void* edges, size_t n, int mode) {
    NEED_CONTEXT;
    return graph && !nodes && !edges && !n && mode == 2 ? begin_capture(s, graph, NULL) : INVALID;
}
R cuStreamEndCapture(H s, H* graph) {
    const int i = s ? capture_of(s) : -1;
    if (i < 0) return INVALID;
    captures[i].stream = NULL, *graph = captures[i].graph;
    return OK;
}
static int thread_mode;
R cuThreadExchangeStreamCaptureMode(int* mode) {
    const int before = thread_mode;
    return thread_mode = *mode, *mode = before, OK;
}
R cuStreamIsCapturing(H s, int* status) { return *status = s && capture_of(s) >= 0, OK; }
static const uint64_t default_edge;
R cuStreamGetCaptureInfo(H s, int* status, uint64_t* id, H* graph, H** nodes, const void** edges, size_t* n) {
    const int i = s ? capture_of(s) : -1;
    *status = i >= 0, *id = 7;
    if (i < 0) return OK;
    *graph = captures[i].graph, *nodes = &captures[i].last, *edges = &default_edge, *n = captures[i].last != NULL;
    return OK;
}
R cuStreamUpdateCaptureDependencies(H s, const H* nodes, const void* edges, size_t n, unsigned flags) {
    const int i = s ? capture_of(s) : -1;
    if (i < 0 || n != 1 || !nodes || edges || flags != 1) return INVALID;  // CU_STREAM_SET_CAPTURE_DEPENDENCIES
    captures[i].last = *nodes;
    return OK;
}
static uint64_t condition;
R cuGraphConditionalHandleCreate(uint64_t* made, H graph, H context, unsigned value, unsigned flags) {
    *made = ++condition;
    return graph && context && !value && flags == 1 ? OK : INVALID;  // CU_GRAPH_COND_ASSIGN_DEFAULT
}
typedef struct {
    int type, r0[3];
    uint64_t handle;
    unsigned kind, size;
    H* bodies;
    H context;
} Conditional;
static int kinds[2];
int conditional_nodes(int kind) { return kinds[kind]; }
R cuGraphAddNode(H* node, H graph, const H* before, const void* edges, size_t n, Conditional* c) {
    static H bodies[8];
    static int made;
    if (!graph || edges || n > 1 || (n && !*before) || c->type != 13 || c->handle != condition || c->kind > 1 ||
        c->size != 1 || !c->context || made == 8)
        return INVALID;
    bodies[made] = fresh(), c->bodies = &bodies[made++];
    ++kinds[c->kind], *node = fresh();
    return OK;
}
R cuGraphInstantiateWithFlags(H* made, H graph, unsigned long long flags) {
    *made = fresh();
    return graph && !flags ? OK : INVALID;
}
typedef struct {
    int result;
    H node, from;
} UpdateResult;
R cuGraphExecUpdate(H made, H graph, UpdateResult* out) {
    memset(out, 0, sizeof *out);
    return made == graph ? 910 : OK;
}
R cuGraphGetNodes(H graph, H* nodes, size_t* n) {
    if (nodes) return INVALID;
    *n = 3;
    return graph ? OK : INVALID;
}
R cuGraphDebugDotPrint(H graph, const char* path, unsigned flags) {
    return graph && !strcmp(path, "graph.dot") && flags <= 1 ? OK : INVALID;
}
R cuGraphDestroy(H graph) { return free(graph), OK; }
R cuGraphExecDestroy(H made) { return free(made), OK; }
R cuGraphLaunch(H made, H s) { return (void)s, made ? OK : INVALID; }
int launch_count(void) { return launches; }

// Before CUDA 12.3, and in the bindings for CUDA 12, edges of graphs have no properties.
static R capture_info_11(H s, int* status, uint64_t* id, H* graph, H** nodes, size_t* n) {
    const void* edges;
    return cuStreamGetCaptureInfo(s, status, id, graph, nodes, &edges, n);
}
static R update_11(H s, const H* nodes, size_t n, unsigned flags) {
    return cuStreamUpdateCaptureDependencies(s, nodes, NULL, n, flags);
}
static R add_node_12(H* node, H graph, const H* before, size_t n, Conditional* c) {
    return cuGraphAddNode(node, graph, before, NULL, n, c);
}

#define SINCE(name, version, function) {name, version, (H)function}
#define ROW(name) SINCE(#name, 0, name)
static const struct {
    const char* name;
    int version;  // of CUDA that has it first
    H function;
} table[] = {
    ROW(cuInit), ROW(cuDriverGetVersion), ROW(cuDeviceGetCount), ROW(cuDeviceGet), ROW(cuDeviceGetName),
    ROW(cuDeviceGetUuid), ROW(cuDeviceGetPCIBusId), ROW(cuDeviceTotalMem), ROW(cuDeviceGetAttribute),
    ROW(cuDeviceCanAccessPeer), ROW(cuDevicePrimaryCtxRetain), ROW(cuDevicePrimaryCtxRelease), ROW(cuCtxGetCurrent),
    ROW(cuCtxPushCurrent), ROW(cuCtxPopCurrent), ROW(cuCtxGetDevice), ROW(cuCtxSynchronize), ROW(cuCtxEnablePeerAccess),
    ROW(cuCtxDisablePeerAccess), ROW(cuCtxGetStreamPriorityRange), ROW(cuMemGetInfo), ROW(cuStreamCreateWithPriority),
    ROW(cuStreamDestroy), ROW(cuStreamQuery), ROW(cuStreamSynchronize), ROW(cuStreamWaitEvent),
    ROW(cuStreamGetPriority), ROW(cuStreamGetCtx), ROW(cuPointerGetAttribute), ROW(cuStreamGetFlags), ROW(cuEventCreate), ROW(cuEventDestroy), ROW(cuEventRecord),
    ROW(cuEventQuery), ROW(cuEventSynchronize), ROW(cuEventElapsedTime), ROW(cuMemAlloc), ROW(cuMemAllocAsync),
    ROW(cuMemAllocManaged), ROW(cuMemHostAlloc), ROW(cuMemFree), ROW(cuMemFreeAsync), ROW(cuMemFreeHost),
    ROW(cuMemcpyHtoDAsync), ROW(cuMemcpyDtoHAsync), ROW(cuMemcpyDtoDAsync), ROW(cuMemcpyPeerAsync), ROW(cuMemcpy3DAsync),
    ROW(cuMemsetD8Async), ROW(cuMemsetD16Async), ROW(cuMemsetD32Async), ROW(cuDeviceGetMemPool),
    ROW(cuMemPoolGetAttribute), ROW(cuMemPoolSetAttribute), ROW(cuMemPoolTrimTo), ROW(cuMemPoolGetAccess),
    ROW(cuMemPoolSetAccess), ROW(cuIpcGetMemHandle), SINCE("cuIpcOpenMemHandle", 0, open_memory), ROW(cuIpcCloseMemHandle),
    ROW(cuIpcGetEventHandle), SINCE("cuIpcOpenEventHandle", 0, open_event), ROW(cuMemGetAddressRange),
    ROW(cuModuleLoadDataEx), ROW(cuModuleUnload), ROW(cuModuleGetFunction), ROW(cuModuleGetGlobal),
    ROW(cuFuncGetAttribute), ROW(cuOccupancyMaxActiveBlocksPerMultiprocessor), ROW(cuLaunchKernel),
    ROW(cuStreamBeginCapture), ROW(cuStreamEndCapture), ROW(cuStreamIsCapturing), ROW(cuGraphInstantiateWithFlags),
    ROW(cuThreadExchangeStreamCaptureMode),
    ROW(cuGraphExecUpdate), ROW(cuGraphGetNodes), ROW(cuGraphDebugDotPrint), ROW(cuGraphDestroy),
    ROW(cuGraphExecDestroy), ROW(cuGraphLaunch), ROW(cuStreamBeginCaptureToGraph),
    ROW(cuGraphConditionalHandleCreate), SINCE("cuStreamGetCaptureInfo", 11030, capture_info_11),
    SINCE("cuStreamUpdateCaptureDependencies", 11030, update_11), SINCE("cuGraphAddNode", 12020, add_node_12),
    SINCE("cuStreamGetCaptureInfo", 12030, cuStreamGetCaptureInfo),
    SINCE("cuStreamUpdateCaptureDependencies", 12030, cuStreamUpdateCaptureDependencies),
    SINCE("cuGraphAddNode", 12030, cuGraphAddNode),
    ROW(cuOccupancyMaxPotentialBlockSize), ROW(cuProfilerStart), ROW(cuProfilerStop),
};
enum { ROWS = sizeof table / sizeof *table };
static int calls[ROWS];

// Hidden, or those of the C library, which do nothing, would be called in their place.
#define HOOK __attribute__((no_instrument_function, visibility("hidden"))) void
HOOK __cyg_profile_func_enter(void* function, void* site);
HOOK __cyg_profile_func_exit(void* function, void* site);
HOOK __cyg_profile_func_enter(void* function, void* site) {
    (void)site;
    for (int i = 0; i < ROWS; ++i) calls[i] += table[i].function == function;
}
HOOK __cyg_profile_func_exit(void* function, void* site) { (void)function, (void)site; }
int was_called(const char* name) {
    int n = 0;
    for (int i = 0; i < ROWS; ++i)
        if (!strcmp(name, table[i].name)) n += calls[i];
    return n;
}

R cuGetProcAddress_v2(const char* symbol, H* function, int version, uint64_t flags, int* status) {
    if (flags > 1) return INVALID;
    *function = NULL;
    for (int i = 0; i < ROWS; ++i)
        if (!strcmp(symbol, table[i].name) && table[i].version <= version) *function = table[i].function;
    if (!strcmp(symbol, "cuGetProcAddress") || !strcmp(symbol, "cuGetProcAddress_v2")) *function = (H)cuGetProcAddress_v2;
    if (status) *status = *function ? 0 : 1;
    return *function ? OK : NOT_FOUND;
}
R cuGetProcAddress(const char* symbol, H* function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
