"""A process that runs programs, so that a crash or an endless loop ends it and not the driver."""

from __future__ import annotations

import contextlib
import os
import signal
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection

from tests.fuzz.checking import Finding, check
from tests.fuzz.program import Program
from tests.fuzz.scalars import InvalidProgram
from tests.processes import Answering, Crashed, NoAnswer

LIFE = 150
"""Programs that one process runs; code that was compiled stays in its memory."""


def answer(job: Program | tuple[str, int]) -> Finding | str | None:
    """Run a program, or a check of a kind and a seed: a finding, None, or why it is no test."""
    try:
        if isinstance(job, Program):
            return check(job)
        from tests.fuzz.kinds import check_named

        try:
            check_named(job[0])(job[1])
        except InvalidProgram:
            raise
        except Exception as e:
            return Finding(f"raises {type(e).__name__}", details=f"{e}\n{traceback.format_exc()[-2000:]}")
    except InvalidProgram as e:
        return f"invalid: {e}"
    return None


@contextlib.contextmanager
def emulation() -> Iterator[None]:
    """A CUDA device that the CPU plays, for the setting ``device``."""
    from tests.runtime.cuda.emulated import EmulatedDriver, emulated_code
    from warp_like.runtime.cuda.driver import install

    with emulated_code():
        before = install(EmulatedDriver())
        try:
            yield
        finally:
            install(before)


def serve(pipe: Connection) -> None:
    """Answer until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    with emulation(), contextlib.suppress(EOFError):
        while True:
            pipe.send(answer(pipe.recv()))


class Worker:
    """Runs jobs one after the other, each within ``limit`` seconds, in a process that is replaced when it dies."""

    def __init__(self, limit: float) -> None:
        self._answering = Answering(serve, limit, LIFE)

    @property
    def limit(self) -> float:
        """How many seconds a job may take."""
        return self._answering.limit

    @limit.setter
    def limit(self, seconds: float) -> None:
        self._answering.limit = seconds

    def __call__(self, job: Program | tuple[str, int]) -> Finding | str | None:
        """What came of a job; a crash and a program that does not end are findings."""
        try:
            found: Finding | str | None = self._answering(job)
            return found
        except Crashed as e:
            return Finding(f"crashes with {e.code}", details=str(e))
        except NoAnswer as e:
            return Finding("hangs", details=str(e))

    def close(self) -> None:
        """End the process."""
        self._answering.close()
