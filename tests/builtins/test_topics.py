"""Topics of builtins that are imported when one of theirs is asked for."""

import subprocess
import sys

import pytest

from warp_like.builtins.spec import REGISTRY

PROGRAM = """
import sys
from warp_like.builtins import LATER
from warp_like.builtins.spec import REGISTRY

def loaded():
    return sorted(topic for topic in LATER if f"warp_like.builtins.{topic}" in sys.modules)

early = set(REGISTRY.declared)
assert loaded() == [], loaded()
assert "sin" in REGISTRY and "my_variable" not in REGISTRY and loaded() == []
"""


def run(text: str) -> str:
    done = subprocess.run([sys.executable, "-c", PROGRAM + text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_names_of_later_topics_begin_as_listed_and_no_others_do():
    # In a process of its own: this one may have imported any of them in any order.
    run("""
import importlib
for topic, beginnings in LATER.items():
    before = {name: len(rows) for name, rows in REGISTRY.declared.items()}
    importlib.import_module(f"warp_like.builtins.{topic}")
    grown = {name for name, rows in REGISTRY.declared.items() if len(rows) != before.get(name, 0)}
    assert grown
    for name in grown:
        assert name.startswith(("_", *beginnings)), name
        assert name not in early, name  # the order of its overloads would follow from what was asked for
others = tuple(beginning for beginnings in LATER.values() for beginning in beginnings if beginning != "tile")
assert not [name for name in early if name.startswith(others)]
""")


@pytest.mark.parametrize(
    ("name", "topics"),
    [
        ("noise", ["noise", "random"]),
        ("svd3", ["decompositions"]),
        ("mesh_query_point", ["bvh", "hash_grid", "mesh", "mesh_signs"]),
        ("tile_load", ["tile_algebra", "tile_calls", "tile_sorting"]),
    ],
)
def test_a_name_loads_its_topics_alone(name, topics):
    assert run(f"assert {name!r} in REGISTRY\nprint(loaded())") == str(topics)


@pytest.mark.parametrize(
    "ask", ["'_cell' in REGISTRY", "len(REGISTRY)", "sorted(REGISTRY)", "REGISTRY.items()", "list(REGISTRY)"]
)
def test_hidden_names_and_the_list_load_all(ask):
    assert run(f"list({ask}) if {ask.startswith('REG')} else ({ask})\nprint(loaded() == sorted(LATER))") == "True"


def test_rows_are_in_the_order_of_topics_whatever_was_asked_first():
    text = "print([(n, len(REGISTRY[n]), [r.doc for r in REGISTRY[n]]) for n in sorted(REGISTRY)])"
    assert run(f"REGISTRY['volume_sample'], REGISTRY['mesh_query_ray'], REGISTRY['noise']\n{text}") == run(text)


def test_an_import_that_fails_is_tried_again():
    text = """
import importlib
real, fails = importlib.import_module, [KeyboardInterrupt]
def interrupted(name):
    if fails:
        raise fails.pop()
    return real(name)
importlib.import_module = interrupted
try:
    REGISTRY["noise"]
except KeyboardInterrupt:
    print(len(REGISTRY["noise"]))
"""
    assert int(run(text)) == len(REGISTRY["noise"])


def test_calls_of_tiles_are_found_by_their_names():
    from warp_like.frontend import specials
    from warp_like.frontend.tiles.handlers import HANDLERS

    assert all(specials.handler(name) is build for name, build in HANDLERS.items())
    assert specials.handler("tile_shape") is specials.handler("sin") is None
