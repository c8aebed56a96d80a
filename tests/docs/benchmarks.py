"""Benchmarks one after the other in one process: importing PyTorch, JAX and Paddle takes longer than most of them."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import traceback
from multiprocessing.connection import Connection

from tests.cuda_compiling import FOLDER, also_for_cuda


def serve(pipe: Connection, programs: str) -> None:
    """Run the benchmarks whose names and options come through a pipe, until it closes.

    The answer is what one has printed, and the error that has ended it, or nothing.
    """
    sys.path.insert(0, programs)
    with also_for_cuda() if FOLDER in os.environ else contextlib.nullcontext():
        while True:
            try:
                name, options = pipe.recv()
            except EOFError:
                return
            printed, error = io.StringIO(), ""
            try:
                with contextlib.redirect_stdout(printed):
                    importlib.import_module(f"benchmark_{name}").main(options)
            except BaseException:
                error = traceback.format_exc()
            pipe.send((printed.getvalue(), error))
