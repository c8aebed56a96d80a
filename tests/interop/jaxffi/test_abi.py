"""The handler's idea of XLA's structs is that of the header which JAX ships."""

import shutil
import subprocess

import pytest

jax = pytest.importorskip("jax")

from warp_like import _native  # noqa: E402


def test_offsets_are_those_of_the_header(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs a C compiler")
    layout = _native.xla_layout()
    prints = "\n".join(
        f'printf("%zu\\n", offsetof({name.partition(".")[0]}, {name.partition(".")[2]}));' for name in layout
    )
    source = tmp_path / "offsets.c"
    source.write_text(
        '#include <stdio.h>\n#include "xla/ffi/api/c_api.h"\n'
        "typedef struct XLA_FFI_Metadata_Extension XLA_FFI_Metadata_Extension_;\n"
        f"int main() {{\n{prints}\nreturn 0;\n}}\n"
    )
    program = tmp_path / "offsets"
    include = jax.ffi.include_dir()
    subprocess.run([compiler, f"-I{include}", str(source), "-o", str(program)], check=True)
    lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
    assert dict(zip(layout, map(int, lines), strict=True)) == layout
