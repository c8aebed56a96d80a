"""What a benchmark prints and writes: its options, tables as text or Markdown, the machine, a JSON file."""

import argparse
import datetime
import json
import math
import os
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import frameworks

Cell = float | str | None
"""A measured value, a word in its place, or nothing."""


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the options that all benchmarks have; the description is a module's docstring."""
    made = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    made.add_argument("--json", type=Path, metavar="PATH", help="write what was measured to this file")
    made.add_argument("--markdown", action="store_true", help="print the tables as docs/benchmarks.md has them")
    made.add_argument("--quick", action="store_true", help="small sizes: does everything run and agree?")
    return made


def budget(options: argparse.Namespace, seconds: float = float("inf")) -> float:
    """Return the ``budget`` of ``timing.measure``: none with ``--quick``, where one call of a program is enough."""
    return 0.0 if options.quick else seconds


def three_digits(value: float) -> str:
    """Return a number with three significant digits and without an exponent."""
    if value == int(value):
        return str(int(value))
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def short_sizes(title: str) -> str:
    """Return a row's title with thousands and millions in short: ``saxpy 16.8 M`` for ``saxpy 16777216``."""

    def shorten(found: re.Match[str]) -> str:
        n = int(found[0])
        return f"{three_digits(n / 1e6)} M" if n >= 1e6 else f"{three_digits(n / 1e3)} k"

    return re.sub(r"\b\d{5,}\b", shorten, title)


def cell(value: Cell, scale: float) -> str:
    """Return the text of a table's cell."""
    return "-" if value is None else value if isinstance(value, str) else three_digits(value * scale)


def processor() -> str:
    """Return the kind of the processor, as the system names it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def environment() -> dict[str, Any]:
    """Return the machine, the versions, the date, and how much else was running."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": processor(),
        "cores": cores,
        "system": platform.system(),
        "versions": frameworks.versions(),
        "date": datetime.date.today().isoformat(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


class Report:
    """The tables that a benchmark prints, as text or as Markdown, and the JSON file that it writes."""

    def __init__(self, name: str, unit: str, options: argparse.Namespace) -> None:
        self.name, self.unit = name, unit
        self.path, self.markdown = options.json, options.markdown

    def table(
        self, title: str, columns: Sequence[str], rows: Mapping[str, Mapping[str, Cell]], scale: float = 1.0
    ) -> None:
        """Print the values times ``scale``, one line a row; ``title`` heads the column of the rows' names.

        Sizes in the names are shortened. A column that no row has is left out.
        """
        columns = [column for column in columns if any(values.get(column) is not None for values in rows.values())]
        cells = {
            short_sizes(row): [cell(values.get(column), scale) for column in columns] for row, values in rows.items()
        }
        print()
        if self.markdown:
            print(f"| {' | '.join([title, *columns])} |\n|---|{'---:|' * len(columns)}")
            for row, of in cells.items():
                print(f"| {' | '.join([row, *of])} |")
            return
        width = max(map(len, [*cells, title])) + 2
        for row, of in {title: columns, **cells}.items():
            print(row.ljust(width) + "".join(text.rjust(12) for text in of), flush=True)

    def text(self, line: str) -> None:
        """Print a line below the tables."""
        print("\n" + line)

    def save(self, rows: Mapping[str, Any]) -> None:
        """Write the JSON file if one is asked for; a file that is there stays until the new one is whole."""
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            record = {"benchmark": self.name, "unit": self.unit, "environment": environment(), "rows": rows}
            draft = self.path.with_suffix(".part")
            draft.write_text(json.dumps(record, indent=2) + "\n")
            draft.replace(self.path)

    def finish(self, rows: Mapping[str, Any]) -> None:
        """Print the machine and the versions, and write the JSON file if one is asked for."""
        here = environment()
        packages = ", ".join(f"{package} {version}" for package, version in here["versions"].items() if version != "-")
        self.text(f"{here['processor']}, {here['cores']} cores, {here['system']}, {packages}, {here['date']}")
        self.save(rows)


def report(
    name: str,
    title: str,
    columns: Sequence[str],
    rows: Mapping[str, Mapping[str, Cell]],
    scale: float,
    options: argparse.Namespace,
) -> None:
    """Print one table of seconds, and what ``Report.finish`` adds."""
    made = Report(name, "s", options)
    made.table(title, columns, rows, scale)
    made.finish(rows)
