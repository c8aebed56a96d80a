"""Functions with many loops are cut into pieces; they compute what they did whole."""

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define
from warp_like.backend.llvm import pieces
from warp_like.backend.llvm.register_types import UnknownType, type_of


@pytest.fixture
def cut_everywhere(monkeypatch):
    """Let each loop be a piece, in lanes."""
    monkeypatch.setattr(pieces, "MOST_TOGETHER", 0)
    monkeypatch.setattr(pieces, "LOOPS", 1)
    wp.config.vector_width = 8
    yield
    del wp.config.vector_width


@wp.kernel(module="unique")
def walks(x: wp.array(dtype=float), n: wp.array(dtype=int), total: wp.array(dtype=int), y: wp.array2d(dtype=float)):
    i = wp.tid()
    own = wp.zeros(shape=(4,), dtype=float)
    a = x[i]
    steps = n.shape[0] * 0
    for j in range(4):
        own[j] = a + float(j)
    if n[i] == 3:
        return
    for j in range(n[i]):
        for k in range(2):
            a = a + own[(j + k) % 4]
            steps += 1
        if a > 60.0:
            break
        while a > 40.0:
            a = a - 8.0
            steps += 1
    for j in range(n.shape[0]):
        if n[j] == i:
            steps += j
    y[0, i] = a
    y[1, i] = own[n[i] % 4] + float(steps)
    wp.atomic_add(total, 0, steps)


def walked(x, n):
    """The results of ``walks``, one thread after the other."""
    total, y = 0, np.zeros((2, len(x)), np.float32)
    for i, a in enumerate(x.tolist()):
        own, steps = [a + j for j in range(4)], 0
        if n[i] == 3:
            continue
        for j in range(n[i]):
            a += own[j % 4] + own[(j + 1) % 4]
            steps += 2
            if a > 60.0:
                break
            while a > 40.0:
                a -= 8.0
                steps += 1
        steps += sum(j for j in range(len(n)) if n[j] == i)
        y[:, i] = a, own[n[i] % 4] + steps
        total += steps
    return total, y


@pytest.mark.parametrize("size", [0, 1, 8, 45])
def test_values_go_from_piece_to_piece(cut_everywhere, size):
    rng = np.random.default_rng(size)
    x, n = rng.integers(0, 9, size).astype(np.float32), rng.integers(0, 9, size).astype(np.int32)
    total, y = np.zeros(1, np.int32), np.zeros((2, size), np.float32)
    wp.launch(walks, dim=size, inputs=[x, n, total, y])
    expected, rows = walked(x, n)
    assert total[0] == expected
    np.testing.assert_array_equal(y, rows)
    text = walks.inspect("llvm", [x, n, total, y])
    assert text.count("= call fastcc") >= 5
    assert ";piece" not in text


def test_gradients_of_pieces(cut_everywhere):
    @wp.kernel(module="unique")
    def powers(x: wp.array(dtype=wp.float64), n: wp.array(dtype=int), y: wp.array(dtype=wp.float64)):
        i = wp.tid()
        a = x[i]
        for _ in range(n[i]):
            a = a * a
        for _ in range(2):
            a = wp.sin(a)
        y[i] = a

    x = wp.array(np.linspace(0.2, 1.1, 19), dtype=wp.float64, requires_grad=True)
    n, y = wp.array(np.arange(19) % 3, dtype=int), wp.zeros(19, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(powers, dim=19, inputs=[x, n], outputs=[y])
    tape.backward(grads={y: wp.ones(19, dtype=wp.float64)})
    e = 2.0 ** n.numpy()
    p = x.numpy() ** e
    np.testing.assert_allclose(y.numpy(), np.sin(np.sin(p)), rtol=1e-12)
    expected = np.cos(np.sin(p)) * np.cos(p) * e * x.numpy() ** (e - 1.0)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)


def test_a_kernel_of_many_loops_runs_in_lanes_and_in_pieces():
    loops = "".join(f"    for j in range(m):\n        a = a + x[j] * {k}\n" for k in range(pieces.MOST_TOGETHER + 4))
    kernel = define(
        "@wp.kernel\n"
        "def many(x: wp.array(dtype=wp.int32), m: int, y: wp.array(dtype=wp.int32)):\n"
        "    i = wp.tid()\n    a = x[i]\n" + loops + "    y[i] = a\n"
    )["many"]
    x, y = np.arange(37, dtype=np.int32), np.zeros(37, np.int32)
    wp.launch(kernel, dim=37, inputs=[x, 3, y])
    factor = sum(range(pieces.MOST_TOGETHER + 4))
    np.testing.assert_array_equal(y, x + 3 * factor)
    text = kernel.inspect("llvm", [x, 3, y])
    assert text.count("define internal fastcc") == (pieces.MOST_TOGETHER + 4) // pieces.LOOPS


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("add nuw nsw i64 %v1, 1", "i64"),
        ("fmul contract <16 x float> %v1, splat (float 0x3F847AE140000000)", "<16 x float>"),
        ("load atomic i32, ptr %v1 monotonic, align 4", "i32"),
        ("icmp slt <16 x i32> <i32 0, i32 1>, %v2", "<16 x i1>"),
        ("fcmp uno double %v1, %v1", "i1"),
        ("select <4 x i1> %v1, <4 x ptr> %v2, <4 x ptr> %v3", "<4 x ptr>"),
        ("getelementptr inbounds i8, ptr %v1, i64 8", "ptr"),
        ("getelementptr [4 x i8], ptr %v1, <8 x i64> %v2", "<8 x ptr>"),
        ("shufflevector <4 x float> %v1, <4 x float> poison, <8 x i32> <i32 0, i32 1>", "<8 x float>"),
        ("extractelement <8 x double> %v1, i64 %v2", "double"),
        ("extractvalue {i32, {float, <4 x i1>}} %v1, 1, 1", "<4 x i1>"),
        ("cmpxchg ptr %v1, i32 %v2, i32 %v3 monotonic monotonic", "{i32, i1}"),
        ("atomicrmw fadd ptr %v1, float %v2 monotonic", "float"),
        ("trunc nuw i64 %v1 to i32", "i32"),
        ("call noalias align 64 ptr @wl_local_memory(ptr %ctx, i64 8) #1", "ptr"),
        ("tail call fastcc {float, i32} @f.0(float %v1) #1", "{float, i32}"),
    ],
)
def test_types_of_instructions(text, type):
    assert type_of(text) == type


@pytest.mark.parametrize("text", ["", "invoke i32 @f()", "call i32 (ptr, ...) @printf(ptr %v1)"])
def test_other_instructions_have_no_known_type(text):
    with pytest.raises(UnknownType):
        type_of(text)
