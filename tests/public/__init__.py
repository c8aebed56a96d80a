"""Public programs written for Warp, pinned and unchanged; ``python -m tests.public.run``, or ``make test-public``."""
