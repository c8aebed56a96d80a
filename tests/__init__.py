"""The test suite. A package, so that tests share helpers as ``from tests.interpreter import run``."""

import pytest

pytest.register_assert_rewrite("tests.ir_builder")
