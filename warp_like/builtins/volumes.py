"""Volumes: sparse grids of voxels, as in files of NanoVDB."""
# mypy: disable-error-code="valid-type, empty-body, no-redef, syntax"

from typing import Any

from warp_like.builtins.bvh import VEC3
from warp_like.builtins.device import volumes as device
from warp_like.builtins.hash_grid import PRIVATE
from warp_like.builtins.patterns import V3, AnyValue, F
from warp_like.builtins.spec import Inline, NoGradient, Special, builtin, declare_row
from warp_like.ir.types import bool_, float32, int32, int64, uint64

GROUP = "Geometry"
HELD = NoGradient("voxels carry no gradient")
T = AnyValue("T")
_IJK = {"i": int32, "j": int32, "k": int32}
_OF = {"type": int32, "zero": T}

for _name, _params in {
    "_volume": ("id", "word"),
    "_value_at": ("grid", "at", "like"),
    "_store_at": ("grid", "at", "value"),
    "_scaled": ("value", "weight"),
    "_map_at": ("grid", "n", "like"),
}.items():
    declare_row(_name, Special(), dict.fromkeys(_params, Any), None, group=PRIVATE, doc="Reach memory of a volume.")

_BODIES: tuple[tuple[str, Any, dict[str, Any], Any], ...] = (
    (
        "_volume_child",
        device.child,
        {"grid": uint64, "node": int64, "mask": int64, "table": int64, "stride": int64, "n": int32},
        (int64, bool_),
    ),
    ("_volume_root_child", device.root_child, {"id": uint64, "grid": uint64, **_IJK}, (int64, bool_)),
    ("_volume_voxel", device.voxel, {"id": uint64, **_IJK}, (int64, bool_)),
    ("_volume_holds", device.holds, {"id": uint64, "type": int32}, bool_),
    ("_volume_lookup", device.lookup, {"id": uint64, **_IJK, **_OF}, T),
    ("_volume_store", device.store, {"id": uint64, **_IJK, "type": int32, "value": T}, None),
    ("_volume_nearest", device.nearest, {"x": float32}, int32),
    ("_volume_sample_closest", device.sample_closest, {"id": uint64, "uvw": VEC3, **_OF}, T),
    ("_volume_sample_linear", device.sample_linear, {"id": uint64, "uvw": VEC3, **_OF}, T),
    ("_volume_sample", device.sample, {"id": uint64, "uvw": VEC3, "sampling_mode": int32, **_OF}, T),
    ("_volume_row", device.row, {"id": uint64, "first": int32, "at": int32, "x": V3}, F),
    ("_volume_turned", device.turned, {"id": uint64, "x": V3, "first": int32}, V3),
    ("_volume_origin", device.origin, {"id": uint64, "x": V3}, V3),
)
for _name, _body, _taken, _given in _BODIES:
    declare_row(_name, Inline(_body, called=True), _taken, _given, group=PRIVATE, doc="Read a volume.")

_ID = "volume = wp.uint64(0)  # the `id` of a wp.Volume; of none, which is 0\n"
_AT = "wp.vec3(a[0], 0.0, 0.0)"


@builtin(
    group=GROUP,
    lower=Special(gradient="Linear samples of floats have gradients to ``uvw``."),
    example=_ID + f"a[0] = wp.volume_sample(volume, {_AT}, wp.Volume.LINEAR, dtype=float)",
)
def volume_sample(id: Any, uvw: Any, sampling_mode: Any, dtype: Any) -> Any:
    """Return the value at ``uvw`` of a volume of values of ``dtype``. Voxel ``(i, j, k)`` is at these numbers.

    ``wp.Volume.LINEAR`` interpolates between the eight voxels around, ``wp.Volume.CLOSEST`` takes the nearest one, as
    is always done with integers. Where there are no voxels, the value is the volume's background. It is 0 for a volume
    of another type. ``wp.volume_world_to_index`` makes ``uvw`` of a place in the world.
    """


@builtin(
    group=GROUP,
    lower=Special(gradient="Voxels carry no gradient."),
    example=_ID + "a[0] = wp.volume_lookup(volume, 1, 2, 3, dtype=float)",
)
def volume_lookup(id: Any, i: Any, j: Any, k: Any, dtype: Any) -> Any:
    """Return the value of a voxel of a volume of values of ``dtype``; the background where there is none."""


@builtin(
    group=GROUP,
    lower=Special(gradient="Voxels carry no gradient."),
    example=_ID + "wp.volume_store(volume, 1, 2, 3, a[0])",
)
def volume_store(id: Any, i: Any, j: Any, k: Any, value: Any) -> None:
    """Set a voxel of a volume of values of the type of ``value``; where there is none, do nothing."""


@builtin(
    group=GROUP,
    lower=Inline(device.sample_f, called=True),
    example=_ID + f"a[0] = wp.volume_sample_f(volume, {_AT}, wp.Volume.LINEAR)",
)
def volume_sample_f(id: uint64, uvw: VEC3, sampling_mode: int32) -> float32:
    """Return ``volume_sample`` of a volume of float32."""


@builtin(
    group=GROUP,
    lower=Inline(device.sample_i, called=True),
    adjoint=HELD,
    example=_ID + f"n[0] = wp.volume_sample_i(volume, {_AT})",
)
def volume_sample_i(id: uint64, uvw: VEC3) -> int32:
    """Return the value of the voxel nearest to ``uvw`` of a volume of int32."""


@builtin(
    group=GROUP,
    lower=Inline(device.sample_v, called=True),
    example=_ID + f"a[0] = wp.volume_sample_v(volume, {_AT}, wp.Volume.LINEAR)[0]",
)
def volume_sample_v(id: uint64, uvw: VEC3, sampling_mode: int32) -> VEC3:
    """Return ``volume_sample`` of a volume of ``wp.vec3``."""


@builtin(
    group=GROUP,
    lower=Inline(device.sample_grad, called=True),
    assigns=("grad",),
    example=_ID
    + f"grad = wp.vec3(0.0)\na[0] = wp.volume_sample_grad_f(volume, {_AT}, wp.Volume.LINEAR, grad) + grad[0]",
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
        adjoint=HELD,
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
        example=_ID + f"a[0] = wp.volume_{_name}(volume, {_AT})[0]",
    )


@builtin(
    group=GROUP,
    lower=Inline(device.voxel_count, called=True),
    adjoint=HELD,
    example=_ID + "n[0] = wp.volume_voxel_count(volume)",
)
def volume_voxel_count(id: uint64) -> int32:
    """Return how many voxels the tiles of a volume have: 512 each."""
