"""Reverse-mode differentiation as a transform from IR to IR."""
