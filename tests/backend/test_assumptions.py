"""The page of assumptions names every flag and every metadata by which generated code lets LLVM assume something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

VOCABULARY = {
    "Integers": ("nsw", "nuw", "nusw", "inbounds", "inrange", "exact", "nneg", "disjoint", "samesign", "!range"),
    "Memory": (
        *(
            "alias.scope",
            "noalias",
            "llvm.access.group",
            "llvm.loop.parallel_accesses",
            "invariant.load",
            "invariant.group",
        ),
        *("readonly", "readnone", "writeonly", "byval", "align", "llvm.assume", "memory(none)", "nosync", "nofree"),
        *("captures", "nocapture", "nonnull", "dereferenceable", "noundef", "tbaa", "nontemporal", "volatile"),
        *("monotonic", "release", "acquire", "acq_rel", "seq_cst", "inaccessiblememonly", "argmemonly"),
    ),
    "Floating point": (
        *("reassoc", "contract", "nsz", "arcp", "afn", "nnan", "ninf", "fast", "denormal-fp-math-f32"),
        *("denormal-fp-math", "unsafe-fp-math", "no-nans-fp-math"),
    ),
    "Control flow": (
        *("mustprogress", "llvm.loop.mustprogress", "willreturn", "nounwind", "noreturn", "unreachable", "norecurse"),
        *("speculatable", "convergent", "nocallback", "memory(inaccessiblemem: readwrite)", "preserve_allcc"),
    ),
}
"""What LLVM has to say of numbers, of memory and of control flow, by the section of the page."""


READERS = ("pieces.py", "register_types.py")
"""They read LLVM IR that was put together before, and so know words that nothing emits."""


def texts() -> Iterator[str]:
    """The strings from which the backend puts LLVM IR together, docstrings left out."""
    for path in (ROOT / "warp_like" / "backend").rglob("*.py"):
        if path.name in READERS:
            continue
        tree = ast.parse(path.read_text())
        told = {n.value for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        for n in ast.walk(tree):
            if isinstance(n, ast.Constant) and isinstance(n.value, str) and n not in told:
                yield n.value


def emitted(words: tuple[str, ...]) -> set[str]:
    """Those of ``words`` that stand in the backend's strings."""
    whole = "\n".join(texts())
    return {w for w in words if re.search(rf"(?<![\w.]){re.escape(w)}(?![\w.-])", whole)}


def listed(section: str) -> set[str]:
    """The words of the vocabulary in the first column of a section's table."""
    page = (ROOT / "docs" / "assumptions.md").read_text()
    (body,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| ([^|]*) \|", body, re.MULTILINE)
    marked = {mark for row in rows for mark in re.findall(r"`([^`]+)`", row)}
    return {w for w in VOCABULARY[section] if any(w == m or w in m.split() for m in marked)}


@pytest.mark.parametrize("section", VOCABULARY)
def test_each_assumption_is_on_the_page_and_nothing_else(section: str) -> None:
    found = emitted(VOCABULARY[section])
    assert found, "the search finds nothing"
    assert found == listed(section)
