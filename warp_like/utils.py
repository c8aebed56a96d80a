"""Operations on whole arrays, by the names of ``warp.utils``."""

from warp_like.runtime.operations.algorithms import (
    array_cast,
    array_inner,
    array_scan,
    array_sum,
    radix_sort_pairs,
    runlength_encode,
    segmented_sort_pairs,
)
from warp_like.runtime.operations.coloring import (
    GraphColoringAlgorithm,
    graph_coloring_assign,
    graph_coloring_balance,
    graph_coloring_get_groups,
)
from warp_like.runtime.operations.mapping import create_warp_function

__all__ = [
    "GraphColoringAlgorithm",
    "array_cast",
    "array_inner",
    "array_scan",
    "array_sum",
    "create_warp_function",
    "graph_coloring_assign",
    "graph_coloring_balance",
    "graph_coloring_get_groups",
    "radix_sort_pairs",
    "runlength_encode",
    "segmented_sort_pairs",
]
