"""Run random programs: ``python -m tests.fuzz.run --seconds 600 --seed 1 --kinds numbers,threads``.

Each program runs in a worker process under a time limit, compared with plain Python. What fails is made smaller and
written to ``build/fuzz`` as a file that shows it by itself. The exit status is 1 if anything was found.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import os
import sys
import threading
import time
from pathlib import Path

from tests.fuzz import report
from tests.fuzz.checking import Finding
from tests.fuzz.kinds import ALLOWED, CHECKS, GENERATORS, KNOWN, generated
from tests.fuzz.shrink import shrunk
from tests.fuzz.worker import Worker


class Session:
    """What the workers share."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.ends = time.monotonic() + options.seconds
        self.known = frozenset(options.known.split(",")) - {""} if options.known is not None else ALLOWED
        self.jobs = ((seed, kind) for seed in itertools.count(options.seed) for kind in options.kinds)
        self.counts: collections.Counter[str] = collections.Counter()
        self.invalid: collections.Counter[str] = collections.Counter()
        self.findings: list[str] = []
        self.lock = threading.Lock()

    def next_job(self) -> tuple[int, str] | None:
        with self.lock:
            count = sum(self.counts.values())
            over = time.monotonic() > self.ends or count >= self.options.programs
            return None if over else next(self.jobs)

    def work(self) -> None:
        """Run programs until the time is over."""
        worker = Worker(self.options.limit)
        while (job := self.next_job()) is not None:
            seed, kind = job
            program = generated(kind, seed, self.known) if kind in GENERATORS else None
            found = worker(program if program is not None else (kind, seed))
            with self.lock:
                self.counts[kind] += 1
                self.invalid[kind] += isinstance(found, str)
            if isinstance(found, Finding):
                where = f"{kind}, seed {seed}"
                if program is not None:
                    program, found = shrunk(program, found, worker, self.options.shrink)
                    where += f", {report.write(Path(self.options.out), program, found)}"
                self.tell(f"{where}: {found.kind} {found.setting or ''}\n    {found.details[:300]}")
        worker.close()

    def tell(self, text: str) -> None:
        with self.lock:
            self.findings.append(text)
            print(text, flush=True)


def options() -> argparse.Namespace:
    """The command line."""
    kinds = [*GENERATORS, *CHECKS]
    p = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    p.add_argument("--seconds", type=float, default=600, help="how long to start new programs")
    p.add_argument("--programs", type=int, default=sys.maxsize, help="the most programs")
    p.add_argument("--seed", type=int, default=1, help="the first seed; each kind gets this one, the next and so on")
    p.add_argument("--kinds", default=",".join(kinds), help=f"of {', '.join(kinds)}")
    p.add_argument("--known", help=f"let programs have what is known to go wrong: {', '.join(KNOWN)}")
    p.add_argument("--limit", type=float, default=120, help="seconds that a program may take")
    p.add_argument("--shrink", type=float, default=90, help="seconds to make a failing program smaller")
    p.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    p.add_argument("--out", default="build/fuzz", help="the folder for what was found")
    given = p.parse_args()
    given.kinds = given.kinds.split(",")
    unknown = set(given.kinds) - set(kinds)
    if unknown:
        p.error(f"no kind {', '.join(sorted(unknown))}; there are {', '.join(kinds)}")
    return given


def main() -> int:
    session = Session(options())
    threads = [threading.Thread(target=session.work) for _ in range(session.options.workers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    ran = ", ".join(f"{n} {kind} ({session.invalid[kind]} told nothing)" for kind, n in session.counts.items())
    print(f"ran {sum(session.counts.values())} programs: {ran}; findings: {len(session.findings)}")
    return int(bool(session.findings))


if __name__ == "__main__":
    sys.exit(main())
