"""Exit with 0 where an NVIDIA GPU can be used; else say why not and exit with 1."""

from __future__ import annotations

import ctypes
import sys


def missing() -> str:
    """Return why no GPU can be used, or nothing."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError as e:
        return f"no CUDA driver ({e})"
    code = driver.cuInit(0)
    if code:
        return f"cuInit gave error {code}"
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    return "" if count.value else "the CUDA driver sees no device"


if __name__ == "__main__":
    reason = missing()
    if reason:
        print(f"skipped: {reason}")
    sys.exit(bool(reason))
