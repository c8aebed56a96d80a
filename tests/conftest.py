"""Options of the test suite, and the comparison with golden files."""

from __future__ import annotations

import difflib
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")
    parser.addoption(
        "--for-cuda",
        action="store_true",
        help="compile every kernel that a test compiles for sm_80 and sm_90, too, and assemble it",
    )
    parser.addoption("--long", action="store_true", help="run the long tail of tests, and it alone")
    parser.addoption("--seconds", type=float, help="skip tests that have not begun after so many seconds")
    parser.addoption(
        "--device",
        default="cpu",
        help="let what tests launch on the CPU run on this CUDA device as well, whose results count; or `emulated`",
    )


# Before anything imports the package; tests' processes inherit it.
os.environ.setdefault("WARP_LIKE_VERIFY", "1" if "--long" in sys.argv else "stages")
# How well XLA optimises what it compiles itself is no concern of the tests, and takes it most of its time.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

_began = time.monotonic()


def pytest_runtest_setup(item: pytest.Item) -> None:
    limit = item.config.getoption("--seconds")
    if limit is not None and time.monotonic() - _began > limit:
        pytest.skip(f"the {limit:g} seconds are used up")


@pytest.fixture(autouse=True)
def _on_device(request: pytest.FixtureRequest) -> Iterator[None]:
    name = request.config.getoption("--device")
    if name == "cpu" or "fake" in request.fixturenames or "device" in request.fixturenames:
        yield
        return
    only = request.node.get_closest_marker("on_cpu")
    if only is not None:
        pytest.skip(f"holds on the CPU alone: {only.args[0]}")
    from tests.on_device import on_device

    with on_device(name):
        yield


@pytest.fixture(scope="module")
def each_pass_is_verified() -> Iterator[None]:
    """Verify after each pass, here and in processes that start: for tests of passes, and of programs nobody wrote."""
    from warp_like.base.settings import settings

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARP_LIKE_VERIFY", "1")
        patch.setattr(settings, "verify", True)
        yield


@pytest.fixture(scope="session", autouse=True)
def _emulated(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.config.getoption("--device") != "emulated":
        yield
        return
    from tests.runtime.cuda.emulated import EmulatedDriver, emulated_code
    from warp_like.runtime.cuda.driver import install

    with emulated_code():
        install(EmulatedDriver())
        yield


@pytest.fixture(scope="session", autouse=True)
def _for_cuda(request: pytest.FixtureRequest) -> Iterator[None]:
    if not request.config.getoption("--for-cuda"):
        yield
        return
    from tests.cuda_compiling import also_for_cuda

    with also_for_cuda():
        yield


def _begins_for_cuda(config: pytest.Config) -> bool:
    """Whether this process is the one that a run ``--for-cuda`` begins in."""
    return bool(config.getoption("--for-cuda")) and not hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    # How long an example takes says how busy the machine is.
    settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    # The suite must say the same of a tree each time; `--long` looks at programs that nobody has seen.
    settings.register_profile("fixed", settings.get_profile("patient"), derandomize=True, database=None)
    settings.load_profile("patient" if config.getoption("--long") else "fixed")
    if _begins_for_cuda(config):
        from tests.cuda_compiling import begin

        begin()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Keep the collector away while tests are collected: modules, PyTorch's among them, and 20,000 tests all stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keep the collector away from what stays to the end: 18,000 tests and the modules that they are in."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _what_stays_is_not_collected() -> None:
    """Keep the collector away from what earlier modules left: tests collect often, to see what is released."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if _begins_for_cuda(config):
        from tests.cuda_compiling import end

        terminalreporter.write_line(end())


def _is_in_suite(item: pytest.Item) -> bool:
    return item.get_closest_marker("long") is None


def _is_in_long_tail(item: pytest.Item) -> bool:
    """Return whether ``item`` belongs to the long tail: by its mark, or since more is drawn there."""
    return any(item.get_closest_marker(name) is not None for name in ("long", "more", "hypothesis"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the long tail, or all else with ``--long``; skip what needs a GPU where there is none."""
    left_out = [item for item in items if not (_is_in_long_tail if config.getoption("--long") else _is_in_suite)(item)]
    if left_out:
        dropped = set(left_out)
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in dropped]
    marked = [item for item in items if item.get_closest_marker("cuda")]
    if not marked:
        return
    import warp_like as wp

    try:
        wp.get_device("cuda:0")
    except RuntimeError as e:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=str(e)))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with the file ``golden/NAME.txt`` beside the test; ``--update-golden`` writes it."""
    folder = Path(str(request.path)).parent / "golden"
    update = request.config.getoption("--update-golden")

    def check(name: str, text: str) -> None:
        file = folder / f"{name}.txt"
        if update:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return
        if not file.exists():
            pytest.fail(f"{file} does not exist; run pytest with --update-golden and read what it wrote")
        expected = file.read_text(encoding="utf-8")
        if text != expected:
            diff = difflib.unified_diff(expected.splitlines(), text.splitlines(), "golden", "now", lineterm="")
            pytest.fail(f"{file.name} differs (--update-golden accepts the change):\n" + "\n".join(diff))

    return check
