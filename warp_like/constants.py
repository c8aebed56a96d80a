"""Numbers with a name, for kernels and for the host: ``wp.pi`` or ``wp.PI``, and so on.

In a kernel they are literals like any other: they take the float type of what they are combined with.
"""

from __future__ import annotations

import math

__all__ = ["e", "half_pi", "inf", "ln2", "ln10", "log2e", "log10e", "nan", "phi", "pi", "tau"]
__all__ += ["E", "HALF_PI", "INF", "LN2", "LN10", "LOG2E", "LOG10E", "NAN", "PHI", "PI", "TAU"]

E = e = math.e
HALF_PI = half_pi = math.pi / 2.0
INF = inf = math.inf
LN2 = ln2 = math.log(2.0)
LN10 = ln10 = math.log(10.0)
LOG2E = log2e = 1.0 / math.log(2.0)
LOG10E = log10e = 1.0 / math.log(10.0)
NAN = nan = math.nan
PHI = phi = (1.0 + math.sqrt(5.0)) / 2.0
PI = pi = math.pi
TAU = tau = math.tau
