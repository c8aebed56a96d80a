"""``config.lineinfo``: compiled code knows the lines of Python that it comes from."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import warp_like as wp
from warp_like.backend import libdevice
from warp_like.backend.nvptx import assemble

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """\
import numpy as np
import warp_like as wp
wp.config.lineinfo = True

@wp.func
def square(x: float):
    y = x * x
    return wp.sqrt(y)

@wp.kernel
def compute(a: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    total = float(0.0)
    for k in range(100):
        total += square(a[(i + k) % a.shape[0]])
    b[i] = total

a, b = wp.ones(1000), wp.zeros(1000)
wp.launch(compute, 1000, [a, b])
print(b.numpy()[0], b.numpy()[999])
"""
LINES = {0, *range(5, 17)}  # 0: no line of the source


@wp.func
def offset(x: float):
    return x + 1.0


@wp.kernel(lineinfo=True)
def shifted(a: wp.array(dtype=float)):
    i = wp.tid()
    a[i] = offset(a[i]) * 2.0


FIRST = offset.overloads[0].source.pyfunc.__code__.co_firstlineno  # of the decorator of `offset`
RETURN, STORE = FIRST + 2, FIRST + 8


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture(autouse=True, scope="module")
def no_map_is_left():
    """Perf's map of this process, which it reads once the process has ended, goes with the tests."""
    yield
    _map(os.getpid()).unlink(missing_ok=True)


def _map(process):
    return Path(f"/tmp/perf-{process}.map")


def _run(*command, cwd=None, **more):
    """Run a program: what it says, and what perf could read of it."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(list(map(str, command)), env=env, cwd=cwd, text=True, **pipes)
    said = process.communicate()[0]
    path = _map(process.pid)
    names = path.read_text() if path.exists() else ""
    path.unlink(missing_ok=True)
    return said, names


def test_it_changes_no_result():
    a = wp.array([1.0, 2.0, 3.0], dtype=float)
    wp.launch(shifted, 3, [a])
    assert a.list() == [4.0, 6.0, 8.0]


def test_adjoints_have_lines_as_well():
    a, out = wp.array([1.0, 2.0], dtype=float, requires_grad=True), wp.zeros(2, requires_grad=True)

    @wp.kernel(lineinfo=True)
    def cubes(a: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = offset(a[i]) ** 3.0

    with wp.Tape() as tape:
        wp.launch(cubes, 2, [a, out])
    tape.backward(grads={out: wp.ones(2)})
    np.testing.assert_allclose(a.grad.numpy(), [12.0, 27.0], rtol=1e-6)


def test_instructions_name_their_line_and_the_call_that_they_were_inlined_at():
    text = shifted.inspect("llvm")
    assert (
        f'distinct !DISubprogram(name: "shifted", linkageName: "wl_shifted", scope: !0, file: !0, line: {STORE - 2}'
        in text
    )
    (scope,) = re.findall(r'(!\d+) = distinct !DISubprogram\(name: "offset"', text)
    inlined = re.findall(rf"!DILocation\(line: (\d+), column: \d+, scope: {scope}, inlinedAt: (!\d+)\)", text)
    assert {int(line) for line, _ in inlined} == {RETURN}
    assert f"{inlined[0][1]} = distinct !DILocation(line: {STORE}, column: " in text
    body = [line for line in text.splitlines() if line.startswith("  ") and " = phi " not in line]
    assert len(body) > 5
    assert all("!dbg" in line or " alloca " in line for line in body)


def test_without_it_code_has_no_debug_metadata():
    wp.config.lineinfo = False
    try:

        @wp.kernel
        def plain(a: wp.array(dtype=float)):
            a[wp.tid()] = 1.0

        assert "!dbg" not in plain.inspect("llvm")
        assert ".loc" not in plain.inspect("ptx", target="sm_80")
    finally:
        del wp.config.lineinfo


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_ptx_has_the_lines(arch):
    ptx = shifted.inspect("ptx", target=arch)
    files = dict(re.findall(r'^\s*\.file\s+(\d+) "(.*)"$', ptx, re.MULTILINE))
    own = {number for number, path in files.items() if path == __file__}
    lines = {int(line) for file, line in re.findall(r"\.loc\s+(\d+) (\d+) ", ptx) if file in own}
    assert {RETURN, STORE} <= lines
    if libdevice.find_ptxas() is not None:
        assert assemble(ptx, arch)[:4] == b"\x7fELF"


def test_a_kernel_that_moves_is_compiled_again(tmp_path):
    """Elsewhere in its file it has other lines, although its text is the same."""
    path = tmp_path / "program.py"
    for lines in ("", "\n" * 7):
        shown = "print(re.findall(r'DISubprogram.name: .compute.*?line: (.*?),', compute.inspect('llvm')))"
        path.write_text(PROGRAM.replace("import numpy as np", f"{lines}import re") + shown)
        said, _ = _run(sys.executable, path, WARP_LIKE_CACHE_DIR=str(tmp_path / "cache"))
        assert said.splitlines() == ["100.0 100.0", f"['{11 + len(lines)}']"]
    assert len(list((tmp_path / "cache").rglob("*"))) >= 4


@pytest.mark.skipif(not shutil.which("readelf"), reason="needs readelf")
def test_the_object_has_a_line_table(program, tmp_path):
    keep = """
from warp_like.backend import cpu
load = cpu.load
cpu.load = lambda data, *more: (open("kernel.o", "wb").write(data), load(data, *more))[1]
wp.launch(compute"""
    program.write_text(PROGRAM.replace("wp.launch(compute", keep.strip()))
    assert _run(sys.executable, program.name, cwd=tmp_path)[0] == "100.0 100.0\n"
    table, _ = _run("readelf", "--debug-dump=decodedline", tmp_path / "kernel.o")
    lines = {int(line) for line in re.findall(r"^program\.py\s+(\d+)\s+0x", table, re.MULTILINE)}
    assert {7, 8, 15, 16} <= lines <= LINES


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="perf is a tool of Linux")
def test_perf_finds_the_names_of_kernels(program):
    _, names = _run(sys.executable, program)
    entries = [entry.split() for entry in names.splitlines()]  # for each variant that was loaded
    assert "wl_compute" in {name for _, _, name in entries}
    for address, size, name in entries:
        assert name in ("wl_compute", "wl_saved_poll")
        assert int(address, 16) % 16 == 0
        assert 64 < int(size, 16) < 65536


@pytest.mark.skipif(not shutil.which("gdb"), reason="needs gdb")
def test_gdb_stops_at_a_line_of_a_kernel(program):
    program.write_text(PROGRAM.replace("a, b =", "import os\nprint('process', os.getpid())\na, b ="))
    commands = ["set breakpoint pending on", "set debuginfod enabled off", "break program.py:7", "run", "bt 3"]
    given = [part for command in [*commands, "kill"] for part in ("-ex", command)]
    said, _ = _run("gdb", "-batch", "-nx", *given, "--args", sys.executable, program)
    if "ptrace" in said and "not permitted" in said:
        pytest.skip("this process may not trace others")
    process = re.search(r"process (\d+)", said)
    if process is not None:
        _map(process[1]).unlink(missing_ok=True)
    assert re.search(r"#0 .*square \(\) at .*program\.py:7", said), said
    assert re.search(r"#1 .*compute \(\) at .*program\.py:15", said), said
    assert re.search(r"#2 .* in wl::", said), said
