"""The settings as a module, for programs that say ``import warp_like.config``; see ``base/settings.py``."""

import sys

from warp_like.base.settings import settings

sys.modules[__name__] = settings  # type: ignore[assignment]
