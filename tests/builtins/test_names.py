"""Names and argument names of the builtins are those of Warp's API."""

from __future__ import annotations

import linecache
import re

import pytest

import warp_like as wp
from warp_like.builtins.spec import REGISTRY
from warp_like.values import Composite

NAMES = """
Scalar Math
    min(a, b)(a) max(a, b)(a) clamp(x, low, high) abs(x) sign(x) copysign(x, y) step(x) nonzero(x) bit_count(x) sin(x)
    cos(x) acos(x) asin(x) sqrt(x) cbrt(x) tan(x) atan(x) atan2(y, x) sinh(x) cosh(x) tanh(x) degrees(x) radians(x)
    log(x) log2(x) log10(x) exp(x) pow(x, y) erf(x) erfc(x) erfinv(x) erfcinv(x) round(x) rint(x) trunc(x) floor(x)
    ceil(x) frac(x) isfinite(a) isnan(a) isinf(a)

Vector Math
    dot(a, b) ddot(a, b) argmin(a) argmax(a) outer(a, b) cross(a, b) skew(vec) length(a) length_sq(a) normalize(a)
    transpose(a) inverse(a) inverse_approx(a) determinant(a) trace(a) diag(vec) get_diag(mat) cw_mul(a, b)
    cw_div(a, b) vector(*args, length, dtype) matrix(pos, rot, scale, dtype)(*args, shape, dtype)
    matrix_from_cols(*args) matrix_from_rows(*args) identity(n, dtype) svd3(A)(A, U, sigma, V) svd2(A)(A, U, sigma, V)
    qr3(A)(A, Q, R) eig3(A)(A, Q, d) norm_l1(v) norm_l2(v) norm_huber(v, delta) norm_pseudo_huber(v, delta)
    smooth_normalize(v, delta)

Quaternion Math
    quaternion(dtype)(x, y, z, w, dtype)(ijk, real, dtype)(quat, dtype) quat_identity(dtype)
    quat_from_axis_angle(axis, angle) quat_to_axis_angle(quat)(quat, axis, angle) quat_from_matrix(mat)
    quat_rpy(roll, pitch, yaw) quat_inverse(quat) quat_rotate(quat, vec) quat_rotate_inv(quat, vec)
    quat_slerp(a, b, t) quat_to_matrix(quat) quat_from_euler(e, i, j, k) quat_to_euler(q, i, j, k) quat_to_rpy(q)
    quat_between_vectors(a, b) closest_point_edge_edge(p1, q1, p2, q2, epsilon)
    intersect_tri_tri(v0, v1, v2, u0, u1, u2)
    hash_grid_query(id, point, max_dist)(id, point, max_dist, group) hash_grid_query_next(query, index)
    hash_grid_point_id(id, index)
    bvh_query_aabb(id, low, high, root) bvh_query_ray(id, start, dir, root)
    bvh_query_capsule(id, start, dir, radius, root) bvh_query_sphere(id, center, radius, root)
    bvh_query_next(query, index, max_dist) bvh_get_group_root(id, group)
    mesh_query_ray(id, start, dir, max_t, root)(id, start, dir, max_t, t, bary_u, bary_v, sign, normal, face, root)
    mesh_query_ray_anyhit(id, start, dir, max_t, root)
    mesh_query_ray_count_intersections(id, start, dir, root)
    mesh_query_point(id, point, max_dist)(id, point, max_dist, inside, face, bary_u, bary_v)
    mesh_query_point_no_sign(id, point, max_dist)(id, point, max_dist, face, bary_u, bary_v)
    mesh_eval_position(id, face, bary_u, bary_v)
    mesh_eval_velocity(id, face, bary_u, bary_v) mesh_eval_face_normal(id, face) mesh_get_point(id, index)
    mesh_get_velocity(id, index) mesh_get_index(id, index) mesh_get_bvh(id) mesh_get_group_root(id, group)
    mesh_query_aabb(id, low, high) mesh_query_next(query, index)
    tile_bvh_query_aabb(id, low, high, root) tile_bvh_query_ray(id, start, dir, root) tile_bvh_query_next(query)
    tile_mesh_query_aabb(id, low, high) tile_mesh_query_aabb_next(query) tile_query_valid(query)
    bvh_query_aabb_tiled(id, low, high) bvh_query_ray_tiled(id, start, dir) bvh_query_next_tiled(query)
    mesh_query_aabb_tiled(id, low, high) mesh_query_aabb_next_tiled(query)
    mesh_query_aabb_next(query, index) mesh_get(id) texture_sample(tex, *args)
    mesh_query_sphere(id, center, radius) volume_sample(id, uvw, sampling_mode, dtype)
    volume_lookup(id, i, j, k, dtype) volume_store(id, i, j, k, value) volume_sample_f(id, uvw, sampling_mode)
    volume_sample_i(id, uvw) volume_sample_v(id, uvw, sampling_mode)
    volume_sample_grad(id, uvw, sampling_mode, grad, dtype) volume_lookup_index(id, i, j, k)
    volume_sample_index(id, uvw, sampling_mode, voxel_data, background)
    volume_sample_grad_index(id, uvw, sampling_mode, voxel_data, background, grad)
    volume_sample_grad_f(id, uvw, sampling_mode, grad) volume_lookup_f(id, i, j, k) volume_lookup_i(id, i, j, k)
    volume_lookup_v(id, i, j, k) volume_store_f(id, i, j, k, value) volume_store_i(id, i, j, k, value)
    volume_store_v(id, i, j, k, value) volume_index_to_world(id, uvw) volume_world_to_index(id, xyz)
    volume_index_to_world_dir(id, uvw) volume_world_to_index_dir(id, xyz) volume_voxel_count(id)
    mesh_query_point_sign_normal(id, point, max_dist, epsilon)
    mesh_query_point_sign_normal(id, point, max_dist, inside, face, bary_u, bary_v, epsilon)
    mesh_query_point_sign_parity(id, point, max_dist, n_sample, perturbation_scale)
    mesh_query_point_sign_parity(id, point, max_dist, inside, face, bary_u, bary_v, n_sample, perturbation_scale)
    mesh_query_point_sign_winding_number(id, point, max_dist, accuracy, threshold)
    mesh_query_point_sign_winding_number(id, point, max_dist, inside, face, bary_u, bary_v, accuracy, threshold)
    mesh_query_furthest_point_no_sign(id, point, min_dist)(id, point, min_dist, face, bary_u, bary_v)
    quat_twist(axis, q) quat_twist_angle(axis, q) quat_twist_angle_signed(axis, q)

Transformations
    transformation(p, q, dtype)(*args, dtype) transform_identity(dtype) transform_get_translation(xform)
    transform_get_rotation(xform) transform_set_translation(xform, p) transform_set_rotation(xform, q)
    transform_multiply(a, b) transform_point(xform, point)(mat, point) transform_vector(xform, vec)(mat, vec)
    transform_inverse(xform) transform_from_matrix(mat) transform_to_matrix(xform)
    transform_compose(position, rotation, scale) transform_decompose(m)

Spatial Math
    spatial_adjoint(r, s) spatial_dot(a, b) spatial_cross(a, b) spatial_cross_dual(a, b) spatial_top(svec)
    spatial_bottom(svec) velocity_at_point(qd, r) transform_twist(t, x) transform_wrench(t, x)

Utility
    select(cond, value_if_false, value_if_true)(arr, value_if_false, value_if_true)
    where(cond, value_if_true, value_if_false)(arr, value_if_true, value_if_false) printf(fmt, *args) print(*values)
    breakpoint() expect_eq(a, b) expect_neq(a, b) expect_near(a, b, tolerance) tid() lerp(a, b, t)
    smoothstep(a, b, x) len(a) cast(a, dtype) static(expr) address_of(value)
    atomic_add(arr, *indices, value) atomic_sub(arr, *indices, value) atomic_min(arr, *indices, value)
    atomic_max(arr, *indices, value) atomic_and(arr, *indices, value) atomic_or(arr, *indices, value)
    atomic_xor(arr, *indices, value) atomic_exch(arr, *indices, value) atomic_cas(arr, *indices, compare, value)

Blocks and Warps
    block_dim() block_size() block_thread() block_sync() block_sum(value) block_min(value) block_max(value)
    block_any(cond) block_all(cond) shared_array(shape, dtype) warp_size() warp_lane() warp_sum(value) warp_min(value)
    warp_max(value) warp_any(cond) warp_all(cond) warp_ballot(cond) warp_shuffle(value, lane)
    warp_shuffle_up(value, distance) warp_shuffle_down(value, distance) warp_shuffle_xor(value, mask)

Random
    rand_init(seed)(seed, offset) randi(state)(state, low, high) randu(state)(state, low, high)
    randf(state)(state, low, high) randn(state) sample_cdf(state, cdf) sample_triangle(state) sample_unit_ring(state)
    sample_unit_disk(state) sample_unit_sphere_surface(state) sample_unit_sphere(state)
    sample_unit_hemisphere_surface(state) sample_unit_hemisphere(state) sample_unit_square(state)
    sample_unit_cube(state) poisson(state, lam) noise(state, x)(state, xy)(state, xyz)(state, xyzt)
    pnoise(state, x, px)(state, xy, px, py)(state, xyz, px, py, pz)(state, xyzt, px, py, pz, pt)
    curlnoise(state, xy, octaves, lacunarity, gain)(state, xyz, octaves, lacunarity, gain)
    curlnoise(state, xyzt, octaves, lacunarity, gain)

Other
    lower_bound(arr, value)(arr, arr_begin, arr_end, value)

Operators
    add(a, b) sub(a, b) bit_and(a, b) bit_or(a, b) bit_xor(a, b) lshift(a, b) rshift(a, b) invert(a) mul(a, b)
    mod(a, b) div(a, b) div_approx(a, b) floordiv(a, b) pos(x) neg(x) unot(a) lt(a, b) le(a, b) gt(a, b) ge(a, b)
    eq(a, b) ne(a, b)

Tiles
    tile_sum(a) tile_dot(a, b) tile_min(a) tile_argmin(a) tile_max(a) tile_argmax(a)
    tile_zeros(shape, dtype, storage) tile_ones(shape, dtype, storage) tile_empty(shape, dtype, storage)
    tile_full(shape, value, dtype, storage) tile_arange(start, stop, step, dtype, storage)
    tile_randi(shape, rng, min, max, storage) tile_randf(shape, rng, min, max, storage)
    tile_load(a, shape, offset, storage, bounds_check, aligned) tile_store(a, t, offset, bounds_check, aligned)
    tile_load_indexed(a, indices, shape, offset, axis, storage) tile_store_indexed(a, indices, t, offset, axis)
    tile_atomic_add(a, t, offset, bounds_check) tile_atomic_min(a, t, offset, bounds_check)
    tile_atomic_max(a, t, offset, bounds_check) tile_atomic_add_indexed(a, indices, t, offset, axis)
    tile_view(t, offset, shape) tile_slice_indexed(t, indices) tile_squeeze(t, axis) tile_reshape(t, shape)
    tile_transpose(a) tile_broadcast(a, shape) tile_extract(a, i, j, k, l, m, n) tile_assign(dst, src, offset)
    tile(x, preserve_type) untile(a) tile_from_thread(shape, value, thread_idx, storage)
    tile_scatter_add(a, i, value, has_value, atomic) tile_scatter_masked(a, i, value, has_value)
    tile_stack(capacity, dtype) tile_stack_push(s, value, has_value) tile_stack_pop(s) tile_stack_clear(s)
    tile_stack_count(s) tile_map(op, a, *args) tile_astype(t, dtype) tile_where(cond, a, b) tile_reduce(op, a, axis)
    tile_scan_inclusive(a) tile_scan_exclusive(a) tile_scan_max_inclusive(a) tile_scan_min_inclusive(a)
    tile_sort(keys, values) tile_matmul(a, b, out, alpha, beta, precision)
    tile_matmul_transpose_update(a, b, out, alpha, beta, precision) tile_diag_add(a, d) tile_cholesky(A, fill_mode)
    tile_cholesky_inplace(A, fill_mode) tile_lower_solve(L, y) tile_lower_solve_inplace(L, y) tile_upper_solve(U, z)
    tile_upper_solve_inplace(U, z) tile_cholesky_solve(L, y, fill_mode) tile_cholesky_solve_inplace(L, y, fill_mode)
    tile_add_inplace(a, b) tile_sub_inplace(a, b) tile_bit_and_inplace(a, b) tile_bit_or_inplace(a, b)
    tile_bit_xor_inplace(a, b) tile_axpy(alpha, src, dest) tile_fft(inout) tile_ifft(inout)
"""

FORMS: dict[str, list[str]] = {}
for _found in re.finditer(r"(\w+)((?:\([^)]*\))+)", NAMES):
    FORMS.setdefault(_found[1], []).extend(re.findall(r"\(([^)]*)\)", _found[2]))


@pytest.mark.parametrize("name", FORMS)
def test_arguments(name: str) -> None:
    found = dict.fromkeys(", ".join(row.params) for row in REGISTRY[name])
    assert sorted(found) == sorted(FORMS[name])


def test_every_builtin_is_listed() -> None:
    assert sorted(n for n in REGISTRY if not n.startswith("_")) == sorted(FORMS)


def test_types_that_stand_for_constructors() -> None:
    for name in ("transform", "spatial_vector", "spatial_matrix", "quat"):
        for suffix, dtype in {"": wp.float32, "h": wp.float16, "f": wp.float32, "d": wp.float64}.items():
            kind = getattr(wp, name + suffix)
            assert issubclass(kind, Composite)
            assert kind._wp_scalar_type_ is dtype


@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
@pytest.mark.parametrize("name", [n for n in FORMS if n.startswith("atomic_")])
def test_atomics_take_indices_by_name(name: str, ndim: int) -> None:
    """``wp.atomic_add(arr, i, j, value)``, with any of them by name."""
    params = [*"ijkl"[:ndim], *(["compare"] if name == "atomic_cas" else [])]
    given = ", ".join(f"{p}=0" for p in params)
    code = f"@wp.kernel\ndef k(arr: wp.array(dtype=int, ndim={ndim})):\n    wp.{name}(arr, {given}, value=3)\n"
    file = f"<{name} {ndim}>"
    linecache.cache[file] = (len(code), None, code.splitlines(True), file)
    namespace: dict[str, object] = {}
    exec(compile(code, file, "exec"), {"wp": wp}, namespace)
    a = wp.zeros((1,) * ndim, dtype=int)
    wp.launch(namespace["k"], dim=1, inputs=[a])
    assert a.numpy().ravel().tolist() == [{"min": 0, "and": 0, "sub": -3}.get(name[7:], 3)]
