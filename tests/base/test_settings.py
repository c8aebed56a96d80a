"""The settings table."""

import os
import subprocess
import sys

import pytest

import warp_like as wp
from warp_like.base.settings import ACCEPTED, SETTINGS, Settings


def test_defaults_pass_their_own_checks():
    fresh = Settings()
    for s in (*SETTINGS, *ACCEPTED):
        if s.is_for("process"):
            setattr(fresh, s.name, s.default)
        assert s.doc.endswith(".")


def test_an_unknown_setting_names_the_nearest():
    with pytest.raises(AttributeError, match="no setting `fastmath`; did you mean `fast_math`"):
        wp.config.fastmath = True
    with pytest.raises(AttributeError, match="no setting `fastmath`"):
        _ = wp.config.fastmath


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("fast_math", 1, TypeError),
        ("mode", "quick", ValueError),
        ("num_threads", -1, ValueError),
        ("launch_timeout", -0.5, ValueError),
        ("launch_timeout", float("nan"), ValueError),
        ("launch_timeout", "1", TypeError),
        ("max_unroll", "4", TypeError),
        ("enable_cpu_blocks", 1, TypeError),
        ("launch_array_access_mode", 1, TypeError),
        ("deterministic", 1, TypeError),
        ("version", "2", AttributeError),
    ],
)
def test_bad_values(name, value, error):
    before = getattr(wp.config, name)
    with pytest.raises(error, match=name):
        setattr(wp.config, name, value)
    assert getattr(wp.config, name) == before


def test_an_environment_variable_that_is_misspelt_is_refused(monkeypatch):
    monkeypatch.setenv("WARP_LIKE_OF_SOMEBODY_ELSE", "1")
    Settings()
    monkeypatch.setenv("WARP_LIKE_FASTMATH", "1")
    message = "^there is no environment variable WARP_LIKE_FASTMATH; did you mean WARP_LIKE_FAST_MATH?"
    with pytest.raises(ValueError, match=message):
        Settings()


def test_listeners_hear_changes_alone():
    fresh, heard = Settings(), []
    fresh.on_change(lambda s: heard.append(s.name))
    fresh.max_unroll = 8
    fresh.max_unroll = 8
    assert heard == ["max_unroll"]


@pytest.mark.parametrize(("text", "code"), [("8", 0), ("eight", 1)])
def test_environment(text, code):
    program = "import warp_like as wp; print(wp.config.max_unroll)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "WARP_LIKE_MAX_UNROLL": text},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code
    assert done.stdout.strip() == text if code == 0 else "WARP_LIKE_MAX_UNROLL" in done.stderr


def test_names_of_warp_are_kept_and_compile_nothing_anew():
    fresh, heard = Settings(), []
    fresh.on_change(lambda s: heard.append(s.compiles))
    fresh.cpu_compiler_flags = "-march=native"
    fresh.launch_array_access_mode = fresh.LaunchArrayAccessMode.STRICT
    assert fresh.cpu_compiler_flags == "-march=native"
    assert heard == [False, False]


def test_deterministic_takes_a_mode():
    fresh = Settings()
    assert fresh.deterministic == wp.DeterministicMode.NOT_GUARANTEED
    fresh.deterministic = wp.DeterministicMode.RUN_TO_RUN
    assert fresh.deterministic is fresh.DeterministicMode.RUN_TO_RUN


def test_the_settings_can_be_imported_as_a_module():
    program = "import warp_like.config as c, warp_like as wp; assert c is wp.config; print(c.version)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == wp.__version__
