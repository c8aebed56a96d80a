"""What tapes record, and which tape is recording in this thread."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warp_like.ir.types import Type

if TYPE_CHECKING:
    from warp_like.runtime.kernel import Kernel
    from warp_like.runtime.tape import Tape


@dataclass(eq=False)
class Record:
    """One launch: enough to run it, or its adjoint, again."""

    kernel: Kernel
    dims: tuple[int, ...]
    types: tuple[Type, ...]
    args: list[Any]


class _Recorder(threading.local):
    """The tape that is active in this thread."""

    active: Tape | None = None

    def record(self, record: Any) -> None:
        """Append to the active tape."""
        assert self.active is not None
        self.active.launches.append(record)


recorder = _Recorder()
