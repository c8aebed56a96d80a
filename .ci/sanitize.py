"""Run tests with the native extension built under sanitizers: ``sanitize.py [address] [thread]``; both by default.

It prints how long each kind took, and the processor time, which says more on a machine that others use.

``address`` builds it with the address and the undefined-behaviour sanitizer, and runs the tests whose code is native.
``thread`` builds it with the thread sanitizer, and runs ``threads_program.py``. All of it goes to ``build/sanitize``: a
copy of the sources with an extension of its own, so that the checkout keeps the one that it has. A finding ends the
process that had it, which is a failed test.

Only the extension is instrumented: kernels, Python and other libraries are not. The sanitizers still see the calls of
those for memory and locks.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "sanitize"
COPIED = ["warp_like", "tests", "examples", "exts", "docs", "native", ".ci"]
FLAGS = {
    "address": "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer",
    "thread": "-fsanitize=thread -fno-omit-frame-pointer",
}
RUNTIMES = {"address": ["libasan.so", "libubsan.so"], "thread": ["libtsan.so"]}
# Paddle finds libraries of its own by the place of the library that asks, which the address sanitizer hides.
TESTS = ["tests/native", "tests/runtime", "tests/interop", "-k", "not paddle"]
SECONDS = 120
"""How long the program of threads runs."""

OPTIONS = {
    # Leaks: the interpreter and its modules end without giving back most of what they hold, so that the report says
    # nothing of us; tests/native/test_memory.py and `make soak` look for leaks. Allocations too large for any machine
    # are expected to fail.
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:abort_on_error=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:abort_on_error=1",
    # Forks from a process with threads are what is tested.
    "TSAN_OPTIONS": "die_after_fork=0:exitcode=66:history_size=7",
}


def copy_sources(tree: Path) -> None:
    """Make a fresh copy of what the tests read."""
    shutil.rmtree(tree, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.png", "build")
    for name in COPIED:
        shutil.copytree(ROOT / name, tree / name, ignore=ignored)
    for file in ROOT.glob("*"):
        if file.is_file():
            shutil.copy2(file, tree)


def build(kind: str, tree: Path) -> None:
    """Build the extension into ``tree``; what has not changed is not built again."""
    folder = BUILD / kind / "cmake"
    configure = [
        "cmake",
        f"-S{ROOT}",
        f"-B{folder}",
        f"-DPython_EXECUTABLE={sys.executable}",
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g",
        f"-DCMAKE_CXX_FLAGS={FLAGS[kind]}",
        f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={tree / 'warp_like'}",
    ]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    for stale in (tree / "warp_like").glob("_native*.so"):  # of a copy that is not fresh, which CMake takes for built
        stale.unlink()
    command = ["cmake", "--build", str(folder), "--target", "_native", "--parallel", str(os.cpu_count())]
    subprocess.run(command, check=True)


def runtime(name: str) -> str:
    """Return the path of a library of the compiler's."""
    compiler = os.environ.get("CXX", "g++")
    found = subprocess.run([compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def environment(tree: Path) -> dict[str, str]:
    """Return the environment of the tests, without what loads the sanitizer."""
    return {**os.environ, **OPTIONS, "PYTHONPATH": str(tree)}


def preloading(kind: str) -> list[str]:
    """Return a command in front of Python, which is not instrumented, so that the sanitizer is loaded before it."""
    libraries = [runtime(name) for name in (*RUNTIMES[kind], "libstdc++.so")]
    # The thread sanitizer of older compilers can't live with addresses that are as random as new kernels make them.
    fixed = ["setarch", platform.machine(), "-R"] if kind == "thread" and shutil.which("setarch") else []
    return [*fixed, "env", f"LD_PRELOAD={':'.join(libraries)}"]


def processor_seconds() -> float:
    """Return the processor time of all processes that were started from here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(kind: str, jobs: int) -> bool:
    """Build and run one kind, and return whether it found nothing."""
    start, used, tree = time.monotonic(), processor_seconds(), BUILD / kind / "tree"
    copy_sources(tree)
    build(kind, tree)
    command = {
        "address": ["-m", "pytest", "-q", "-n", str(jobs), "-p", "no:cacheprovider", *TESTS],
        "thread": [".ci/threads_program.py", str(SECONDS)],
    }[kind]
    done = subprocess.run([*preloading(kind), sys.executable, *command], cwd=tree, env=environment(tree), check=False)
    seconds, used = time.monotonic() - start, processor_seconds() - used
    result = "found something" if done.returncode else "found nothing"
    print(f"{kind}: {result}, {seconds:.0f} s, {used:.0f} s of processor time", flush=True)
    return done.returncode == 0


def main() -> int:
    """Run the command line; return 1 if one kind found something."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="address, thread; both if none is named")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes run tests")
    options = parser.parse_args()
    if unknown := sorted(set(options.kinds) - set(FLAGS)):
        parser.error(f"there is no kind {', '.join(unknown)}; the kinds are {', '.join(FLAGS)}")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    clean = [run(kind, options.jobs) for kind in options.kinds or FLAGS]  # a finding does not end the run
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main())
