"""The IR in the docstrings of passes and analyses is what they really give; ``--update-golden`` writes it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.ir_builder import assert_same
from tests.passes.examples import EXAMPLES, Example
from tests.passes.facts import FACTS, Facts, annotated
from warp_like.base.passes import PASSES
from warp_like.ir.printer import print_function
from warp_like.ir.verify import verify

SHOWN_WITH = {
    "expand_for_adjoint": "expand",
    "finite_checks": "debug_checks",
    "save_results": "load_results",
    "merge_parameters": "a substitution of parameters",
}
"""Passes without an example of their own, and what shows them."""


def _blocks(*shown: tuple[str, str]) -> str:
    return "\n".join(f"{title}::\n\n{textwrap.indent(text, '    ')}" for title, text in shown)


def _require(module: Any, text: str, update: bool) -> None:
    """Check that the docstring of ``module`` ends with ``text``, or let it."""
    doc = module.__doc__
    if update:
        file = Path(module.__file__)
        prose = doc.split("\nBefore::")[0].split("\nExample::")[0].rstrip()
        source = file.read_text(encoding="utf-8")
        assert f'"""{doc}"""' in source
        file.write_text(source.replace(f'"""{doc}"""', f'"""{prose}\n\n{text}"""', 1), encoding="utf-8")
    else:
        start = doc.find("\n" + text.split("\n", 1)[0])
        assert start >= 0, f"the docstring of {module.__name__} has no example; --update-golden writes it"
        assert doc[start + 1 :] == text


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_passes_do_what_their_docstrings_show(example: Example, request: pytest.FixtureRequest) -> None:
    before, after = map(print_function, example.both())
    assert before != after
    update = request.config.getoption("--update-golden")
    _require(example.module, _blocks(("Before", before), ("After", after)), update)


@pytest.mark.parametrize("facts", FACTS.values(), ids=FACTS)
def test_analyses_find_what_their_docstrings_show(facts: Facts, request: pytest.FixtureRequest) -> None:
    _require(facts.module, _blocks(("Example", annotated(facts))), request.config.getoption("--update-golden"))


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_examples_are_valid_and_mean_the_same_afterwards(example: Example) -> None:
    before, after = example.both()
    verify(before)
    verify(after)
    if example.args is not None:
        assert_same(before, after, example.args(), example.threads)


def test_every_pass_has_an_example() -> None:
    assert {*PASSES} <= {*EXAMPLES, *SHOWN_WITH}
    assert not {*EXAMPLES} & {*SHOWN_WITH}
