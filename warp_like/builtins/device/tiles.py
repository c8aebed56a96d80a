"""Algorithms on tiles in the kernel language: factorisations, solves, sorting.

The names are builtins; each function is compiled for the tiles that it is called with.
"""
# mypy: ignore-errors
# ruff: noqa

from typing import Any


def cholesky(a: Any):
    """The lower triangular ``l`` with ``l @ l^T == a``; reads the lower triangle of ``a``."""
    n = len(a)
    l = tile_zeros(shape=(len(a), len(a)), dtype=a.dtype)
    for j in range(n):
        s = a[j, j]
        for k in range(j):
            s -= l[j, k] * l[j, k]
        pivot = sqrt(s)
        l[j, j] = pivot
        for i in range(j + 1, n):
            s = a[i, j]
            for k in range(j):
                s -= l[i, k] * l[j, k]
            l[i, j] = s / pivot
    return l


def lower_solve(l: Any, y: Any):
    """The ``x`` with ``l @ x == y``, column by column; reads the lower triangle of ``l``."""
    n = len(l)
    x = y
    for i in range(n):
        for k in range(i):
            for j in range(len(x[0])):
                x[i, j] -= l[i, k] * x[k, j]
        for j in range(len(x[0])):
            x[i, j] = x[i, j] / l[i, i]
    return x


def lower_solve_transposed(l: Any, y: Any):
    """The ``x`` with ``l^T @ x == y``; reads the lower triangle of ``l``."""
    n = len(l)
    x = y
    for r in range(n):
        i = n - 1 - r
        for k in range(i + 1, n):
            for j in range(len(x[0])):
                x[i, j] -= l[k, i] * x[k, j]
        for j in range(len(x[0])):
            x[i, j] = x[i, j] / l[i, i]
    return x


def upper_solve(u: Any, y: Any):
    """The ``x`` with ``u @ x == y``; reads the upper triangle of ``u``."""
    n = len(u)
    x = y
    for r in range(n):
        i = n - 1 - r
        for k in range(i + 1, n):
            for j in range(len(x[0])):
                x[i, j] -= u[i, k] * x[k, j]
        for j in range(len(x[0])):
            x[i, j] = x[i, j] / u[i, i]
    return x


def upper_solve_transposed(u: Any, y: Any):
    """The ``x`` with ``u^T @ x == y``; reads the upper triangle of ``u``."""
    n = len(u)
    x = y
    for i in range(n):
        for k in range(i):
            for j in range(len(x[0])):
                x[i, j] -= u[k, i] * x[k, j]
        for j in range(len(x[0])):
            x[i, j] = x[i, j] / u[i, i]
    return x


def order(keys: Any):
    """The numbers of the elements in ascending order, equal ones as they come, by merging runs."""
    n = len(keys)
    ordered = tile_arange(len(keys), dtype=int32)
    merged = tile_zeros(shape=len(keys), dtype=int32)
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            i = low
            middle = min(low + width, n)
            j = middle
            end = min(low + 2 * width, n)
            for k in range(low, end):
                from_left = i < middle
                if from_left and j < end:
                    from_left = not (keys[ordered[j]] < keys[ordered[i]])
                if from_left:
                    merged[k] = ordered[i]
                    i += 1
                else:
                    merged[k] = ordered[j]
                    j += 1
        last = ordered
        ordered = merged
        merged = last
        width *= 2
    return ordered
