"""Random programs: the passes are verified one by one."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _each_pass(each_pass_is_verified: None) -> None:
    pass
