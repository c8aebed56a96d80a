"""Random operations on sparse matrices of fixed seeds; ``make fuzz`` runs as many as there is time for."""

import pytest

from tests.long_tail import tail
from tests.sparse.random_matrices import check


@pytest.mark.parametrize("seed", [12, *map(tail, range(60))])  # which has numbers for blocks
def test_operations_in_a_row(seed):
    check(seed)
