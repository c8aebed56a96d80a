"""Compile every kernel of the public packages, and compare programs: ``make test-public``.

A kernel, or a stage of a program, that needs a missing subsystem is listed by name in ``missing.json``. The exit status
is 1 if another kernel can't be compiled, if a program computes something else than with Warp, or if the list is not
true any more; ``python -m tests.public.run --update`` writes the list anew.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path

from tests.processes import Answering, NoAnswer
from tests.public import compare
from tests.public.compiling import Result, names, result
from tests.public.packages import PACKAGES, install

MISSING_FILE = Path(__file__).with_name("missing.json")


def serve(pipe: Connection, package: str) -> None:
    """Say what the kernels of a package are called and what can't be imported; then compile those asked for."""
    from tests.public.standing_in import imported

    kernels, refused = imported(package)
    labels = names(kernels)
    pipe.recv()
    pipe.send((labels, refused))
    while True:
        try:
            i = pipe.recv()
        except EOFError:
            return
        pipe.send(result(labels[i], kernels[i]))


class Survey:
    """The kernels of one package, compiled by several processes."""

    def __init__(self, package: str, options: argparse.Namespace) -> None:
        self.package = package
        self.options = options
        self.results: list[Result] = []
        first = Answering(serve, options.limit, args=(package,))
        self.labels, self.refused = first(None)
        first.close()
        chosen = [i for i, label in enumerate(self.labels) if options.only in label]
        self.jobs = iter(chosen)
        self.lock = threading.Lock()
        threads = [threading.Thread(target=self.work) for _ in range(options.workers)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.results.sort(key=lambda r: self.labels.index(r.name))

    def work(self) -> None:
        """Compile kernels until none is left."""
        process = Answering(serve, self.options.limit, args=(self.package,))
        fresh = True
        while True:
            with self.lock:
                i = next(self.jobs, None)
            if i is None:
                break
            try:
                if fresh:
                    process(None)
                fresh = False
                found = process(i)
            except NoAnswer as e:
                found, fresh = Result(self.labels[i], error=str(e), seconds=self.options.limit), True
            with self.lock:
                self.results.append(found)
                if self.options.verbose:
                    print(f"{found.seconds:6.1f} s  {found.name}  {found.needs or found.error.partition(chr(10))[0]}")
        process.close()

    def missing(self) -> dict[str, list[str]]:
        """The kernels that need a missing subsystem, by subsystem."""
        found: dict[str, list[str]] = {}
        for r in self.results:
            if r.needs:
                found.setdefault(r.needs, []).append(r.name)
        return {subject: sorted(found[subject]) for subject in sorted(found)}

    def wrong(self, listed: dict[str, list[str]]) -> list[str]:
        """What is not as it is listed, one line or text each."""
        known = {name: subject for subject, kernels in listed.items() for name in kernels}
        found = [f"can't be imported: {text}" for text in self.refused]
        for r in self.results:
            if r.error:
                found.append(f"{r.name}\n    " + r.error.replace("\n", "\n    "))
            elif r.needs and known.get(r.name) != r.needs:
                found.append(f"{r.name} needs {r.needs}, and is not listed; run with --update")
            elif r.name in known and not r.needs:
                found.append(f"{r.name} compiles, and is listed as in need of {known[r.name]}; run with --update")
        if not self.options.only:
            found += [
                f"{name} is listed, and does not exist; run with --update" for name in known.keys() - set(self.labels)
            ]
        return found


def table(surveys: list[Survey]) -> str:
    """One line for each package, and what the kernels need that can't be compiled."""
    rows = [["package", "kernels", "compiled", "need what is missing", "fail", "slowest"]]
    for s in surveys:
        refused, failed = sum(bool(r.needs) for r in s.results), sum(bool(r.error) for r in s.results)
        slowest = max((r.seconds for r in s.results), default=0.0)
        counts = [len(s.results), len(s.results) - refused - failed, refused, failed]
        rows.append([s.package, *map(str, counts), f"{slowest:.1f} s"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        f"{row[0]:{widths[0]}}" + "".join(f"  {x:>{w}}" for x, w in zip(row[1:], widths[1:], strict=True))
        for row in rows
    ]
    for s in surveys:
        needs = ", ".join(f"{subject} {len(kernels)}" for subject, kernels in s.missing().items())
        lines += [f"{s.package} needs: {needs}"] if needs else []
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m tests.public.run", description=__doc__)
    p.add_argument("--packages", nargs="*", default=PACKAGES, help=f"of {', '.join(PACKAGES)}")
    p.add_argument("--programs", nargs="*", default=compare.PROGRAMS, help=f"of {', '.join(compare.PROGRAMS)}")
    p.add_argument("--only", default="", help="compile kernels with this in their names")
    p.add_argument("--limit", type=float, default=120, help="seconds that a kernel may take")
    p.add_argument("--slow", type=float, default=20, help="name the kernels that take more seconds")
    p.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    p.add_argument("--update", action="store_true", help="write the list of kernels that need what is missing")
    p.add_argument("--verbose", action="store_true", help="a line for each kernel")
    return p.parse_args()


def main() -> int:
    """Run all; 1 if something is wrong."""
    options = parse()
    install()
    os.environ["WARP_LIKE_CACHE"] = "0"  # for the processes, which say how long compiling takes
    listed = json.loads(MISSING_FILE.read_text()) if MISSING_FILE.exists() else {}
    surveys = []
    for package in options.packages:
        surveys.append(survey := Survey(package, options))
        if options.update:
            listed[package] = survey.missing()
        for text in survey.wrong(listed.get(package, {})):
            print(text, flush=True)
        for r in survey.results:
            if r.seconds > options.slow:
                print(f"{r.name} takes {r.seconds:.1f} s", flush=True)
    outcomes = [] if options.only else [compare.compared(name, 10 * options.limit) for name in options.programs]
    for o in outcomes:
        if options.update:
            listed.setdefault("programs", {})[o.name] = o.needs
        if o.needs != listed.get("programs", {}).get(o.name):
            o.wrong.append(f"{o.name} needs {o.needs}, and something else is listed; run with --update")
        for text in o.wrong:
            print(text, flush=True)
    if options.update and not options.only:
        MISSING_FILE.write_text(json.dumps(listed, indent=2) + "\n")
    if surveys:
        print(table(surveys))
    if outcomes:
        print(compare.table(outcomes))
    return int(any(s.wrong(listed.get(s.package, {})) for s in surveys) or any(o.wrong for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
