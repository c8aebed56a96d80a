"""The notebooks of the documentation run: their cells assert what they claim, and print what the pages show.

The notebooks keep their outputs, so that the pages can be built without PyTorch and JAX. ``--update-golden`` runs them
and writes the outputs again. A cell with the tag ``varies`` may print something else each time, such as times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.long_tail import tail

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NAMES = ("start", "gradients", "pytorch", "jax", "speed")
COLUMNS = 88
LIMIT = 200_000  # bytes of a notebook, its pictures included

nbformat = pytest.importorskip("nbformat")


def read(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def code_cells(book: Any) -> list[Any]:
    return [cell for cell in book.cells if cell.cell_type == "code"]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Runs one notebook after the other in one process, so that imports cost their time once."""
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(FOLDER.parents[1]))
        patch.delenv("MPLBACKEND", raising=False)
        # What a cell prints comes in one piece or in several, as it happens.
        options = {"timeout": 300, "record_timing": False, "coalesce_streams": True}
        runner = nbclient.NotebookClient(nbformat.v4.new_notebook(), **options)
        yield runner
        if runner.km is not None:
            runner._cleanup_kernel()


def executed(name: str, client: Any) -> Any:
    """Return a notebook with the outputs of a run, in a namespace of its own."""
    book = read(name)
    cells = code_cells(book)
    for cell in cells:
        cell.outputs = []
    client.nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%reset -f"), *cells])
    client.execute(cleanup_kc=False)
    for count, cell in enumerate(cells, 1):
        cell.execution_count = count
        cell.metadata.pop("execution", None)
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count
    return book


def shown(cell: Any) -> list[Any]:
    """What a page shows of a cell's outputs: text, and which kinds of pictures."""
    found = []
    for output in cell.outputs:
        if output.output_type == "stream":
            found.append((output.name, output.text))
        else:
            data = output.data
            found.append({kind: kind if kind.startswith("image/") else data[kind] for kind in data})
    return found


@pytest.mark.parametrize("name", ["start", "gradients", *map(tail, ("pytorch", "jax", "speed"))])
def test_notebook_runs_and_prints_what_it_keeps(name: str, client: Any, request: pytest.FixtureRequest) -> None:
    for needed in ("torch", "jax"):
        if any(f"import {needed}\n" in cell.source for cell in code_cells(read(name))):
            pytest.importorskip(needed)
    book = executed(name, client)
    if request.config.getoption("--update-golden"):
        nbformat.write(book, FOLDER / f"{name}.ipynb")
    for kept, made in zip(code_cells(read(name)), code_cells(book), strict=True):
        assert all(output.get("name") != "stderr" for output in made.outputs), made.outputs
        if "varies" not in kept.metadata.get("tags", []):
            assert shown(made) == shown(kept), f"{made.source}\n(--update-golden accepts the change)"
        assert len(made.outputs) == len(kept.outputs)


@pytest.mark.parametrize("name", NAMES)
def test_notebook_is_tidy(name: str) -> None:
    """It has a title, a picture, checks, no wide lines, and no more bytes than a page should load."""
    book = read(name)
    cells = code_cells(book)
    assert (FOLDER / f"{name}.ipynb").stat().st_size < LIMIT
    assert re.match(r"# \w", book.cells[0].source)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert any("image/png" in output.get("data", {}) for cell in cells for output in cell.outputs)
    assert sum("assert " in cell.source for cell in cells) >= 3
    wide = [line for cell in cells for line in cell.source.splitlines() if len(line) > COLUMNS]
    assert not wide


def test_all_notebooks_are_known() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(NAMES)
