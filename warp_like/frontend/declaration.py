"""What programs ask of a kernel or function: ``kernel.adj.args``, each with its ``label`` and ``type``, and its place.

The names are Warp's. Types are those of the signature as the user wrote it, with ``wp.float32``, ``wp.int32`` and
``wp.bool`` for Python's; in an instance of a generic kernel, those that it was made for.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from warp_like.frontend.source import Source
from warp_like.ir.types import Type
from warp_like.values.annotation import Parameter


class Declaration:
    """A kernel or function as it is declared: ``kernel.adj``.

    Attributes:
        args: Its parameters in order, with ``label`` and ``type``.
        arg_types: The types by name, as they are annotated; that of the result is ``return``.
        func: The Python function.
        fun_name: Its name.
        filename: Its file.
        fun_lineno: The line where it begins, decorators included.
        source: Its text.
    """

    def __init__(self, source: Source, host_type: Callable[[Type], Any]) -> None:
        """``host_type`` gives what stands for a type that was inferred."""
        known = {n: host_type(a) if isinstance(a, Type) else a for n, a in source.annotations.items()}
        self.args = [Parameter.of(name, known.get(name, Any)) for name in source.params]
        self.arg_types = known
        self.func: types.FunctionType = source.pyfunc
        self.fun_name = source.name
        self.filename = source.file
        self.fun_lineno = source.first_line
        self.source = source.text
