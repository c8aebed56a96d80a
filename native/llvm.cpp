#include "llvm.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "platform.h"
#include "preload.h"

namespace wl {

namespace {

// The functions of llvmlite's library that are called, as in the versions that backend/llvm_tools.py lists.
#define WL_LLVM_FUNCTIONS(X)                                                                                       \
    X(void, InitializeNativeTarget, ())                                                                            \
    X(void, InitializeNativeAsmPrinter, ())                                                                        \
    X(void, SetCommandLine, (const char* name, const char* option))                                                \
    X(void, DisposeString, (const char*))                                                                          \
    X(void, GetHostCPUName, (const char** out))                                                                    \
    X(int, GetHostCPUFeatures, (const char** out))                                                                 \
    X(void, GetProcessTriple, (const char** out))                                                                  \
    X(void*, ContextCreate, ())                                                                                    \
    X(void, ContextDispose, (void* context))                                                                       \
    X(void*, ParseAssembly, (void* context, const char* text, const char** error))                                 \
    X(void, DisposeModule, (void* module))                                                                         \
    X(void, SetTarget, (void* module, const char* triple))                                                         \
    X(void, SetDataLayout, (void* module, const char* layout))                                                     \
    X(int, VerifyModule, (void* module, const char** error))                                                       \
    X(void*, ModuleFunctionsIter, (void* module))                                                                  \
    X(void*, FunctionsIterNext, (void* iterator))                                                                  \
    X(void, DisposeFunctionsIter, (void* iterator))                                                                \
    X(int, IsDeclaration, (void* value))                                                                           \
    X(void*, GetTargetFromTriple, (const char* triple, const char** error))                                        \
    X(void*, CreateTargetMachine,                                                                                  \
      (void* target, const char* triple, const char* cpu, const char* features, int level, const char* relocation, \
       const char* code_model, int print, int jit, const char* abi))                                               \
    X(void, GetTargetMachineTriple, (void* machine, const char** out))                                             \
    X(void*, CreateTargetMachineData, (void* machine))                                                             \
    X(void, CopyStringRepOfTargetData, (void* data, const char** out))                                             \
    X(void, DisposeTargetData, (void* data))                                                                       \
    X(void*, CreatePipelineTuningOptions, ())                                                                      \
    X(void, PTOSetLoopVectorization, (void* options, bool on))                                                     \
    X(void, PTOSetSLPVectorization, (void* options, bool on))                                                      \
    X(void, PTOSetLoopInterleaving, (void* options, bool on))                                                      \
    X(void, PTOSetLoopUnrolling, (void* options, bool on))                                                         \
    X(void*, CreatePassBuilder, (void* machine, void* options))                                                    \
    X(void*, CreateNewModulePassManager, ())                                                                       \
    X(void*, buildPerModuleDefaultPipeline, (void* builder, int level))                                            \
    X(void*, buildFunctionSimplificationPipeline, (void* builder, int level))                                      \
    X(void, module_AddInstCombinePass, (void* passes))                                                             \
    X(void, RunNewModulePassManager, (void* passes, void* module, void* builder))                                  \
    X(void, RunNewFunctionPassManager, (void* passes, void* function, void* builder))                              \
    X(void, DisposeNewModulePassManger, (void* passes))                                                            \
    X(void, DisposeNewFunctionPassManger, (void* passes))                                                          \
    X(void*, TargetMachineEmitToMemory, (void* machine, void* module, int is_object, const char** error))          \
    X(const char*, GetBufferStart, (void* buffer))                                                                 \
    X(size_t, GetBufferSize, (void* buffer))                                                                       \
    X(void, DisposeMemoryBuffer, (void* buffer))

struct Functions {
#define WL_MEMBER(result, name, parameters) result(*name) parameters;
    WL_LLVM_FUNCTIONS(WL_MEMBER)
#undef WL_MEMBER
};

Functions llvm;        // those of the library
bool is_open = false;  // all of them were found; written by the loading thread before anybody may ask

// A text that llvmlite made.
class Text {
  public:
    Text() = default;
    ~Text() {
        if (text_) llvm.DisposeString(text_);
    }
    Text(const Text&) = delete;
    Text& operator=(const Text&) = delete;
    const char** out() { return &text_; }
    explicit operator bool() const { return text_ != nullptr; }
    std::string str() const { return text_ ? text_ : ""; }

  private:
    const char* text_ = nullptr;
};

// The machine of a processor. It stays, and so do its builders of pipelines: LLVM frees only a part of a dropped one.
struct Machine {
    void* machine;
    std::string triple, layout;
    std::map<std::tuple<int, bool, bool>, void*> builders;

    void* builder(int level, bool vectorize, bool unroll) {
        void*& made = builders[{level, vectorize, unroll}];
        if (!made) {
            void* options = llvm.CreatePipelineTuningOptions();
            llvm.PTOSetLoopVectorization(options, vectorize);
            llvm.PTOSetSLPVectorization(options, vectorize);
            llvm.PTOSetLoopInterleaving(options, vectorize);
            llvm.PTOSetLoopUnrolling(options, unroll);
            made = llvm.CreatePassBuilder(machine, options);
        }
        return made;
    }
};

// What is compiled, and how; see `llvm_object` in _native.pyi.
struct Job {
    const char *triple, *cpu, *features, *text;
    int level;
    bool vectorize, unroll;
};

// The object, or why there is none: `invalid` where the passes have made code that the verifier refuses.
struct Result {
    std::string object, error;
    bool invalid = false;
};

// Used under the compiler's lock, and by the loading thread before.
Machine* machine_for(const Job& job, std::string* error) {
    static std::map<std::tuple<std::string, std::string, std::string>, Machine> machines;
    const auto key = std::make_tuple(std::string(job.triple), std::string(job.cpu), std::string(job.features));
    const auto found = machines.find(key);
    if (found != machines.end()) return &found->second;
    Text why, triple, layout;
    void* target = llvm.GetTargetFromTriple(job.triple, why.out());
    void* machine =
        target ? llvm.CreateTargetMachine(target, job.triple, job.cpu, job.features, 3, "pic", "small", 0, 0, "")
               : nullptr;
    if (!machine) {
        *error = why ? why.str() : "LLVM has no machine for this target";
        return nullptr;
    }
    llvm.GetTargetMachineTriple(machine, triple.out());
    void* data = llvm.CreateTargetMachineData(machine);
    llvm.CopyStringRepOfTargetData(data, layout.out());
    llvm.DisposeTargetData(data);
    return &(machines[key] = Machine{machine, triple.str(), layout.str(), {}});
}

// Brings straight code into the form that the code generator expects.
void tidy(Machine& machine, void* module) {
    void* passes = llvm.CreateNewModulePassManager();
    llvm.module_AddInstCombinePass(passes);
    llvm.RunNewModulePassManager(passes, module, machine.builder(2, false, false));
    llvm.DisposeNewModulePassManger(passes);
}

// Simplifies each function by itself.
void simplify(Machine& machine, void* module, int level) {
    void* builder = machine.builder(level, false, false);
    void* passes = llvm.buildFunctionSimplificationPipeline(builder, level);
    void* functions = llvm.ModuleFunctionsIter(module);
    while (void* function = llvm.FunctionsIterNext(functions)) {
        if (!llvm.IsDeclaration(function)) llvm.RunNewFunctionPassManager(passes, function, builder);
    }
    llvm.DisposeFunctionsIter(functions);
    llvm.DisposeNewFunctionPassManger(passes);
}

void optimize(Machine& machine, void* module, const Job& job) {
    void* builder = machine.builder(3, job.vectorize, job.unroll);
    void* passes = llvm.buildPerModuleDefaultPipeline(builder, 3);
    llvm.RunNewModulePassManager(passes, module, builder);
    llvm.DisposeNewModulePassManger(passes);
}

void emit(Machine& machine, void* module, bool reduces_strength, Result* result) {
    const bool switches = !reduces_strength && machine.triple.rfind("x86_64", 0) == 0;
    if (switches) llvm.SetCommandLine("warp_like", "-disable-lsr");
    Text error;
    void* buffer = llvm.TargetMachineEmitToMemory(machine.machine, module, 1, error.out());
    if (switches) llvm.SetCommandLine("warp_like", "-disable-lsr=false");
    if (!buffer) {
        result->error = error.str();
        return;
    }
    result->object.assign(llvm.GetBufferStart(buffer), llvm.GetBufferSize(buffer));
    llvm.DisposeMemoryBuffer(buffer);
}

void compile_module(Machine& machine, void* module, const Job& job, Result* result) {
    llvm.SetTarget(module, machine.triple.c_str());
    llvm.SetDataLayout(module, machine.layout.c_str());
    Text refused, invalid;
    if (llvm.VerifyModule(module, refused.out())) {
        result->error = refused.str();
        return;
    }
    if (job.level == 0) tidy(machine, module);
    if (job.level == 1 || job.level == 2) simplify(machine, module, job.level);
    if (job.level == 3) {
        optimize(machine, module, job);
        if (llvm.VerifyModule(module, invalid.out())) {
            result->error = invalid.str();
            result->invalid = true;
            return;
        }
    }
    emit(machine, module, job.level == 3, result);
}

Result compile(const Job& job) {
    Result result;
    Machine* machine = machine_for(job, &result.error);
    if (!machine) return result;
    void* context = llvm.ContextCreate();
    Text error;
    void* module = llvm.ParseAssembly(context, job.text, error.out());
    if (error) {
        result.error = "LLVM IR parsing error\n" + error.str();
    } else {
        compile_module(*machine, module, job, &result);
    }
    if (module) llvm.DisposeModule(module);
    llvm.ContextDispose(context);
    return result;
}

// LLVM's names of this machine.
struct Host {
    std::string name, features, triple;
};

// The features in the order of their names, so that all of a process ask for one machine.
std::string sorted_features(const std::string& text) {
    std::vector<std::string> found;
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
        if (!part.empty()) found.push_back(part);
    }
    std::sort(found.begin(), found.end(),
              [](const std::string& a, const std::string& b) { return a.compare(1, a.npos, b, 1, b.npos) < 0; });
    std::string joined;
    for (const std::string& part : found) joined += (joined.empty() ? "" : ",") + part;
    return joined;
}

Host find_host() {
    Text name, features, triple;
    llvm.GetHostCPUName(name.out());
    llvm.GetHostCPUFeatures(features.out());
    llvm.GetProcessTriple(triple.out());
    return {name.str(), sorted_features(features.str()), triple.str()};
}

// Lanes as kernels have them: a loop of vectors, and the rest under a mask. Attributes follow: what LLVM knows of the
// processor it finds out once for each width of vectors.
constexpr char kSample[] = R"(
declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, i32, <16 x i1>, <16 x float>)
declare void @llvm.masked.store.v16f32.p0(<16 x float>, ptr, i32, <16 x i1>)
define void @sample(ptr noalias readonly %args, i64 %begin, i64 %end) #0 {
entry:
  %x = load ptr, ptr %args
  %p = getelementptr i8, ptr %args, i64 48
  %a = load float, ptr %p
  %one = insertelement <16 x float> poison, float %a, i32 0
  %as = shufflevector <16 x float> %one, <16 x float> poison, <16 x i32> zeroinitializer
  %whole = sub nsw i64 %end, 16
  %first = icmp sle i64 %begin, %whole
  br i1 %first, label %vector, label %rest
vector:
  %i = phi i64 [ %begin, %entry ], [ %next, %vector ]
  %at = getelementptr [4 x i8], ptr %x, i64 %i
  %v = load <16 x float>, ptr %at, align 4
  %m = fmul contract <16 x float> %v, %as
  %s = fadd contract <16 x float> %m, splat (float 5.000000e-01)
  store <16 x float> %s, ptr %at, align 4
  %next = add nuw nsw i64 %i, 16
  %more = icmp sle i64 %next, %whole
  br i1 %more, label %vector, label %rest
rest:
  %t = phi i64 [ %begin, %entry ], [ %next, %vector ]
  %some = icmp slt i64 %t, %end
  br i1 %some, label %masked, label %done
masked:
  %left = sub nsw i64 %end, %t
  %few = trunc i64 %left to i32
  %few1 = insertelement <16 x i32> poison, i32 %few, i32 0
  %fews = shufflevector <16 x i32> %few1, <16 x i32> poison, <16 x i32> zeroinitializer
  %mask = icmp slt <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11,
    i32 12, i32 13, i32 14, i32 15>, %fews
  %rat = getelementptr [4 x i8], ptr %x, i64 %t
  %r = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %rat, i32 4, <16 x i1> %mask, <16 x float> zeroinitializer)
  %rm = fmul contract <16 x float> %r, %as
  %rs = fadd contract <16 x float> %rm, splat (float 5.000000e-01)
  call void @llvm.masked.store.v16f32.p0(<16 x float> %rs, ptr %rat, i32 4, <16 x i1> %mask)
  br label %done
done:
  ret void
}
)";

// Compiles a sample, so that LLVM has made what it keeps for all kernels.
void warm_up() {
    const Host host = find_host();
    const auto has = [&](const char* feature) { return host.features.find(feature) != std::string::npos; };
    const char* bits = has("+avx512f,") ? "512" : has("+avx,") ? "256" : "128";
    const std::string text = std::string(kSample) + "attributes #0 = { \"prefer-vector-width\"=\"" + bits + "\" }\n";
    compile({host.triple.c_str(), host.name.c_str(), host.features.c_str(), text.c_str(), 0, false, false});
}

// Waits until the library is open; false with an exception set if it can't be used.
bool require_open() {
    Py_BEGIN_ALLOW_THREADS;
    wait_for_preload();
    Py_END_ALLOW_THREADS;
    if (!is_open)
        PyErr_SetString(PyExc_RuntimeError, "llvmlite's library can't be loaded, or lacks functions of its version");
    return is_open;
}

PyObject* llvm_host(PyObject*, PyObject*) {
    if (!require_open()) return nullptr;
    const Host host = find_host();
    return Py_BuildValue("sss", host.name.c_str(), host.features.c_str(), host.triple.c_str());
}

PyObject* llvm_object(PyObject*, PyObject* args) {
    Job job = {};
    int vectorize = 0, unroll = 0;
    if (!PyArg_ParseTuple(args, "ssssipp:llvm_object", &job.triple, &job.cpu, &job.features, &job.text, &job.level,
                          &vectorize, &unroll) ||
        !require_open()) {
        return nullptr;
    }
    job.vectorize = vectorize != 0;
    job.unroll = unroll != 0;
    Result result;
    Py_BEGIN_ALLOW_THREADS;
    result = compile(job);
    Py_END_ALLOW_THREADS;
    if (result.invalid) return PyUnicode_DecodeUTF8(result.error.data(), result.error.size(), "replace");
    if (result.object.empty()) {
        PyErr_SetString(PyExc_RuntimeError, result.error.c_str());
        return nullptr;
    }
    return PyBytes_FromStringAndSize(result.object.data(), static_cast<Py_ssize_t>(result.object.size()));
}

PyMethodDef functions[] = {
    {"llvm_host", llvm_host, METH_NOARGS,
     "llvm_host($module, /)\n--\n\nReturn the names of the processor, of its features, and of the process's triple."},
    {"llvm_object", llvm_object, METH_VARARGS,
     "llvm_object($module, triple, cpu, features, text, level, vectorize, unroll, /)\n--\n\nCompile LLVM IR."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void open_llvm(void* library) {
    bool found = library != nullptr;
#define WL_FIND(result, name, parameters)                       \
    if (found) {                                                \
        void* at = find_in(library, "LLVMPY_" #name);           \
        llvm.name = reinterpret_cast<result(*) parameters>(at); \
        found = at != nullptr;                                  \
    }
    WL_LLVM_FUNCTIONS(WL_FIND)
#undef WL_FIND
    if (!found) return;
    llvm.InitializeNativeTarget();
    llvm.InitializeNativeAsmPrinter();
    warm_up();
    is_open = true;
}

bool register_llvm(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
