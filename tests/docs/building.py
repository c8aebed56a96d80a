"""Builds pages of the documentation: ``python building.py BUILDER OUT FILE...``; without files, all of them."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parents[2] / "docs"


def main(builder: str, out: str, *files: str) -> int:
    """Warnings are errors. What was read is kept beside ``out``, for builders that come later."""
    doctrees = Path(out).parent / "doctrees"
    app = Sphinx(DOCS, DOCS, out, doctrees, builder, status=None, warningiserror=True)
    app.builder.search = False  # the index of all words, which the build of a few files would miss
    app.build(filenames=[str(DOCS / file) for file in files])
    return app.statuscode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
