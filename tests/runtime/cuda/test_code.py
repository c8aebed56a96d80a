"""Machine code or PTX: by the versions of assembler, device and driver, and by what the driver takes.

Assemblers here are scripts that say a version, and put a line into what they make.
"""

from __future__ import annotations

import pytest

import warp_like as wp
from warp_like.backend import libdevice
from warp_like.backend.nvptx import assemble
from warp_like.runtime.cuda import code
from warp_like.runtime.cuda.errors import CudaError

ASSEMBLER = """#!/bin/sh
if [ "$1" = --version ]; then
    echo "Cuda compilation tools, release {version}, V{version}.88"
    exit
fi
for argument in "$@"; do
    case "$argument" in --output-file=*) printf '\\177ELF wl_filled {version} %s' "$1" >"${{argument#*=}}" ;; esac
done
"""


@wp.kernel
def filled(x: wp.array(dtype=float)):
    x[wp.tid()] = 1.0


def forget():
    for cached in (libdevice.find_ptxas, libdevice.tool_version, code._target):
        cached.cache_clear()


@pytest.fixture
def assemblers(monkeypatch, tmp_path):
    """Make assemblers of some versions the only ones there are, best first."""

    def put(*versions):
        roots = []
        for version in versions:
            file = tmp_path / f"cuda-{version}" / "bin" / "ptxas"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(ASSEMBLER.format(version=version))
            file.chmod(0o755)
            roots.append(file.parent.parent)
        monkeypatch.setattr(libdevice, "_roots", lambda: iter(roots))
        forget()

    monkeypatch.setattr(libdevice.shutil, "which", lambda *_: None)
    monkeypatch.setattr(wp.config, "cache_kernels", False)
    yield put
    filled.forget_programs()
    monkeypatch.undo()
    forget()


def image_for(fake, driver=13000, capability=(9, 0)) -> bytes:
    """What the driver loads for the kernel."""
    fake.cuda_version = driver
    for device in fake.devices:
        device.attributes.update(zip(("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR"), capability, strict=True))
    x = wp.zeros(4, device="cuda:0")
    wp.launch(filled, dim=4, inputs=[x], device="cuda:0")
    image = list(fake.images.values())[-1]
    return image


@pytest.mark.parametrize(
    ("versions", "driver", "capability", "expected"),
    [
        (("12.4",), 12040, (9, 0), b"12.4 --gpu-name=sm_90"),
        (("12.9",), 12020, (9, 0), b"12.9 --gpu-name=sm_90"),  # the major version counts
        (("12.4",), 13000, (9, 0), b"12.4 --gpu-name=sm_90"),
        (("13.0", "12.4"), 12080, (9, 0), b"12.4 --gpu-name=sm_90"),
        (("12.4", "13.0"), 13000, (11, 0), b"13.0 --gpu-name=sm_110"),
        (("13.0",), 12080, (9, 0), b".target sm_90"),  # newer than the driver
        (("12.4",), 13000, (11, 0), b".target sm_110"),  # older than the device
        ((), 12080, (9, 0), b".target sm_90"),
    ],
)
def test_an_assembler_fits_device_and_driver(fake, assemblers, versions, driver, capability, expected):
    assemblers(*versions)
    image = image_for(fake, driver, capability)
    assert expected in image
    assert image.startswith(b"\x7fELF") == (b"gpu-name" in expected)


def test_refused_machine_code_is_tried_once_as_ptx(fake, assemblers):
    assemblers("13.0")
    fake.fail("cuModuleLoadDataEx", 200)
    image = image_for(fake)
    assert b".target sm_90" in image
    assert image.endswith(b"\0")
    assert fake.names("cuModuleLoadDataEx") == ["cuModuleLoadDataEx"] * 2
    filled.forget_programs()
    fake.forget()
    assert b".target sm_90" in image_for(fake)  # what comes later is PTX at once
    assert fake.names("cuModuleLoadDataEx") == ["cuModuleLoadDataEx"]


def test_versions_are_named_where_the_driver_takes_neither(fake, assemblers, tmp_path):
    assemblers("12.4")
    fake.fail("cuModuleLoadDataEx", 200, times=2)
    with pytest.raises(CudaError) as e:
        image_for(fake, 12040)
    assert e.value.code == 200
    assert (
        "PTX for cuda:0, an sm_90; the driver supports CUDA 12.4; the assembler is "
        f"{tmp_path}/cuda-12.4/bin/ptxas of CUDA 12.4" in str(e.value)
    )
    assert "made by a newer CUDA than the driver supports" in str(e.value)


def test_other_errors_are_not_tried_again(fake, assemblers):
    assemblers("13.0")
    fake.fail("cuModuleLoadDataEx", 222)
    with pytest.raises(CudaError, match="no assembler fits both, but there is .*ptxas of CUDA 13.0") as e:
        image_for(fake, 12080)
    assert e.value.code == 222
    assert fake.names("cuModuleLoadDataEx") == ["cuModuleLoadDataEx"]


def test_an_assembler_of_the_wrong_version_is_named(assemblers):
    assemblers("12.4")
    with pytest.raises(RuntimeError) as e:
        assemble("", "sm_110")
    assert str(e.value).startswith("assembling PTX for this device needs ptxas of CUDA 13.0 or later; there is ")
    assert "ptxas of CUDA 12.4; install the nvidia-cuda-nvcc package" in str(e.value)


def test_what_does_not_run_is_no_assembler(assemblers):
    assemblers("12.4")
    path = libdevice.find_ptxas()
    path.write_text("no program")
    path.chmod(0o644)
    forget()
    assert libdevice.find_ptxas((11, 8)) is None
    assert libdevice.tool_version(path) is None
