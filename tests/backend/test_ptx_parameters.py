"""Kernels with more parameters than old versions of PTX take."""

from __future__ import annotations

import re

import pytest

import warp_like as wp
from tests.backend.test_ptx import needs_ptxas
from warp_like.backend.nvptx import _parameter_bytes, assemble

MODULE = """import warp_like as wp


@wp.kernel
def numbers({numbers}, {arrays}):
    i = wp.tid()
    a0[i] = {sum_of_numbers}


@wp.kernel
def fields({fields}):
    i, j, k, l = wp.tid()
    a0[i, j, k, l] = {sum_of_fields}


@wp.kernel
def product({factors}):
    i, j, k, l = wp.tid()
    a0[i, j, k, l] = {product}


@wp.kernel
def too_many({too_many}):
    a0[0, 0, 0, 0] = 1.0
"""


def listed(count: int, t: str, first: str = "a") -> str:
    return ", ".join(f"{first}{i}: {t}" for i in range(count))


def elements(count: int, operator: str) -> str:
    return operator.join(f"a{i}[i, j, k, l]" for i in range(1, count))


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    array, small = "wp.array4d(dtype=float)", "wp.array(dtype=float)"
    parts = {
        "numbers": listed(400, "float", "x"),
        "arrays": listed(100, small),
        "sum_of_numbers": " + ".join([f"x{i}" for i in range(400)] + [f"a{i}[i]" for i in range(1, 100)]),
        "fields": listed(60, array),
        "sum_of_fields": elements(60, " + "),
        "factors": listed(30, array),
        "product": elements(30, " * "),
        "too_many": listed(460, array),
    }
    folder = tmp_path_factory.mktemp("parameters")
    (folder / "kernels_with_many_parameters.py").write_text(MODULE.format(**parts))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        import kernels_with_many_parameters

        yield kernels_with_many_parameters


def version(ptx: str) -> tuple[int, ...]:
    (found,) = re.findall(r"^\.version (\d+)\.(\d+)$", ptx, re.MULTILINE)
    return tuple(map(int, found))


@needs_ptxas
@pytest.mark.parametrize(("name", "wrt"), [("numbers", None), ("fields", None), ("product", 30)])
def test_entries_with_many_parameters_are_assembled(kernels, name, wrt):
    kernel = getattr(kernels, name)
    names = None if wrt is None else [f"a{i}" for i in range(wrt)]
    for arch in ("sm_80", "sm_90"):
        ptx = kernel.inspect("ptx", target=arch, wrt=names)
        assert version(ptx) == (8, 1)
        assert assemble(ptx, arch)[:4] == b"\x7fELF"


def test_others_keep_the_version_that_older_drivers_know(kernels):
    for arch in ("sm_80", "sm_90"):
        assert version(kernels.product.inspect_ptx(target=arch)) < (8, 0)


def test_a_newer_version_is_kept(kernels):
    assert version(kernels.fields.inspect_ptx(target="sm_100")) > (8, 1)


def test_more_than_fits_is_refused(kernels):
    with pytest.raises(wp.WarpCodegenError) as e:
        kernels.too_many.inspect_ptx(target="sm_90")
    assert re.match(r"kernel `too_many` has \d+ bytes of arguments; CUDA takes 32764\n", str(e.value))
    assert "pass some of the arguments in an array" in str(e.value)


def test_bytes_of_parameters():
    listed = "\n\t.param .align 8 .b8 k_param_0[2160],\n\t.param .u64 k_param_1,\n\t.param .u64 .ptr .global .align 1 k"
    assert _parameter_bytes(listed) == 2160 + 16
    assert _parameter_bytes("\n") == 0
