"""The passes by their names, and the words with which ``config.dump`` asks for them.

``ROUTE`` is the route of a kernel on one screen. ``passes/runner.py`` runs no pass that is not listed here.
"""

from __future__ import annotations

ROUTE: dict[str, tuple[str, ...]] = {
    "gradients": ("lower_replayed", "expand_for_adjoint", "split_loops", "differentiate"),
    "prepare": (
        *("inline", "flatten_structs", "lower_array_selects", "join_threads", "count_from_end", "lower_slices"),
        *("lower_local_atomics", "debug_checks", "fold", "unroll", "cse", "keep_nested_arrays", "dce"),
    ),
    "saved_results": ("save_results", "load_results"),
    "adjoint": (
        *("lower_replayed", "expand_for_adjoint", "merge_parameters", "in_order", "hoist_loads", "split_loops"),
        "differentiate",
    ),
    "tangent": ("inline", "tangent"),
    "optimise": ("fold", "cse", "licm", "dce"),
    "finish": (
        *("finite_checks", "lower_local_atomics", "pair_products", "expand", "fold", "cse", "dce", "split_vectors"),
        *("fold_comparisons", "decouple_iterations", "fuse", "read_in_place", "lower_large_values"),
    ),
    "team": (
        *("finite_checks", "lower_local_atomics", "expand_together", "expand", "fold", "cse", "dce"),
        *("lower_large_values", "distribute"),
    ),
    "alone": ("in_single_threads", "lower_local_atomics", "fold", "cse", "dce"),
    "lanes": ("flatten_grid", "widen", "load_consecutively", "cse", "dce", "coarsen"),
    "loops": ("widen_loops", "filter_loops", "load_consecutively", "cse", "join_accesses", "licm", "dce"),
    "object_order": ("in_object_order",),
}
"""The passes of each stage in their order.

``gradients`` makes the bodies of ``wp.grad(f)``, ``saved_results`` what a recorded launch stores for its adjoint,
``team`` finishes code that a block of CUDA's threads runs together,
``alone`` makes the code of a block of one thread, ``lanes`` that of a vector of threads, then of several rows of them.
``loops`` follows where one thread runs alone: loops of its own run in lanes.
"""

PASSES: tuple[str, ...] = tuple(dict.fromkeys(name for names in ROUTE.values() for name in names))
"""The name of each pass, once."""

DUMPED = ("ir", "passes", "optimised", "llvm", "asm", "all")
"""What can be dumped beside ``before:PASS`` and ``after:PASS``; ``passes`` is after each pass."""


def dump_words(text: str) -> list[str]:
    """Return the words of the setting ``dump``."""
    return [word.strip() for word in text.split(",") if word.strip()]


def require_dump_words(text: str) -> None:
    """Check the setting ``dump``.

    Raises:
        ValueError: It asks for a stage or a pass that there is not.
    """
    for word in dump_words(text):
        when, _, name = word.partition(":")
        if when in ("before", "after"):
            if name not in PASSES:
                raise ValueError(f"setting `dump`: there is no pass {name!r}; passes are {', '.join(PASSES)}")
        elif word not in DUMPED:
            stages = ", ".join(DUMPED)
            raise ValueError(
                f"setting `dump`: there is no stage {word!r}; stages are {stages}, before:PASS, after:PASS"
            )
