"""Pictures of graphs: by Graphviz where its program is installed, and as Mermaid's text, which JupyterLab draws."""

from __future__ import annotations

import shutil
import subprocess


def bundle(dot: str | None, mermaid: str | None) -> dict[str, str]:
    """Return a graph, given in one or both languages, by type of data; a front end shows the best that it knows."""
    found = {"text/plain": str(dot if dot is not None else mermaid)}
    if mermaid is not None:
        found["text/vnd.mermaid"] = str(mermaid)
    svg = drawn(dot) if dot is not None else None
    return found if svg is None else found | {"image/svg+xml": svg}


def drawn(dot: str) -> str | None:
    """Return the graph as SVG; None where Graphviz is not installed or does not draw it."""
    program = shutil.which("dot")
    if program is None:
        return None
    done = subprocess.run([program, "-Tsvg"], input=dot, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout[done.stdout.index("<svg") :] if done.returncode == 0 and "<svg" in done.stdout else None
