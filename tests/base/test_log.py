"""The logger: levels, replacing it, and what goes where by default."""

import logging
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from warp_like.base import log


class Collector:
    """A logger that keeps what it gets."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []

    def debug(self, message: str) -> None:
        self.lines.append(("debug", message))

    def info(self, message: str) -> None:
        self.lines.append(("info", message))

    def warning(self, message: str, category: Any = None, stacklevel: int = 1) -> None:
        self.lines.append(("warning", message, category))

    def error(self, message: str) -> None:
        self.lines.append(("error", message))


@pytest.fixture
def collector():
    made = Collector()
    with wp.ScopedLogger(made):
        yield made


def say_all() -> None:
    log.debug("d")
    log.info("i")
    log.warning("w")
    log.error("e")


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({}, "we"),
        ({"log_level": wp.LOG_DEBUG}, "diwe"),
        ({"log_level": wp.LOG_INFO}, "iwe"),
        ({"log_level": wp.LOG_ERROR}, "e"),
        ({"log_level": wp.LOG_ERROR + 10}, "e"),
        ({"log_level": 15}, "iwe"),
        ({"verbose": True}, "iwe"),
        ({"quiet": True, "verbose": True}, "e"),
    ],
)
def test_levels(collector: Collector, settings: dict[str, Any], shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings.items():
        monkeypatch.setattr(wp.config, name, value)
    say_all()
    assert "".join(line[1] for line in collector.lines) == shown


def test_scoped_level() -> None:
    with wp.ScopedLogLevel(wp.LOG_DEBUG):
        assert wp.config.log_level == wp.LOG_DEBUG
    assert wp.config.log_level == wp.LOG_WARNING


def test_loggers_are_replaced_and_come_back() -> None:
    first, mine = wp.get_logger(), Collector()
    wp.set_logger(mine)
    with wp.ScopedLogger(None):
        assert wp.get_logger() is first
    assert wp.get_logger() is mine
    wp.set_logger(None)
    assert wp.get_logger() is first
    assert isinstance(mine, wp.Logger)
    with pytest.raises(TypeError, match="^a logger has the methods debug, info, warning and error, got int$"):
        wp.set_logger(3)


def test_warnings_with_a_category_keep_it(collector: Collector) -> None:
    log.warning("old", DeprecationWarning)
    assert collector.lines == [("warning", "old", DeprecationWarning)]


def test_the_default_warns_through_python() -> None:
    with pytest.warns(DeprecationWarning, match="old"):
        log.warning("old", DeprecationWarning)


def test_the_default_uses_logging_where_it_is_configured(caplog: pytest.LogCaptureFixture) -> None:
    log.warning("to logging")
    assert [(r.name, r.levelno, r.getMessage()) for r in caplog.records] == [("warp_like", 30, "to logging")]


def test_the_default_writes_to_stderr_otherwise(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("warp_like"), "propagate", False)
    log.warning("100 % plain")
    assert capsys.readouterr().err == "warp_like: 100 % plain\n"


def test_verbose_tells_of_compiling_and_loading(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(wp.config, "verbose", True)
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))

    def make() -> Any:
        @wp.kernel
        def told(x: wp.array(dtype=float)):
            x[wp.tid()] = 41.0

        return told

    for _ in range(2):
        wp.launch(make(), dim=1, inputs=[np.zeros(1, np.float32)])
    texts = [line[1] for line in collector.lines]
    assert texts[0].startswith("compiled kernel `told` in ")
    assert texts[-1] == "found kernel `told` in the cache"
