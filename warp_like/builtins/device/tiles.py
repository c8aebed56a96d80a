"""Algorithms on tiles in the kernel language: factorisations, solves, sorting.

The names are builtins; each function is compiled for the tiles that it is called with.
"""
# mypy: ignore-errors
# ruff: noqa

from typing import Any


def cholesky(a: Any):
    """The lower triangular ``l`` with ``l @ l^T == a``; reads the lower triangle of ``a``.

    Two columns and two rows at a time: four sums that do not wait for each other, of four numbers a step. Each element
    is computed as it would be alone. The reciprocal of a pivot is finite, as no root is denormal.
    """
    n = len(a)
    l = tile_zeros(shape=(len(a), len(a)), dtype=a.dtype)
    for j in range(0, n - 1, 2):
        p = a[j, j]
        q = a[j + 1, j]
        r = a[j + 1, j + 1]
        for k in range(j):
            p -= l[j, k] * l[j, k]
            q -= l[j + 1, k] * l[j, k]
            r -= l[j + 1, k] * l[j + 1, k]
        p = sqrt(p)
        first = 1.0 / p
        q *= first
        r = sqrt(r - q * q)
        second = 1.0 / r
        l[j, j] = p
        l[j + 1, j] = q
        l[j + 1, j + 1] = r
        for i in range(j + 2, n - 1, 2):
            s = a[i, j]
            t = a[i, j + 1]
            u = a[i + 1, j]
            v = a[i + 1, j + 1]
            for k in range(j):
                s -= l[i, k] * l[j, k]
                t -= l[i, k] * l[j + 1, k]
                u -= l[i + 1, k] * l[j, k]
                v -= l[i + 1, k] * l[j + 1, k]
            s *= first
            u *= first
            l[i, j] = s
            l[i, j + 1] = (t - s * q) * second
            l[i + 1, j] = u
            l[i + 1, j + 1] = (v - u * q) * second
        if n % 2 == 1:
            s = a[n - 1, j]
            t = a[n - 1, j + 1]
            for k in range(j):
                s -= l[n - 1, k] * l[j, k]
                t -= l[n - 1, k] * l[j + 1, k]
            s *= first
            l[n - 1, j] = s
            l[n - 1, j + 1] = (t - s * q) * second
    if n % 2 == 1:
        s = a[n - 1, n - 1]
        for k in range(n - 1):
            s -= l[n - 1, k] * l[n - 1, k]
        l[n - 1, n - 1] = sqrt(s)
    return l


def lower_solve(l: Any, y: Any):
    """The ``x`` with ``l @ x == y``, column by column; reads the lower triangle of ``l``."""
    n = len(l)
    x = y
    if len(x[0]) == 1:
        for i in range(n):
            s = x[i, 0]
            for k in range(i):
                s -= l[i, k] * x[k, 0]
            x[i, 0] = s / l[i, i]
        return x
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
    if len(x[0]) == 1:
        for r in range(n):
            i = n - 1 - r
            s = x[i, 0]
            for k in range(i + 1, n):
                s -= l[k, i] * x[k, 0]
            x[i, 0] = s / l[i, i]
        return x
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
    if len(x[0]) == 1:
        for r in range(n):
            i = n - 1 - r
            s = x[i, 0]
            for k in range(i + 1, n):
                s -= u[i, k] * x[k, 0]
            x[i, 0] = s / u[i, i]
        return x
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
    if len(x[0]) == 1:
        for i in range(n):
            s = x[i, 0]
            for k in range(i):
                s -= u[k, i] * x[k, 0]
            x[i, 0] = s / u[i, i]
        return x
    for i in range(n):
        for k in range(i):
            for j in range(len(x[0])):
                x[i, j] -= u[k, i] * x[k, j]
        for j in range(len(x[0])):
            x[i, j] = x[i, j] / u[i, i]
    return x


# --- the same for the threads of a block together: what follows from a column, or a row, is done at once ---


def cholesky_together(a: Any):
    """As ``cholesky``, to the bit; each column is taken off the rest of the matrix."""
    n = len(a)
    l = tile_zeros(shape=(len(a), len(a)), dtype=a.dtype)
    column = tile_zeros(shape=len(a), dtype=a.dtype)
    for i in range(n):
        for k in range(i + 1):
            l[i, k] = a[i, k]
    for j in range(n):
        pivot = sqrt(l[j, j])
        inverse = 1.0 / pivot
        for i in range(j, n):
            column[i] = where(i == j, pivot, l[i, j] * inverse)
            l[i, j] = column[i]
        for i in range(j + 1, n):
            for k in range(j + 1, i + 1):
                l[i, k] -= column[i] * column[k]
    return l


def solve_together(a: Any, y: Any, last_first: bool, turned: bool):
    """The ``x`` with ``a @ x == y``, or ``a^T @ x == y`` if ``turned``: each row of it is taken off the rows that follow.

    The rows go down, or up if ``last_first``: as ``lower_solve`` and ``upper_solve_transposed``, or the other two.
    """
    n = len(a)
    x = y
    row = y[0] * 1.0
    for r in range(n):
        i = where(last_first, n - 1 - r, r)
        for j in range(len(x[0])):
            row[j] = x[i, j] / a[i, i]
            x[i, j] = row[j]
        for k in range(where(last_first, 0, i + 1), where(last_first, i, n)):
            for j in range(len(x[0])):
                x[k, j] -= where(turned, a[i, k], a[k, i]) * row[j]
    return x


def order(keys: Any):
    """The order of a few keys: each comes after those that are less, and equal ones in front of it."""
    n = len(keys)
    ordered = tile_zeros(shape=len(keys), dtype=int32)
    for i in range(n):
        key = keys[i]
        before = int32(0)
        for j in range(i):
            before += int32(keys[j] <= key)
        for j in range(i + 1, n):
            before += int32(keys[j] < key)
        ordered[before] = i
    return ordered
