"""Volumes: sparse grids of voxels, as in files of NanoVDB."""
# mypy: disable-error-code="valid-type, empty-body, no-redef, syntax"

from typing import Any

from warp_like.builtins.bvh import VEC3
from warp_like.builtins.device import volumes as device
from warp_like.builtins.hash_grid import PRIVATE
from warp_like.builtins.patterns import V3, AnyValue, ArrayOf, F, I, MatOf, VecOf
from warp_like.builtins.spec import Expand, Inline, NoGradient, Special, builtin, declare_row
from warp_like.ir.types import Mat, Vec, bool_, float32, int32, int64, uint64

GROUP = "Geometry"
HELD = NoGradient("integers carry no gradient")
COUNTED = NoGradient("numbers and counts of voxels carry no gradient")
T = AnyValue("T")
VN, VIN = VecOf("N", F), VecOf("N", I)
_IJK = {"i": int32, "j": int32, "k": int32}
_OF = {"type": int32, "zero": T}
_AT = {"id": uint64, "uvw": VEC3}

for _name, _params in {
    "_volume": ("id", "word"),
    "_value_at": ("grid", "gradient", "at", "like"),
    "_size_in_bits": ("like",),
    "_corners": ("grid", "gradient", "at", "like"),
    "_store_at": ("grid", "at", "value"),
    "_scaled": ("value", "weight"),
    "_map_at": ("grid", "n", "like"),
    "_require_data": ("count", "data"),
}.items():
    declare_row(_name, Special(), dict.fromkeys(_params, Any), None, group=PRIVATE, doc="Reach memory of a volume.")

declare_row(
    "_eight",
    Expand(lambda b, x: b.make(Vec(8, x.type), [x] * 8)),
    {"x": I},
    VecOf(8, I),
    group=PRIVATE,
    doc="Repeat a number.",
    adjoint=COUNTED,
)
_SLOPES: tuple[tuple[Any, Any, Any], ...] = (
    (F, VecOf(3, F), lambda b, dx, dy, dz: b.make(Vec(3, dx.type), [dx, dy, dz])),
    (
        VN,
        MatOf("N", 3, F),
        lambda b, dx, dy, dz: b.make(
            Mat(dx.type.length, 3, dx.type.dtype),
            [x for row in zip(*map(b.components, (dx, dy, dz)), strict=True) for x in row],
        ),
    ),
)
for _column, _whole, _body in _SLOPES:
    declare_row(
        "_slopes",
        Expand(_body),
        dict.fromkeys(("dx", "dy", "dz"), _column),
        _whole,
        group=PRIVATE,
        doc="Return the derivatives along the three axes as the columns of a matrix; of a number, as a vector.",
    )

_OUTLINED: tuple[tuple[str, Any, dict[str, Any], Any], ...] = (
    ("_volume_place", device.place, _IJK, (int64, bool_)),
    ("_volume_cell", device.cell, {**_IJK, "bits": int32}, Vec(8, uint64)),
    ("_volume_index", device.index, _IJK, int32),
    ("_volume_index_cell", device.index_cell, _IJK, Vec(8, int32)),
)
for _name, _body, _taken, _given in _OUTLINED:
    declare_row(
        _name,
        Inline(_body, outlined=True),
        {"id": uint64, **_taken},
        _given,
        group=PRIVATE,
        doc="Find voxels in a volume.",
        adjoint=COUNTED,
    )

_CORNERS = {f"v{n}": T for n in range(8)}
_BODIES: tuple[tuple[str, Any, dict[str, Any], Any], ...] = (
    (
        "_volume_child",
        device.child,
        {"grid": uint64, "node": int64, "mask": int64, "table": int64, "stride": int64, "n": int32},
        (int64, bool_),
    ),
    ("_volume_root_child", device.root_child, {"id": uint64, "grid": uint64, **_IJK}, (int64, bool_)),
    ("_volume_tree_leaf", device.tree_leaf, {"id": uint64, **_IJK}, (int64, bool_)),
    ("_volume_rows", device.rows, {"id": uint64, **_IJK}, (int32, int32, int32)),
    ("_volume_leaf", device.leaf, {"id": uint64, **_IJK}, (int64, bool_)),
    ("_volume_table_cell", device.table_cell, {"id": uint64, **_IJK, "bits": int32}, Vec(8, uint64)),
    ("_volume_in_tile", device.in_tile, _IJK, int32),
    ("_volume_voxel", device.voxel, {"id": uint64, **_IJK}, (int64, bool_)),
    ("_volume_number", device.number, {"id": uint64, "at": int64, "v": int32}, int32),
    ("_volume_holds", device.holds, {"id": uint64, "type": int32}, bool_),
    ("_volume_lookup", device.lookup, {"id": uint64, **_IJK, **_OF}, T),
    ("_volume_store", device.store, {"id": uint64, **_IJK, "type": int32, "value": T}, None),
    ("_volume_nearest", device.nearest, {"x": float32}, int32),
    ("_volume_mix", device.mix, {"a": T, "b": T, "f": float32}, T),
    ("_volume_blend", device.blend, {**_CORNERS, "f": VEC3}, (T, T, T, T)),
    ("_volume_sample_closest", device.sample_closest, {**_AT, **_OF}, T),
    ("_volume_linear", device.linear, {**_AT, **_OF}, (T, T, T, T)),
    ("_volume_sample", device.sample, {**_AT, "sampling_mode": int32, **_OF}, T),
    ("_volume_closest_index", device.closest_index, _AT, int32),
    ("_volume_row", device.row, {"id": uint64, "first": int32, "at": int32, "x": V3}, F),
    ("_volume_turned", device.turned, {"id": uint64, "x": V3, "first": int32}, V3),
    ("_volume_origin", device.origin, {"id": uint64, "x": V3}, V3),
)
for _name, _body, _taken, _given in _BODIES:
    declare_row(_name, Inline(_body, called=True), _taken, _given, group=PRIVATE, doc="Read a volume.")
for _element in (F, VN, I, VIN):
    declare_row(
        "_volume_data_at",
        Inline(device.data_at, called=True),
        {"data": ArrayOf(_element, 1), "index": int32, "background": _element},
        _element,
        group=PRIVATE,
        doc="Read the element of a voxel.",
    )
for _element in (F, VN):
    declare_row(
        "_volume_linear_index",
        Inline(device.linear_index, called=True),
        {**_AT, "data": ArrayOf(_element, 1), "background": _element},
        (_element,) * 4,
        group=PRIVATE,
        doc="Read elements of voxels.",
    )
for _element, _whole in ((F, VecOf(3, F)), (VN, MatOf("N", 3, F))):
    declare_row(
        "_volume_sample_grad",
        Inline(device.sample_grad, called=True),
        {**_AT, "sampling_mode": int32, "type": int32, "zero": _element},
        (_element, _whole),
        group=PRIVATE,
        doc="Read a volume.",
    )

_ID = "volume = wp.uint64(0)  # the `id` of a wp.Volume; of none, which is 0\n"
_UVW = "wp.vec3(a[0], 0.0, 0.0)"


@builtin(
    group=GROUP,
    lower=Special(gradient="Samples of floats have gradients to the voxels, linear ones to ``uvw``, too."),
    example=_ID + f"a[0] = wp.volume_sample(volume, {_UVW}, wp.Volume.LINEAR, dtype=float)",
)
def volume_sample(id: Any, uvw: Any, sampling_mode: Any, dtype: Any) -> Any:
    """Return the value at ``uvw`` of a volume of values of ``dtype``. Voxel ``(i, j, k)`` is at these numbers.

    ``wp.Volume.LINEAR`` interpolates between the eight voxels around, ``wp.Volume.CLOSEST`` takes the nearest one, as
    is always done with integers. Where there are no voxels, the value is the volume's background. It is 0 for a volume
    of another type. ``wp.volume_world_to_index`` makes ``uvw`` of a place in the world.
    """


@builtin(
    group=GROUP,
    lower=Special(gradient="As that of ``volume_sample``."),
    assigns=("grad",),
    example=_ID
    + f"grad = wp.vec3(0.0)\na[0] = wp.volume_sample_grad(volume, {_UVW}, wp.Volume.LINEAR, grad, dtype=float)",
)
def volume_sample_grad(id: Any, uvw: Any, sampling_mode: Any, grad: Any, dtype: Any) -> Any:
    """Return ``volume_sample``, and set ``grad`` to its derivative by ``uvw``.

    For values of one number, ``grad`` is a vector of 3 of these numbers; for vectors of N, a matrix of N rows and 3
    columns. It is 0 for ``wp.Volume.CLOSEST`` and for integers. Where ``uvw`` is a whole number, it is the derivative
    towards larger numbers.
    """


@builtin(
    group=GROUP,
    lower=Special(gradient="Floats have gradients to the voxels."),
    example=_ID + "a[0] = wp.volume_lookup(volume, 1, 2, 3, dtype=float)",
)
def volume_lookup(id: Any, i: Any, j: Any, k: Any, dtype: Any) -> Any:
    """Return the value of a voxel of a volume of values of ``dtype``; the background where there is none."""


@builtin(
    group=GROUP,
    lower=Special(gradient="Stores have none; write to ``volume.values`` where they are to."),
    example=_ID + "wp.volume_store(volume, 1, 2, 3, a[0])",
)
def volume_store(id: Any, i: Any, j: Any, k: Any, value: Any) -> None:
    """Set a voxel of a volume of values of the type of ``value``; where there is none, do nothing."""


@builtin(
    group=GROUP,
    lower=Inline(device.sample_f, called=True),
    example=_ID + f"a[0] = wp.volume_sample_f(volume, {_UVW}, wp.Volume.LINEAR)",
)
def volume_sample_f(id: uint64, uvw: VEC3, sampling_mode: int32) -> float32:
    """Return ``volume_sample`` of a volume of float32."""


@builtin(
    group=GROUP,
    lower=Inline(device.sample_i, called=True),
    adjoint=HELD,
    example=_ID + f"n[0] = wp.volume_sample_i(volume, {_UVW})",
)
def volume_sample_i(id: uint64, uvw: VEC3) -> int32:
    """Return the value of the voxel nearest to ``uvw`` of a volume of int32."""


@builtin(
    group=GROUP,
    lower=Inline(device.sample_v, called=True),
    example=_ID + f"a[0] = wp.volume_sample_v(volume, {_UVW}, wp.Volume.LINEAR)[0]",
)
def volume_sample_v(id: uint64, uvw: VEC3, sampling_mode: int32) -> VEC3:
    """Return ``volume_sample`` of a volume of ``wp.vec3``."""


@builtin(
    group=GROUP,
    lower=Inline(device.sample_grad_f, called=True),
    assigns=("grad",),
    example=_ID
    + f"grad = wp.vec3(0.0)\na[0] = wp.volume_sample_grad_f(volume, {_UVW}, wp.Volume.LINEAR, grad) + grad[0]",
)
def volume_sample_grad_f(id: uint64, uvw: VEC3, sampling_mode: int32, grad: VEC3) -> (float32, VEC3):
    """Return ``volume_sample_f``, and set ``grad`` to its derivative by ``uvw``; 0 for ``wp.Volume.CLOSEST``."""


for _letter, _type, _what in (("f", float32, "float32"), ("i", int32, "int32"), ("v", VEC3, "``wp.vec3``")):
    _value = {"f": "a[0]", "i": "n[0]", "v": "wp.vec3(a[0], 1.0, 2.0)"}[_letter]
    _kept = {"f": "a[0] = {}", "i": "n[0] = {}", "v": "a[0] = {}[0]"}[_letter]
    declare_row(
        f"volume_lookup_{_letter}",
        Inline(getattr(device, f"lookup_{_letter}"), called=True),
        {"id": uint64, **_IJK},
        _type,
        group=GROUP,
        doc=f"Return the value of a voxel of a volume of {_what}; the background where there is none.",
        adjoint=HELD if _letter == "i" else None,
        example=_ID + _kept.format(f"wp.volume_lookup_{_letter}(volume, 1, 2, 3)"),
    )
    declare_row(
        f"volume_store_{_letter}",
        Inline(getattr(device, f"store_{_letter}"), called=True),
        {"id": uint64, **_IJK, "value": _type},
        None,
        group=GROUP,
        doc=f"Set a voxel of a volume of {_what}; where there is none, do nothing.",
        adjoint=HELD,
        example=_ID + f"wp.volume_store_{_letter}(volume, 1, 2, 3, {_value})",
    )

for _name, _param, _doc in (
    ("index_to_world", "uvw", "Return the place in the world of a place in voxels."),
    ("world_to_index", "xyz", "Return the place in voxels of a place in the world, for ``volume_sample``."),
    ("index_to_world_dir", "uvw", "Return a direction in voxels as one in the world."),
    ("world_to_index_dir", "xyz", "Return a direction in the world as one in voxels."),
):
    declare_row(
        f"volume_{_name}",
        Inline(getattr(device, _name), called=True),
        {"id": uint64, _param: V3},
        V3,
        group=GROUP,
        doc=_doc,
        example=_ID + f"a[0] = wp.volume_{_name}(volume, {_UVW})[0]",
    )


@builtin(
    group=GROUP,
    lower=Inline(device.voxel_count, called=True),
    adjoint=COUNTED,
    example=_ID + "n[0] = wp.volume_voxel_count(volume)",
)
def volume_voxel_count(id: uint64) -> int32:
    """Return how many voxels of a volume have a number: of an index grid by voxels so many, else 512 a tile."""


@builtin(
    group=GROUP,
    lower=Inline(device.lookup_index, called=True),
    adjoint=COUNTED,
    example=_ID + "n[0] = wp.volume_lookup_index(volume, 1, 2, 3)",
)
def volume_lookup_index(id: uint64, i: int32, j: int32, k: int32) -> int32:
    """Return the number of a voxel, from 0 to ``volume_voxel_count`` exclusive; -1 for one that has none.

    It is the place in ``get_voxels()`` of the volume, and that of the voxel's element in an array of data.
    """


_DATA: tuple[tuple[Any, Any], ...] = (
    (F, VecOf(3, F)),
    (VN, MatOf("N", 3, F)),
    (I, VecOf(3, I)),
    (VIN, MatOf("N", 3, I)),
)
for _element, _grad in _DATA:
    _is_float = _element in (F, VN)
    _data = {**_AT, "sampling_mode": int32, "voxel_data": ArrayOf(_element, 1), "background": _element}
    declare_row(
        "volume_sample_index",
        Inline(device.sample_index if _is_float else device.sample_index_closest, called=True),
        _data,
        _element,
        group=GROUP,
        doc="""Return the value at ``uvw`` of data that are in an array, with one element for each voxel of a volume.

        The element of a voxel is the one at ``volume_lookup_index``. Several arrays may share a volume, which may be an
        index grid. Voxels that have no number have the value ``background``. Sampling modes are those of
        ``volume_sample``; integers are always those of the nearest voxel. The launch ends with an ``AssertionError``
        where the array has fewer elements than ``volume_voxel_count``. There are gradients to ``uvw``, the array and
        ``background``.
        """,
        example=_ID + f"a[0] = wp.volume_sample_index(volume, {_UVW}, wp.Volume.LINEAR, a, 0.0)",
    )
    declare_row(
        "volume_sample_grad_index",
        Inline(device.sample_grad_index if _is_float else device.sample_grad_index_closest, called=True),
        {**_data, "grad": _grad},
        (_element, _grad),
        group=GROUP,
        doc="""Return ``volume_sample_index``, and set ``grad`` to its derivative by ``uvw``.

        What ``grad`` is and when it is 0 is as for ``volume_sample_grad``.
        """,
        assigns=("grad",),
        example=_ID
        + "grad = wp.vec3(0.0)\n"
        + f"a[0] = wp.volume_sample_grad_index(volume, {_UVW}, wp.Volume.LINEAR, a, 0.0, grad) + grad[0]",
    )
