"""The public packages: which ones, in which versions, and where they are installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "public"
"""Where the packages are, without the environment's own and without Warp."""

WARP_FOLDER = ROOT / "build" / "public-warp"
"""Where Warp is, for processes that run the same program with it."""

WARP = ("warp-lang==1.19.0",)

PACKAGES = ("warp_nn", "mujoco_warp", "newton")
"""What is imported; smallest first."""

PINNED = (
    *("warp-nn==0.4.1", "mujoco_warp==4.0.0", "newton==1.8.0"),
    # what mujoco_warp needs; pip is told of no dependencies, since Warp is one of them
    *("mujoco==4.0.0", "mujoco-core==4.0.0", "absl-py==2.5.1", "etils==1.15.0", "glfw==2.11.0", "pyopengl==3.1.10"),
    "importlib_resources==7.1.0",
    "usd-core==26.11",  # scenes of Warp's examples
    "xlb==0.3.1",
    "nvalchemi-toolkit-ops==0.5.0",
)


def install() -> None:
    """Install what is missing. What is in place touches no network."""
    for folder, wanted in ((FOLDER, PINNED), (WARP_FOLDER, WARP)):
        record = folder / "installed.txt"
        text = "\n".join(wanted)
        if record.exists() and record.read_text() == text:
            continue
        print(f"Installing into {folder} (once): {', '.join(wanted)}", flush=True)
        options = [*os.environ.get("PIP_FLAGS", "").split(), "--no-deps", "--upgrade", "--target", str(folder)]
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", *options, *wanted], check=True)
        record.write_text(text)
