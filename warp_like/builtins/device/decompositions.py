"""Singular values, eigenvalues and QR of small matrices in the kernel language, with their adjoints.

Both iterations are Jacobi's: one-sided on the columns for singular values (Hestenes, 1958), two-sided for eigenvalues
of symmetric matrices (Jacobi, 1846). They work on rows of transposed matrices, since a row is one value. A sweep makes
each off-diagonal element zero once; the last is the one that finds nothing to turn.
"""
# mypy: ignore-errors
# ruff: noqa

SWEEPS = 8  # at most: four or five are usual


def rotate_rows(m, p, q, c, s):
    x, y = m[p], m[q]
    m[p] = x * c - y * s
    m[q] = x * s + y * c
    return m


def rotation(x, y, xy, negligible):
    # The smaller rotation that makes an off-diagonal element zero (Golub and Van Loan, Matrix Computations, 8.5). One
    # that is rounding noise stays: between equal values it would turn by any angle.
    root = abs(y - x) + sqrt((y - x) * (y - x) + 4.0 * xy * xy)
    found = abs(xy) > negligible
    t = where(found, copysign(type(x)(2.0), y - x) * xy / where(found, root, type(x)(1.0)), type(x)(0.0))
    c = 1.0 / sqrt(1.0 + t * t)
    return c, c * t


def orthogonalise(b, v, p, q):
    x, y = b[p], b[q]
    xx, yy = dot(x, x), dot(y, y)
    c, s = _jacobi_rotation(xx, yy, dot(x, y), _epsilon(xx) * sqrt(xx * yy))
    return _rotate_rows(b, p, q, c, s), _rotate_rows(v, p, q, c, s)


def order(b, v, p, q):
    if dot(b[q], b[q]) > dot(b[p], b[p]):
        b = _rotate_rows(b, p, q, b.dtype(0.0), b.dtype(-1.0))
        v = _rotate_rows(v, p, q, v.dtype(0.0), v.dtype(-1.0))
    return b, v


def perpendicular(x):
    zero, one = x.dtype(0.0), x.dtype(1.0)
    y = cross(x, where(abs(x[0]) < 0.5, vector(one, zero, zero), vector(zero, one, zero)))
    return y / length(y)


def svd3(A):
    scale = _scale(A)
    b = transpose(A) / scale
    v = identity(3, A.dtype)
    turned, sweep = True, 0
    while turned and sweep < SWEEPS:
        before = v
        b, v = _orthogonalise(b, v, 0, 1)
        b, v = _orthogonalise(b, v, 0, 2)
        b, v = _orthogonalise(b, v, 1, 2)
        turned = v != before
        sweep += 1
    b, v = _order(b, v, 0, 1)
    b, v = _order(b, v, 1, 2)
    b, v = _order(b, v, 0, 1)
    zero, one = A.dtype(0.0), A.dtype(1.0)
    size = length(b[0])
    first = where(size > 0.0, normalize(b[0]), vector(one, zero, zero))
    rest = b[1] - first * dot(first, b[1])
    # The columns are orthogonal by now, but for one that is rounding noise.
    second = where(length(rest) > 0.5 * length(b[1]), normalize(rest), _perpendicular(first))
    third = cross(first, second)
    sigma = vector(size, dot(second, b[1]), dot(third, b[2])) * scale
    return matrix_from_cols(first, second, third), sigma, transpose(v)


def svd2(A):
    scale = _scale(A)
    b = transpose(A) / scale
    v = identity(2, A.dtype)
    for _sweep in range(3):
        b, v = _orthogonalise(b, v, 0, 1)
    b, v = _order(b, v, 0, 1)
    size = length(b[0])
    first = where(size > 0.0, normalize(b[0]), vector(A.dtype(1.0), A.dtype(0.0)))
    second = vector(-first[1], first[0])
    along = dot(second, b[1])
    second = second * copysign(A.dtype(1.0), along)
    return matrix_from_cols(first, second), vector(size, abs(along)) * scale, transpose(v)


def svd_pair(p, mu, mv, sigma, i, j):
    # Of the two terms only the first, which tells the sides' common rotation, is singular at repeated values.
    a, b = mu[i, j] - mu[j, i], mv[i, j] - mv[j, i]
    x = 0.5 * (a + b) * _gap_inverse(sigma[j] - sigma[i], sigma[0])
    y = 0.5 * (a - b) * _gap_inverse(sigma[j] + sigma[i], sigma[0])
    p[i, j] = x + y
    p[j, i] = x - y
    return p


def svd3_adjoint(gu, gs, gv, u, sigma, v):
    mu, mv = transpose(u) * gu, transpose(v) * gv
    p = diag(gs)
    p = _svd_pair(p, mu, mv, sigma, 0, 1)
    p = _svd_pair(p, mu, mv, sigma, 0, 2)
    p = _svd_pair(p, mu, mv, sigma, 1, 2)
    return u * p * transpose(v)


def svd2_adjoint(gu, gs, gv, u, sigma, v):
    p = _svd_pair(diag(gs), transpose(u) * gu, transpose(v) * gv, sigma, 0, 1)
    return u * p * transpose(v)


def diagonalise(a, v, p, q):
    c, s = _jacobi_rotation(a[p, p], a[q, q], a[p, q], _epsilon(a[p, q]))  # the largest element is 1
    a = transpose(_rotate_rows(transpose(_rotate_rows(a, p, q, c, s)), p, q, c, s))
    return a, _rotate_rows(v, p, q, c, s)


def order_eigenvalues(d, v, p, q):
    if d[q] > d[p]:
        d[p], d[q] = d[q], d[p]
        v = _rotate_rows(v, p, q, v.dtype(0.0), v.dtype(-1.0))
    return d, v


def eig3(A):
    scale = _scale(A)
    a = (A / scale + transpose(A / scale)) * 0.5
    v = identity(3, A.dtype)
    turned, sweep = True, 0
    while turned and sweep < SWEEPS:
        before = v
        a, v = _diagonalise(a, v, 0, 1)
        a, v = _diagonalise(a, v, 0, 2)
        a, v = _diagonalise(a, v, 1, 2)
        turned = v != before
        sweep += 1
    d = get_diag(a) * scale
    d, v = _order_eigenvalues(d, v, 0, 1)
    d, v = _order_eigenvalues(d, v, 1, 2)
    d, v = _order_eigenvalues(d, v, 0, 1)
    return transpose(v), d


def eig_pair(p, m, d, scale, i, j):
    x = 0.5 * (m[i, j] - m[j, i]) * _gap_inverse(d[j] - d[i], scale)
    p[i, j] = x
    p[j, i] = x
    return p


def eig3_adjoint(gq, gd, q, d):
    m = transpose(q) * gq
    scale = max(abs(d[0]), abs(d[2]))
    p = _eig_pair(diag(gd), m, d, scale, 0, 1)
    p = _eig_pair(p, m, d, scale, 0, 2)
    p = _eig_pair(p, m, d, scale, 1, 2)
    return q * p * transpose(q)


def eliminate(r, t, p, q):
    x, y = r[p, p], r[q, p]
    h = sqrt(x * x + y * y)
    found = h > 0.0
    c = where(found, x / where(found, h, type(h)(1.0)), type(h)(1.0))
    s = where(found, -y / where(found, h, type(h)(1.0)), type(h)(0.0))
    r = _rotate_rows(r, p, q, c, s)
    r[q, p] = type(h)(0.0)
    return r, _rotate_rows(t, p, q, c, s)


def qr3(A):
    # Givens rotations (Golub and Van Loan, Matrix Computations, 5.2.5).
    scale = _scale(A)
    r, t = A / scale, identity(3, A.dtype)
    r, t = _eliminate(r, t, 0, 1)
    r, t = _eliminate(r, t, 0, 2)
    r, t = _eliminate(r, t, 1, 2)
    return transpose(t), r * scale


def qr3_adjoint(gq, gr, q, r):
    # Seeger et al. (2017), Auto-Differentiating Linear Algebra: the lower triangle, mirrored, times Q, over R^T.
    zero = gr.dtype(0.0)
    upper = matrix_from_rows(gr[0], vector(zero, gr[1, 1], gr[1, 2]), vector(zero, zero, gr[2, 2]))
    m = r * transpose(upper) - transpose(gq) * q
    mirrored = matrix_from_rows(
        vector(m[0, 0], m[1, 0], m[2, 0]), vector(m[1, 0], m[1, 1], m[2, 1]), vector(m[2, 0], m[2, 1], m[2, 2])
    )
    b = transpose(gq + q * mirrored)
    third = b[2] * _pivot_inverse(r[2, 2])
    second = (b[1] - third * r[1, 2]) * _pivot_inverse(r[1, 1])
    first = (b[0] - second * r[0, 1] - third * r[0, 2]) * _pivot_inverse(r[0, 0])
    return matrix_from_cols(first, second, third)


def pivot_inverse(x):
    return where(x == 0.0, type(x)(0.0), 1.0 / where(x == 0.0, type(x)(1.0), x))
