"""Tests of the builtin tables; what they check follows from the rows themselves."""
