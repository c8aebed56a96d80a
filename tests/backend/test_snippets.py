"""``wp.func_native``: types, results, gradients, replays, the cache, CUDA, and what is refused."""

from __future__ import annotations

import enum
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define
from tests.long_tail import crossed
from warp_like import _native
from warp_like.backend import nvrtc, snippets
from warp_like.backend.libdevice import find_ptxas
from warp_like.backend.nvptx import assemble
from warp_like.compiler.lookup import compile_kernel
from warp_like.compiler.signature import Signature
from warp_like.runtime.kernels.module import _modules

pytestmark = pytest.mark.skipif(snippets.host_compiler() is None, reason="there is no C++ compiler")
CUDA = pytest.mark.skipif(
    snippets.cuda_compiler() is None or find_ptxas() is None, reason="there is no nvcc or no ptxas"
)


@wp.func_native("return x * x;", adj_snippet="adj_x += 2.0f * x * adj_ret;")
def square(x: float) -> float: ...


@wp.func_native(
    "out[i] = a * x[i] + y[i];",
    adj_snippet="""
    wp::atomic_add(adj_x, i, a * adj_out[i]);
    adj_a += x[i] * adj_out[i];
    adj_y[i] += adj_out[i];
    adj_out[i] = 0.0;
    """,
    writes=["out"],
)
def axpy(
    a: wp.float64,
    x: wp.array(dtype=wp.float64),
    y: wp.array(dtype=wp.float64),
    out: wp.array(dtype=wp.float64),
    i: int,
): ...


@wp.func_native("return wp::atomic_add(counter, 0, 1);", replay_snippet="return taken[i];", writes=["counter"])
def take(counter: wp.array(dtype=int), taken: wp.array(dtype=int), i: int) -> int: ...


@wp.func_native("return x + y;")
def no_gradient(x: float, y: float) -> float: ...


@wp.kernel
def squares(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = square(x[i]) + 1.0


@wp.kernel
def axpys(a: wp.float64, x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    axpy(a, x, y, out, i)


@pytest.mark.parametrize("n", [0, 1, 1000])
def test_values_in_and_out(n):
    x = np.linspace(-3.0, 3.0, n, dtype=np.float32)
    out = np.zeros(n, np.float32)
    wp.launch(squares, n, inputs=[x, out])
    np.testing.assert_allclose(out, x * x + 1, rtol=1e-6)


def test_arrays_with_strides():
    x, y = np.arange(6.0).reshape(3, 2).T[1], np.ones(6)[::-2]
    out = np.zeros((3, 4))
    wp.launch(axpys, 3, inputs=[2.0, x, y, out[:, 3]])
    np.testing.assert_array_equal(out[:, 3], 2.0 * x + y)
    assert not out[:, :3].any()


SCALARS = [
    wp.bool,
    wp.int8,
    wp.uint8,
    wp.int16,
    wp.uint16,
    wp.int32,
    wp.uint32,
    wp.int64,
    wp.uint64,
    wp.float16,
    wp.bfloat16,
    wp.float32,
    wp.float64,
]


@pytest.mark.parametrize("dtype", crossed(SCALARS, every=2), ids=lambda t: t.__name__)
def test_every_scalar_as_argument_result_and_element(dtype):
    @wp.func_native("out(i) = x; return out(i);")
    def through(x: dtype, out: wp.array(dtype=dtype), i: int) -> dtype: ...

    @wp.kernel
    def k(x: wp.array(dtype=dtype), out: wp.array2d(dtype=dtype)):
        i = wp.tid()
        out[1, i] = through(x[i], out[0], i)

    x = wp.array([1, 0, 1], dtype=dtype)
    out = wp.zeros((2, 3), dtype=dtype)
    wp.launch(k, 3, inputs=[x, out])
    assert out.numpy().tolist() == [x.numpy().tolist()] * 2


def test_vectors_matrices_and_quaternions():
    @wp.func_native(
        """
        wp::vec_t<3, double> r = 2.0 * v + wp::vec_t<3, double>{0.0, 0.0, q.w};
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 3; ++j) r[j] += m(i, j);
        r[0] += wp::dot(v, v) + m[1][2] + t.p[1] + t.q.w;
        return r;
        """
    )
    def mix(
        v: wp.vec3d, m: wp.types.matrix((2, 3), wp.float64), q: wp.types.quaternion(wp.float64), t: wp.transformd
    ) -> wp.vec3d: ...

    mat23 = wp.types.matrix((2, 3), wp.float64)

    @wp.kernel
    def k(m: mat23, q: wp.quatd, t: wp.transformd, out: wp.array(dtype=wp.vec3d)):
        out[0] = mix(wp.vec3d(1.0, 2.0, 3.0), m, q, t)

    out = wp.zeros(1, dtype=wp.vec3d)
    transform = wp.transformd(wp.vec3d(0.0, 7.0, 0.0), wp.quatd(0.0, 0.0, 0.0, 9.0))
    wp.launch(k, 1, inputs=[mat23(1.0, 2.0, 3.0, 4.0, 5.0, 6.0), wp.quatd(0.0, 0.0, 0.0, 0.5), transform, out])
    assert out.numpy().tolist() == [[2 + 5 + 14 + 6 + 7 + 9, 4 + 7, 6 + 0.5 + 9]]


def test_shapes_flat_positions_and_addresses():
    @wp.func_native("out[0] = x[4]; out[1] = x.shape[1]; out[2] = *wp::address(x, 1, 0); out[3] = x.strides[0];")
    def look(x: wp.array2d(dtype=wp.int64), out: wp.array(dtype=wp.int64)): ...

    @wp.kernel
    def k(x: wp.array2d(dtype=wp.int64), out: wp.array(dtype=wp.int64)):
        look(x, out)

    x = np.arange(20).reshape(4, 5)[::2, ::2]
    out = np.zeros(4, np.int64)
    wp.launch(k, 1, inputs=[x, out])
    assert out.tolist() == [x.flat[4], 3, x[1, 0], 80]


def test_atomics_from_many_threads():
    @wp.func_native("wp::atomic_add(total, 0, x); wp::atomic_add(vectors, 0, wp::vec_t<2, float>{1.0f, 2.0f});")
    def add(x: wp.float64, total: wp.array(dtype=wp.float64), vectors: wp.array(dtype=wp.vec2)): ...

    @wp.kernel
    def k(total: wp.array(dtype=wp.float64), vectors: wp.array(dtype=wp.vec2)):
        add(wp.float64(0.5), total, vectors)

    total, vectors = np.zeros(1), wp.zeros(1, dtype=wp.vec2)
    wp.launch(k, 100_000, inputs=[total, vectors])
    assert total[0] == 50_000.0
    assert vectors.numpy().tolist() == [[100_000.0, 200_000.0]]


# --- gradients ---


def test_gradients_of_values_and_arrays():
    rng = np.random.default_rng(0)
    x, y = (wp.array(rng.normal(size=50), dtype=wp.float64, requires_grad=True) for _ in range(2))
    out = wp.zeros(50, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(axpys, 50, inputs=[3.0, x, y, out])
    seed = rng.normal(size=50)
    tape.backward(grads={out: wp.array(seed, dtype=wp.float64)})
    np.testing.assert_allclose(x.grad.numpy(), 3.0 * seed, rtol=1e-12)
    np.testing.assert_allclose(y.grad.numpy(), seed, rtol=1e-12)


def test_an_array_without_a_gradient_takes_none():
    x = wp.array([1.0, 2.0], dtype=wp.float64, requires_grad=True)
    y, out = wp.ones(2, dtype=wp.float64), wp.zeros(2, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(axpys, 2, inputs=[3.0, x, y, out])
    tape.backward(grads={out: wp.ones(2, dtype=wp.float64)})
    assert x.grad.numpy().tolist() == [3.0, 3.0]
    assert y.numpy().tolist() == [1.0, 1.0]  # the adjoints that nobody asked for went nowhere


def test_the_result_is_used_again_in_the_reverse_sweep():
    @wp.kernel
    def k(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        s = square(x[i])
        for _ in range(3):
            s = wp.sin(s) * s
        out[i] = s

    def value(x: np.ndarray) -> np.ndarray:
        s = x * x
        for _ in range(3):
            s = np.sin(s) * s
        return s

    at = np.array([0.7, 1.1, 1.3])
    x = wp.array(at, dtype=float, requires_grad=True)
    out = wp.zeros(3, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(k, 3, inputs=[x, out])
    tape.backward(grads={out: wp.ones(3, dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), (value(at + 1e-6) - value(at - 1e-6)) / 2e-6, rtol=1e-3)


def test_a_replay_stands_in_for_what_can_not_run_again():
    @wp.kernel
    def k(counter: wp.array(dtype=int), taken: wp.array(dtype=int), x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        slot = take(counter, taken, i)
        y[slot] = 2.0 * x[i]

    n = 10
    x = wp.array(np.arange(n), dtype=float, requires_grad=True)
    y = wp.zeros(n, dtype=float, requires_grad=True)
    counter = wp.zeros(1, dtype=int)
    wp.config.num_threads = 1  # threads take their slots in order, as the replay says
    try:
        with wp.Tape() as tape:
            wp.launch(k, n, inputs=[counter, wp.array(np.arange(n), dtype=int), x, y])
    finally:
        del wp.config.num_threads
    assert counter.numpy()[0] == n
    np.testing.assert_array_equal(y.numpy(), 2.0 * np.arange(n))
    tape.backward(grads={y: wp.array(np.arange(n), dtype=float)})
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * np.arange(n))
    assert counter.numpy()[0] == n


def test_gradients_that_are_not_there_are_refused():
    @wp.kernel
    def k(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = no_gradient(x[i], 1.0)

    x, out = wp.ones(2, dtype=float, requires_grad=True), wp.zeros(2, dtype=float, requires_grad=True)
    with pytest.raises(wp.WarpCodegenError, match="`no_gradient` is native code, which has no gradient of its own"):
        wp.launch(k, 2, inputs=[x], outputs=[out], adjoint=True, adj_inputs=[None], adj_outputs=[None])
    with pytest.raises(wp.WarpCodegenError, match="`no_gradient` is native code, which has no tangent"):
        wp.autograd.jvp(k, 2, [x], [out], tangents=[wp.ones(2, dtype=float)])


def test_an_overwritten_array_in_an_adjoint_is_refused():
    @wp.kernel
    def k(a: wp.array(dtype=wp.float64), x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
        i = wp.tid()
        axpy(a[i], x, x, out, i)
        x[i] = 0.0

    a, x, out = (wp.ones(2, dtype=wp.float64, requires_grad=True) for _ in range(3))
    with pytest.raises(wp.WarpCodegenError, match="the adj_snippet of `axpy` mentions `x`"):
        wp.launch(k, 2, inputs=[a, x], outputs=[out], adjoint=True, adj_inputs=[None, None], adj_outputs=[None])


# --- compiling ---

PROGRAM = """
import sys
import numpy as np
import warp_like as wp

@wp.func_native({snippet!r})
def f(x: float) -> float: ...

@wp.kernel
def k(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = f(x[i])

x = np.full(3, 4.0, np.float32)
wp.launch(k, 3, inputs=[x])
print(x[0], "llvmlite" in sys.modules)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64", reason="elsewhere LLVM's linker loads code"
)
def test_a_warm_start_needs_neither_the_compiler_nor_llvm(tmp_path):
    def run(snippet: str, **env: str) -> list[str]:
        path = tmp_path / "program.py"
        path.write_text(PROGRAM.format(snippet=snippet))
        env = {**os.environ, "WARP_LIKE_CACHE_DIR": str(tmp_path / "cache"), **env}
        done = subprocess.run([sys.executable, str(path)], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert run("return sqrtf(x);") == ["2.0", "True"]
    assert run("return sqrtf(x);", PATH="/nowhere", CXX="") == ["2.0", "False"]
    assert run("return x + 1.0f;") == ["5.0", "True"]


def test_the_native_loader_takes_the_joined_object():
    artifact = compile_kernel(squares.source, Signature(squares.types))
    assert _native.load_object(artifact.code.binary, dict(_native.symbols())).has(artifact.code.entry)


def test_static_data_is_kept():
    @wp.func_native("static int calls = 0; return ++calls;")
    def count() -> int: ...

    @wp.kernel
    def k(out: wp.array(dtype=int)):
        out[0] = count()

    out = np.zeros(1, np.int32)
    for expected in (1, 2, 3):
        wp.launch(k, 1, inputs=[out])
        assert out[0] == expected


@CUDA
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_ptx_assembles(arch):
    for kernel in (squares, axpys):
        text = kernel.inspect_ptx(target=arch)
        assert text.count(".version") == 1
        assert ".extern" not in text
        assert assemble(text, arch)


@pytest.fixture
def by_nvrtc(monkeypatch):
    """Snippets for CUDA are compiled by NVRTC."""
    if snippets.find_nvrtc() is None or find_ptxas() is None:
        pytest.skip("there is no NVRTC or no ptxas")
    monkeypatch.setattr(snippets, "cuda_compiler", lambda: None)
    snippets._cuda_compiled.cache_clear()
    yield
    snippets._cuda_compiled.cache_clear()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvrtc_in_place_of_nvcc(by_nvrtc, arch):
    for kernel in (squares, axpys):
        text = kernel.inspect_ptx(target=arch)
        assert text.count(".version") == 1
        assert ".extern" not in text
        assert assemble(text, arch)


def test_nvrtc_s_words_are_shown(by_nvrtc):
    @wp.func_native("return x + nonsense;")
    def f(x: int) -> int: ...

    @wp.kernel
    def k(x: wp.array(dtype=int)):
        x[0] = f(x[0])

    with pytest.raises(wp.WarpCodegenError) as caught:
        k.inspect_ptx()
    assert caught.value.reason.startswith("NVRTC refuses the native code of `f`:\nf(1): error: identifier")
    assert '"nonsense" is undefined' in caught.value.reason


def test_calls_of_nvrtc(monkeypatch):
    """What the compiler is asked, of a stand-in that answers as it does."""
    seen: list[Any] = []

    class Result(enum.Enum):
        NVRTC_SUCCESS = 0
        NVRTC_ERROR_COMPILATION = 6

    class Fake:
        nvrtcResult = Result
        status = Result.NVRTC_SUCCESS

        def nvrtcCreateProgram(self, *given):
            seen.append(given)
            return Result.NVRTC_SUCCESS, "program"

        def nvrtcCompileProgram(self, program, count, options):
            seen.append((program, count, options))
            return (self.status,)

        def nvrtcGetPTXSize(self, program):
            return Result.NVRTC_SUCCESS, 4

        nvrtcGetProgramLogSize = nvrtcGetPTXSize

        def nvrtcGetPTX(self, program, buffer):
            seen.append((program, buffer))
            return (Result.NVRTC_SUCCESS,)

        nvrtcGetProgramLog = nvrtcGetPTX

        def nvrtcDestroyProgram(self, program):
            seen.append(("destroyed", program))

    monkeypatch.setattr(nvrtc, "find_nvrtc", Fake)
    assert nvrtc.compile_with_nvrtc("text", "f", "sm_90a") == ""
    options = [b"--gpu-architecture=compute_90a", b"--relocatable-device-code=true", b"--std=c++17", b"-w"]
    assert seen == [
        (b"text", b"f", 0, [], []), ("program", 4, options), ("program", bytes(4)), ("destroyed", "program"),
    ]  # fmt: skip
    Fake.status = Result.NVRTC_ERROR_COMPILATION
    with pytest.raises(nvrtc.NvrtcError, match="^error NVRTC_ERROR_COMPILATION$"):
        nvrtc.compile_with_nvrtc("text", "f", "sm_90")
    assert seen[-1] == ("destroyed", "program")


@CUDA
def test_cuda_has_its_own_language():
    @wp.func_native("return __popc(x) + threadIdx.x;")
    def f(x: int) -> int: ...

    @wp.kernel
    def k(x: wp.array(dtype=int)):
        i = wp.tid()
        x[i] = f(x[i])

    assert "popc" in k.inspect_ptx()
    with pytest.raises(wp.WarpCodegenError, match="refuses the native code of `f`"):
        wp.launch(k, 1, inputs=[wp.zeros(1, dtype=int)])


def refusal(source: str) -> wp.WarpCodegenError:
    kernel = define(source)["k"]
    with pytest.raises(wp.WarpCodegenError) as caught:
        kernel.program(kernel.types).require(contiguous=True, wide=False)
    return caught.value


def test_the_compiler_s_words_are_shown():
    error = refusal(
        """
        @wp.func_native("int y = 1;\\nreturn x + nope;")
        def f(x: float) -> float: ...
        @wp.kernel
        def k(x: wp.array(dtype=float)):
            x[0] = f(x[0])
        """
    )
    assert "refuses the native code of `f`" in str(error)
    assert "f:2" in str(error)
    assert "nope" in str(error)
    assert "in kernel `k`" in str(error)
    assert "wl_native" not in str(error)


@pytest.mark.parametrize(
    ("stub", "message"),
    [
        ("def f(x: float) -> float:\n    return x", "the body of func_native `f` is its snippet"),
        (
            "def f(x: float) -> wp.array(dtype=float): ...",
            "the result of func_native `f` is a number, vector, matrix or struct",
        ),
        ("def f(x: float) -> wp.Float: ...", "of one type, got Float"),
    ],
)
def test_stubs_that_mean_nothing_are_refused(stub, message):
    source = f"@wp.func_native('return x;')\n{stub}\n@wp.kernel\ndef k(x: wp.array(dtype=float)):\n    f(x[0])\n"
    assert message in str(refusal(source))


def test_a_constant_array_is_not_written():
    error = refusal(
        """
        @wp.func_native("x[0] = 1.0f;", writes=[])
        def f(x: wp.array(dtype=float)): ...
        @wp.kernel
        def k(x: wp.array(dtype=float)):
            f(x)
        """
    )
    assert "refuses the native code of `f`" in str(error)


def test_arrays_that_are_not_written_may_be_read_only():
    x = np.broadcast_to(np.float64(2.0), 3)
    out = np.zeros(3)
    wp.launch(axpys, 3, inputs=[1.0, x, x, out])
    assert out.tolist() == [4.0] * 3


def test_other_mistakes():
    error = refusal(
        """
        @wp.func_native("", writes=["y"])
        def f(x: wp.array(dtype=float)): ...
        @wp.kernel
        def k(x: wp.array(dtype=float)):
            f(x)
        """
    )
    assert "func_native `f` has no array argument `y`" in str(error)
    error = refusal(
        """
        @wp.struct
        class S:
            a: wp.indexedarray(dtype=float)
        @wp.func_native("return s;")
        def f(s: S) -> float: ...
        @wp.kernel
        def k(s: S, x: wp.array(dtype=float)):
            x[0] = f(s)
        """
    )
    assert "argument `s` of func_native `f` is struct S, which native code can't take" in str(error)
    with pytest.raises(TypeError, match=r"func_native\(\): snippet is text, got int"):
        wp.func_native(3)
    with pytest.raises(TypeError, match=r"func_native\(\): adj_snippet is text, got list"):
        wp.func_native("", [])


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    source = """
        @wp.func_native("return x;")
        def f(x: float) -> float: ...
        @wp.kernel
        def k(x: wp.array(dtype=float)):
            x[0] = f(x[0]) + {n}
        """
    error = refusal(source.format(n=os.getpid()))  # in no cache
    assert "the native code of `f` needs a C++ compiler, and neither c++, g++ nor clang++ is on PATH" in str(error)
    assert "apt install g++" in str(error)
    monkeypatch.setattr(snippets, "find_nvrtc", lambda: None)
    with pytest.raises(wp.WarpCodegenError) as caught:
        define(source.format(n=1))["k"].inspect_ptx()
    assert caught.value.reason == (
        "the native code of `f` needs nvcc or NVRTC for CUDA: nvcc is neither on PATH nor under CUDA_HOME, and NVRTC "
        "was not found"
    )
    assert "pip install cuda-python nvidia-cuda-nvrtc" in str(caught.value)


def test_windows_has_no_compiler_for_them(monkeypatch):
    monkeypatch.setattr(snippets, "sys", SimpleNamespace(platform="win32"))
    error = refusal(f"""
        @wp.func_native("return x;")
        def f(x: float) -> float: ...
        @wp.kernel
        def k(x: wp.array(dtype=float)):
            x[0] = f(x[0]) + 1.0 + {os.getpid()}
        """)
    assert "the native code of `f` can't run on the CPU on Windows" in str(error)


def test_the_compiler_of_the_environment_comes_first(monkeypatch):
    monkeypatch.setenv("CXX", "g++ -DX")
    found = snippets.host_compiler()
    if found is not None and found[0] == "g++":
        assert found == ("g++", "-DX")
    monkeypatch.setenv("CXX", "/nowhere/cxx")
    assert snippets.host_compiler() in (("c++",), ("g++",), ("clang++",))


def test_on_the_host_it_is_refused():
    with pytest.raises(TypeError, match=r"square\(\) is native code, which is called from kernel code alone"):
        square(2.0)


def test_mapped_over_arrays():
    got = wp.map(square, wp.array([1.0, 2.0, 3.0], dtype=float))
    assert got.numpy().tolist() == [1.0, 4.0, 9.0]


def test_in_an_ahead_of_time_module(tmp_path, monkeypatch):
    source = """
        @wp.func_native("return x * 3.0f;")
        def f(x: float) -> float: ...
        @wp.kernel
        def k(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = f(x[i])
        """
    define(source, __name__="native.ahead")
    wp.compile_aot_module("native.ahead", module_dir=tmp_path)
    module = wp.get_module(define(source, __name__="native.ahead")["__name__"])
    wp.load_aot_module(module, module_dir=tmp_path)
    monkeypatch.setattr("warp_like.runtime.kernels.kernel.compile_kernel", None)
    x = np.ones(4, np.float32)
    wp.launch(module.kernels["k"], 4, inputs=[x])
    assert x.tolist() == [3.0] * 4
    monkeypatch.undo()
    define(source, __name__="native.alone")
    wp.compile_aot_module("native.alone", module_dir=tmp_path)
    monkeypatch.delitem(_modules, "native.alone")  # as in a process that does not declare it
    alone = wp.load_aot_module("native.alone", module_dir=tmp_path).kernels["k"]
    x = wp.ones(4, dtype=float, requires_grad=True)
    with pytest.raises(wp.WarpCodegenError, match="loaded from .* without its source") as caught:
        wp.launch(alone, 4, inputs=[x], adjoint=True, adj_inputs=[None])
    assert "its gradient was refused when it was compiled: `f` is native code" in str(caught.value)
