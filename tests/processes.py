"""A process that answers one job after the other, and is replaced when it crashes or takes too long."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


class NoAnswer(Exception):
    """The process ended, or did not answer in time; the message says which."""


class Crashed(NoAnswer):
    """The process ended."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"the process ended with status {code}")
        self.code = code


class Answering:
    """Gives jobs to a process.

    Attributes:
        serve: What the process runs: it receives jobs from a pipe and sends an answer for each, until the pipe closes.
        args: What else ``serve`` is called with.
        limit: How many seconds a job may take.
        life: How many jobs a process answers before another one takes its place.
    """

    def __init__(
        self, serve: Callable[..., None], limit: float, life: int | None = None, args: tuple[Any, ...] = ()
    ) -> None:
        self.serve, self.args, self.limit, self.life = serve, args, limit, life
        self._process: Any = None
        self._pipe: Connection | None = None
        self._answered = 0

    def __call__(self, job: Any) -> Any:
        """Return the answer.

        Raises:
            NoAnswer: The process crashed or did not answer in time.
        """
        if self._pipe is None or self._answered == self.life:
            self._start()
        assert self._pipe is not None
        self._answered += 1
        try:
            self._pipe.send(job)
            if self._pipe.poll(self.limit):
                return self._pipe.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            self.close()
            raise Crashed(code) from None
        self.close()
        raise NoAnswer(f"did not end within {self.limit:g} seconds")

    def _start(self) -> None:
        self.close()
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=self.serve, args=(theirs, *self.args), daemon=True)
        self._process.start()
        theirs.close()

    def close(self) -> None:
        """End the process."""
        if self._pipe is not None:
            self._pipe.close()
            self._process.kill()
            self._process.join()
        self._process = self._pipe = None
        self._answered = 0
