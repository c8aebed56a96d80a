"""A process that runs programs, so that a crash or an endless loop ends it and not the driver."""

from __future__ import annotations

import contextlib
import multiprocessing as mp
import os
import signal
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

from tests.fuzz.checking import Finding, check
from tests.fuzz.program import Program
from tests.fuzz.scalars import InvalidProgram

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
        self.limit = limit
        self._process: Any = None
        self._pipe: Any = None
        self._left = 0

    def __call__(self, job: Program | tuple[str, int]) -> Finding | str | None:
        """What came of a job; a crash and a program that does not end are findings."""
        if self._left <= 0:
            self._start()
        self._left -= 1
        try:
            self._pipe.send(job)
            if not self._pipe.poll(self.limit):
                self.close()
                return Finding("hangs", details=f"did not end within {self.limit:g} seconds")
            found: Finding | str | None = self._pipe.recv()
            return found
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            self.close()
            return Finding(f"crashes with {code}", details=f"the process ended with status {code}")

    def _start(self) -> None:
        self.close()
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._left = LIFE

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._pipe.close()
            self._process.kill()
            self._process.join()
        self._process, self._left = None, 0
