"""Optimizers of arrays by their gradients: ``import warp_like.optim``, as ``warp.optim``.

An optimizer is made of public parts: arrays, kernels and recorded launches. ``launches.py`` records launches over
arrays of any strides, ``optimizer.py`` has what Adam and SGD share, and each algorithm has a file of its own.
"""

from __future__ import annotations

import importlib

from warp_like.optim.adam import Adam, AdamW
from warp_like.optim.lbfgs import LBFGS
from warp_like.optim.sgd import SGD

__all__ = ["LBFGS", "SGD", "Adam", "AdamW"]


def __getattr__(name: str) -> object:
    if name == "linear":  # which most programs do not need
        return importlib.import_module("warp_like.optim.linear")
    raise AttributeError(f"module 'warp_like.optim' has no attribute {name!r}")
