"""Topics of builtins that are imported when one of theirs is asked for."""

import os
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


OPERANDS = ["matrix", "powers", "special", "utility", "vector"]
"""What quaternions, transforms and tiles import, since they add overloads to builtins of these topics."""


def run(text: str) -> str:
    done = subprocess.run([sys.executable, "-c", PROGRAM + text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_names_of_later_topics_are_listed_and_later_overloads_follow_earlier_ones():
    # In a process of its own: this one may have imported any of them in any order.
    run("""
import importlib
from warp_like.builtins.spec import Special, Symbol

def is_listed(name, names):
    return any(name.startswith(n[:-1]) if n.endswith("*") else name == n for n in names.split())

for topic, names in LATER.items():
    before = {name: len(rows) for name, rows in REGISTRY.declared.items()}
    loaded_before = set(sys.modules)
    importlib.import_module(f"warp_like.builtins.{topic}")
    grown = {name for name, rows in REGISTRY.declared.items() if len(rows) != before.get(name, 0)}
    assert grown
    for name in grown:
        assert name.startswith("_") or is_listed(name, names), (topic, name)
    for name in names.split():
        assert name.endswith("*") or name in grown, (topic, name)
        assert name.endswith("*") or not any(row.assigns for row in REGISTRY.declared[name]), name
for name, rows in REGISTRY.declared.items():
    kinds = [isinstance(row.lower, Special) for row in rows]
    assert all(kinds) or not any(kinds), name
    calls = [isinstance(row.lower, Symbol) and not row.lower.llvm for row in rows]
    assert calls[0] or not any(calls), name  # asked of the topic that was loaded first
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children go on from where the parent is")
def test_overloads_have_one_order_whichever_topic_was_imported_first():
    run("""
import importlib, os, pathlib, tempfile
folder = pathlib.Path(tempfile.mkdtemp())
for first in ("spec", "tiles", "transform", "quaternion", "matrix", "mesh_signs"):
    if not os.fork():
        importlib.import_module(f"warp_like.builtins.{first}")
        rows = [(name, [(r.params, str(r.patterns)) for r in REGISTRY[name]]) for name in sorted(REGISTRY)]
        (folder / first).write_text(repr(rows))
        os._exit(0)
    assert os.wait()[1] == 0, first
assert len({made.read_text() for made in folder.iterdir()}) == 1
for made in folder.iterdir():
    made.unlink()
folder.rmdir()
""")


def test_operators_on_scalars_load_no_further_topics():
    run("""
from warp_like.builtins.spec import may_call_library, resolve
from warp_like.ir.types import float32, int32, Quat, Vec
for name in ("add", "sub", "mul", "div", "lt", "min", "abs", "sin"):
    args = [float32] * (1 if name in ("abs", "sin") else 2)
    resolve(name, args)
    assert name in REGISTRY and may_call_library(name) == (name == "sin")
assert loaded() == [], loaded()
resolve("add", [Vec(3, float32)] * 2)
assert loaded() == [], loaded()
resolve("mul", [Quat(float32)] * 2)
assert "quaternion" in loaded() and "tiles" not in loaded()
""")


@pytest.mark.parametrize(
    ("name", "topics"),
    [
        ("noise", ["noise", "random"]),
        ("quat_identity", sorted([*OPERANDS, "quaternion"])),
        ("svd3", ["decompositions"]),
        ("mesh_query_point", ["bvh", "hash_grid", "mesh", "mesh_signs"]),
        (
            "tile_load",
            sorted([*OPERANDS, "quaternion", "tile_algebra", "tile_calls", "tile_sorting", "tiles", "transform"]),
        ),
    ],
)
def test_a_name_loads_its_topics_alone(name, topics):
    assert run(f"assert {name!r} in REGISTRY and REGISTRY[{name!r}]\nprint(loaded())") == str(topics)


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
