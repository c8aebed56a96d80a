"""``wp.Texture1D``, ``Texture2D`` and ``Texture3D``: grids of texels, for kernels that sample between them.

In kernels a texture is a small struct: its id and its size (``ir/objects.py``). So structs and arrays hold textures.
Texels are kept as the float32 that samples are made of, and once more as they were given, for ``copy_to``.
"""

from __future__ import annotations

import enum
import operator
from typing import Any, ClassVar

import numpy as np

from warp_like.base.contract import ObjectKind
from warp_like.ir import types as ir
from warp_like.ir.objects import TEXTURES
from warp_like.runtime.arrays.array import array, new_array
from warp_like.runtime.arrays.objects import Descriptor
from warp_like.runtime.geometry.texel_gradients import TexelMemory
from warp_like.runtime.memory.allocation import element_type
from warp_like.runtime.memory.device import Device, get_device
from warp_like.values import dtypes, to_ir
from warp_like.values.classes import STRUCT_CLASSES
from warp_like.values.struct import StructInstance

Texels = np.ndarray[Any, Any]

DTYPES = {
    np.dtype(f"{kind}{size}"): getattr(dtypes, f"{name}{8 * size}")
    for kind, name, sizes in (("u", "uint", (1, 2, 4)), ("i", "int", (1, 2, 4)), ("f", "float", (2, 4)))
    for size in sizes
}
MOST_LEVELS = 16
_BEHIND = 3
"""Numbers behind the last texel, which kernels may read for channels that the texture does not have."""


class TextureFilterMode(enum.IntEnum):
    """How a sample is made of the texels near to it."""

    CLOSEST = 0
    LINEAR = 1


class TextureAddressMode(enum.IntEnum):
    """What is beyond the edges of a texture: it is repeated, or its last texels are, or it is mirrored, or 0."""

    WRAP = 0
    CLAMP = 1
    MIRROR = 2
    BORDER = 3


class Texture(StructInstance):
    """Base of the three classes of textures."""

    __slots__ = ("__weakref__", "_about")
    _ndim_: ClassVar[int]

    def __init__(self, *args: Any, **given: Any) -> None:
        raise TypeError("make a wp.Texture1D, wp.Texture2D or wp.Texture3D")

    def _make(
        self,
        data: Any,
        size: tuple[int, ...],
        channels: int,
        dtype: Any,
        filter_mode: Any,
        address_modes: tuple[Any, ...],
        normalized_coords: bool,
        num_mip_levels: int,
        mip_filter_mode: Any,
        device: Any,
    ) -> None:
        place = get_device(device)
        given = None if data is None else self._texels_of(data, "data")
        texels = self._checked(given, size, channels, dtype)
        levels = _level_count(num_mip_levels, texels.shape[:-1], self._name())
        if levels > 1 and given is None:
            raise ValueError(f"{self._name()}: levels of detail are made of `data`, which is missing")
        whole = texels.dtype.kind in "iu" and texels.dtype.itemsize == 4
        usual = TextureFilterMode.CLOSEST if whole else TextureFilterMode.LINEAR
        filters = [
            usual if mode is None else _mode(self._name(), name, TextureFilterMode, mode)
            for name, mode in (("filter_mode", filter_mode), ("mip_filter_mode", mip_filter_mode))
        ]
        if whole and (filters[0] or (filters[1] and levels > 1)):
            raise ValueError(f"{self._name()}: integers of 32 bits are not filtered; use TextureFilterMode.CLOSEST")
        about = _About(place, texels, levels, filters, address_modes, normalized_coords)
        about.memory.follow(_graded(data))
        values = {
            "id": about.descriptor.id,
            **dict(zip(("width", "height", "depth"), texels.shape[-2::-1], strict=False)),
        }
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_about", about)

    @classmethod
    def _name(cls) -> str:
        return f"{cls.__name__}()"

    def _checked(self, given: Texels | None, size: tuple[int, ...], channels: int, dtype: Any) -> Texels:
        """Return texels as the arguments ask for; zeros where none are given."""
        names = ("width", "height", "depth")[: self._ndim_]
        wanted = None if dtype is None else to_ir(dtype)
        known = {to_ir(t): n for n, t in DTYPES.items()}
        if wanted is not None and wanted not in known:
            raise ValueError(f"{self._name()}: `dtype` is an integer of up to 32 bits, float16 or float32, got {dtype}")
        if given is None:
            if wanted is None:
                raise ValueError(f"{self._name()}: without `data`, `dtype` says what texels are")
            for name, n in zip(names, size, strict=True):
                if operator.index(n) < 1:
                    raise ValueError(f"{self._name()}: without `data`, `{name}` is a positive number, got {n}")
            given = np.zeros((*size[::-1], channels if channels else 1), known[wanted])
        found = (*given.shape[-2::-1], given.shape[-1])
        for name, n, there in zip((*names, "num_channels"), (*size, channels), found, strict=True):
            if n not in (0, there):
                raise ValueError(f"{self._name()}: `{name}` is {n}, and the data have {there}")
        if wanted is not None and known[wanted] != given.dtype:
            raise ValueError(f"{self._name()}: `dtype` is {wanted}, and the data are {given.dtype}")
        if given.shape[-1] not in (1, 2, 4):
            raise ValueError(f"{self._name()}: `num_channels` is 1, 2 or 4, got {given.shape[-1]}")
        if 0 in given.shape:
            raise ValueError(f"{self._name()}: a texture has a texel at least, got shape {given.shape[:-1]}")
        return given

    def _texels_of(self, data: Any, name: str) -> Texels:
        """Return the texels in an array, the last axis being that of channels."""
        if not isinstance(data, (array, np.ndarray)):
            raise ValueError(f"{self._name()}: `{name}` is a wp.array or a NumPy array, got {type(data).__name__}")
        graded = _graded(data)
        if name != "dst" and graded is not None and graded.element.scalar not in (ir.float32, ir.float16):
            raise ValueError(
                f"{self._name()}: `{name}` requires a gradient, which samples send to float32 and float16 alone, got "
                f"{graded.element.type}; give `{name}.numpy()`, or an array without `requires_grad`"
            )
        found = data.numpy() if isinstance(data, array) else data
        if found.dtype not in DTYPES:
            raise ValueError(
                f"{self._name()}: `{name}` has integers of up to 32 bits, float16 or float32, got {found.dtype}"
            )
        if found.ndim not in (self._ndim_, self._ndim_ + 1):
            raise ValueError(f"{self._name()}: `{name}` has {self._ndim_} axes, and one of channels, got {found.shape}")
        return found if found.ndim > self._ndim_ else found[..., None]

    @classmethod
    def _zero(cls) -> Any:
        """No texture: every sample of it is 0."""
        return cls._from_numpy(np.zeros((), cls.numpy_dtype())[()])

    def __copy__(self) -> Any:
        return self

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __reduce__(self) -> Any:
        raise TypeError("a texture can't be pickled or copied: it is memory that ids refer to")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"`{name}` of a texture can't be assigned")

    def __repr__(self) -> str:
        if not hasattr(self, "_about"):
            return f"{type(self).__name__}(id={self._values['id']})"
        a = self._about
        shape = f"shape={a.texels.shape[:-1]}, num_channels={self.num_channels}"
        return f"{type(self).__name__}({shape}, dtype={self.dtype.__name__})"

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return self._ndim_

    @property
    def device(self) -> Device:
        """Where it lies."""
        return self._about.descriptor.device

    @property
    def num_channels(self) -> int:
        """How many numbers a texel has."""
        return self._about.texels.shape[-1]

    @property
    def dtype(self) -> Any:
        """What texels are made of."""
        return DTYPES[self._about.texels.dtype]

    @property
    def filter_mode(self) -> TextureFilterMode:
        """How texels are filtered."""
        return self._about.filters[0]

    @property
    def mip_filter_mode(self) -> TextureFilterMode:
        """How levels are filtered."""
        return self._about.filters[1]

    @property
    def num_mip_levels(self) -> int:
        """How many levels of detail there are."""
        return self._about.levels

    @property
    def is_mipmapped(self) -> bool:
        """Whether there are several levels of detail."""
        return self._about.levels > 1

    @property
    def normalized_coords(self) -> bool:
        """Whether 1 is the edge of the texture, and not one texel."""
        return self._about.normalized

    @property
    def address_mode_u(self) -> TextureAddressMode:
        """What is beyond the edges along u."""
        return self._about.address_modes[0]

    @property
    def address_mode_v(self) -> TextureAddressMode:
        """What is beyond the edges along v."""
        return self._about.address_modes[1]

    @property
    def address_mode_w(self) -> TextureAddressMode:
        """What is beyond the edges along w."""
        return self._about.address_modes[2]

    def copy_from(self, src: Any) -> None:
        """Take other texels. Launches under way must have ended. Gradients go to ``src`` from then on.

        Args:
            src: An array or a texture of the same shape, channels and dtype.

        Raises:
            RuntimeError: The texture has several levels.
            ValueError: ``src`` is another object, or of another shape or dtype.
        """
        self._require_one_level("copy_from")
        texels = src._about.texels if isinstance(src, Texture) else self._texels_of(src, "src")
        mine = self._about.texels
        if texels.shape != mine.shape or texels.dtype != mine.dtype:
            raise ValueError(
                f"{type(self).__name__}.copy_from(): the texture has shape {mine.shape} and {mine.dtype}, `src` "
                f"{texels.shape} and {texels.dtype}"
            )
        mine[...] = texels
        self._about.fill()
        self._about.memory.follow(src._about.memory if isinstance(src, Texture) else _graded(src))

    def copy_to(self, dst: Any) -> None:
        """Copy the texels to an array, or to another texture, of the same shape, channels and dtype.

        Raises:
            RuntimeError: The texture has several levels.
            ValueError: ``dst`` is another object, or of another shape or dtype.
        """
        self._require_one_level("copy_to")
        if isinstance(dst, Texture):
            dst.copy_from(self)
            return
        view, mine = self._texels_of(dst, "dst"), self._about.texels
        if view.shape != mine.shape or view.dtype != mine.dtype:
            raise ValueError(
                f"{type(self).__name__}.copy_to(): the texture has shape {mine.shape} and {mine.dtype}, `dst` "
                f"{view.shape} and {view.dtype}"
            )
        if isinstance(dst, np.ndarray):
            view[...] = mine
        else:
            dst.assign(mine.reshape(dst.numpy().shape))
            self._about.memory.record_reading(dst)

    def _require_one_level(self, name: str) -> None:
        if self._about.levels > 1:
            raise RuntimeError(f"{type(self).__name__}.{name}(): a texture of several levels does not change")


class _About:
    """The memory of a texture, and what it is."""

    def __init__(
        self,
        device: Device,
        texels: Texels,
        levels: int,
        filters: list[TextureFilterMode],
        address_modes: tuple[TextureAddressMode, ...],
        normalized: bool,
    ) -> None:
        self.texels = np.array(texels)
        self.levels, self.filters, self.address_modes, self.normalized = levels, filters, address_modes, normalized
        made = [self.texels]
        while len(made) < levels:
            made.append(_halved(made[-1]))
        data = new_array(element_type(dtypes.float32), (sum(m.size for m in made) + _BEHIND,), device, zero=True)
        table = new_array(element_type(dtypes.int64), (4 * levels,), device, zero=False)
        starts = np.cumsum([0, *(m.size for m in made)])[:-1]
        rows = [[start, *(*m.shape[-2::-1], 1, 1)[:3]] for start, m in zip(starts, made, strict=True)]
        table.assign(np.array(rows, np.int64).ravel())
        self.descriptor = Descriptor(ObjectKind.TEXTURE, device)
        self.memory = TexelMemory(data, [m.shape for m in made], self.descriptor)
        self._write(made)
        self.descriptor.publish(data=data, levels=table, about=self._word())

    def _word(self) -> int:
        """What is small, in one word: see ``ir/objects.py``."""
        found = self.texels.shape[-1] | self.levels << 8
        found |= int(self.normalized) << 16 | int(self.filters[0]) << 17 | int(self.filters[1]) << 18
        return found | sum(int(mode) << 19 + 2 * axis for axis, mode in enumerate(self.address_modes))

    def _write(self, levels: list[Texels]) -> None:
        values = np.concatenate([*(_as_floats(m).ravel() for m in levels), np.zeros(_BEHIND, np.float32)])
        self.memory.memory.assign(values)

    def fill(self) -> None:
        """Let samples be of ``texels`` as they are now."""
        self._write([self.texels])
        self.descriptor.changed()


def _graded(data: Any) -> array | None:
    """Return the data of a texture where they are an array with a gradient."""
    return data if isinstance(data, array) and data.requires_grad else None


def _as_floats(texels: Texels) -> Texels:
    """Return texels as samples have them: integers of up to 16 bits between 0 or -1 and 1."""
    t = texels.dtype
    if t.kind not in "iu" or t.itemsize == 4:
        return texels.astype(np.float32)
    found: Texels = texels.astype(np.float32) / np.float32(np.iinfo(t).max)
    return np.maximum(found, np.float32(-1))


def _halved(texels: Texels) -> Texels:
    """Return the next level: each texel is the mean of two along each axis that has two, the last odd one left out."""
    found: Texels = texels.astype(np.float64)
    for axis in range(texels.ndim - 1):
        n = found.shape[axis] // 2
        if n:
            pairs = np.take(found, np.arange(2 * n), axis)
            found = pairs.reshape(*found.shape[:axis], n, 2, *found.shape[axis + 1 :]).mean(axis + 1)
    if texels.dtype.kind in "iu":
        limits = np.iinfo(texels.dtype)
        found = np.clip(np.rint(found), limits.min, limits.max)
    return found.astype(texels.dtype)


def _level_count(asked: int, shape: tuple[int, ...], name: str) -> int:
    most = max(shape).bit_length()
    if not 0 <= operator.index(asked) <= min(most, MOST_LEVELS):
        raise ValueError(f"{name}: `num_mip_levels` is 0 (all) to {min(most, MOST_LEVELS)}, got {asked}")
    if asked == 0 and most > MOST_LEVELS:
        raise ValueError(f"{name}: a texture has up to {MOST_LEVELS} levels, and this one would have {most}")
    return asked or most


def _mode(of: str, name: str, kind: Any, given: Any) -> Any:
    try:
        return kind(given)
    except (TypeError, ValueError):
        raise ValueError(f"{of}: `{name}` is a {kind.__name__}, got {given!r}") from None


def _address_modes(of: str, both: Any, axes: tuple[Any, ...]) -> tuple[TextureAddressMode, ...]:
    clamp = TextureAddressMode.CLAMP
    usual = [*both, *[clamp] * 3][:3] if isinstance(both, tuple) else [clamp if both is None else both] * 3
    given = [u if mode is None else mode for u, mode in zip(usual, (*axes, clamp, clamp), strict=False)]
    named = zip((f"address_mode_{letter}" for letter in "uvw"), given, strict=True)
    return tuple(_mode(of, name, TextureAddressMode, mode) for name, mode in named)


class Texture1D(Texture):
    """A row of texels that kernels sample; see ``wp.Texture2D``, with one coordinate ``u``.

    Example:
        >>> ramp = wp.Texture1D(np.array([0.0, 1.0, 4.0], np.float32), normalized_coords=False)
        >>> @wp.kernel
        ... def look(ramp: wp.Texture1D, out: wp.array(dtype=float)):
        ...     i = wp.tid()
        ...     out[i] = wp.texture_sample(ramp, float(i) + 1.0, dtype=float)
        >>> out = wp.zeros(2, dtype=float)
        >>> wp.launch(look, dim=2, inputs=[ramp], outputs=[out])
        >>> out.list()
        [0.5, 2.5]
    """

    _ndim_ = 1
    __slots__ = ()
    _ir_type_ = TEXTURES[1]

    def __init__(
        self,
        data: Any = None,
        width: int = 0,
        num_channels: int = 0,
        dtype: Any = None,
        filter_mode: TextureFilterMode | None = None,
        address_mode: Any = None,
        address_mode_u: TextureAddressMode | None = None,
        normalized_coords: bool = True,
        num_mip_levels: int = 1,
        mip_filter_mode: TextureFilterMode | None = None,
        device: Any = None,
    ) -> None:
        modes = _address_modes(self._name(), address_mode, (address_mode_u,))
        self._make(
            *(data, (width,), num_channels, dtype, filter_mode, modes),
            *(normalized_coords, num_mip_levels, mip_filter_mode, device),
        )


class Texture2D(Texture):
    """A picture of texels that kernels sample with ``wp.texture_sample``.

    Samples are float32. Integers of 8 and 16 bits become numbers between 0 and 1, signed ones between -1 and 1. Texel
    ``(i, j)`` has its middle at ``u = (i + 0.5) / width``, ``v = (j + 0.5) / height``, or at ``i + 0.5``, ``j + 0.5``
    without ``normalized_coords``. In kernels a texture has ``width`` and ``height``; a parameter is annotated
    ``wp.Texture2D``, which may be the type of a field of a struct or of the elements of an array, too. These keep no
    memory, except a struct on the host: hold the texture.

    Args:
        data: A NumPy or a Warp array of shape ``(height, width)`` or ``(height, width, num_channels)``, or of vectors.
            It is copied. If it requires a gradient, which float32 and float16 may do, samples on a tape send theirs
            there. Without it, the texels are 0.
        width: The number of texels along u; as in the data when left out.
        height: The number of texels along v.
        num_channels: 1, 2 or 4.
        dtype: An integer of up to 32 bits, ``wp.float16`` or ``wp.float32``.
        filter_mode: Whether a sample is the nearest texel, or between the nearest ones; ``LINEAR`` when left out,
            except for integers of 32 bits, which have no other filter than ``CLOSEST``.
        address_mode: What is beyond the edges, or a tuple of that for each axis; ``CLAMP`` when left out.
        address_mode_u: The same for one axis.
        address_mode_v: The same for one axis.
        normalized_coords: Whether coordinates go from 0 to 1, and not to the number of texels.
        num_mip_levels: The number of levels of detail, each of half the size; 0 means down to a single texel.
        mip_filter_mode: Whether a sample between two levels is of the nearer one, or between them.
        device: Where it lies; the current device when left out.

    Attributes:
        id: What the texture is in memory, a uint64.
        width: The number of texels along u.
        height: The number of texels along v.

    Raises:
        ValueError: An argument does not fit the data or the others.

    Example:
        >>> picture = wp.Texture2D(np.array([[0, 255], [255, 0]], np.uint8), address_mode=wp.TextureAddressMode.WRAP)
        >>> @wp.kernel
        ... def look(picture: wp.Texture2D, out: wp.array(dtype=float)):
        ...     i = wp.tid()
        ...     out[i] = wp.texture_sample(picture, wp.vec2(0.25 + 0.25 * float(i), 0.25), dtype=float)
        >>> out = wp.zeros(3, dtype=float)
        >>> wp.launch(look, dim=3, inputs=[picture], outputs=[out])
        >>> out.list()
        [0.0, 0.5, 1.0]
    """

    _ndim_ = 2
    __slots__ = ()
    _ir_type_ = TEXTURES[2]

    def __init__(
        self,
        data: Any = None,
        width: int = 0,
        height: int = 0,
        num_channels: int = 0,
        dtype: Any = None,
        filter_mode: TextureFilterMode | None = None,
        address_mode: Any = None,
        address_mode_u: TextureAddressMode | None = None,
        address_mode_v: TextureAddressMode | None = None,
        normalized_coords: bool = True,
        num_mip_levels: int = 1,
        mip_filter_mode: TextureFilterMode | None = None,
        device: Any = None,
    ) -> None:
        modes = _address_modes(self._name(), address_mode, (address_mode_u, address_mode_v))
        self._make(
            *(data, (width, height), num_channels, dtype, filter_mode, modes),
            *(normalized_coords, num_mip_levels, mip_filter_mode, device),
        )


class Texture3D(Texture):
    """A box of texels that kernels sample; see ``wp.Texture2D``, with ``depth`` and a third coordinate ``w``.

    Data have the shape ``(depth, height, width)``, or one axis more for channels.
    """

    _ndim_ = 3
    __slots__ = ()
    _ir_type_ = TEXTURES[3]

    def __init__(
        self,
        data: Any = None,
        width: int = 0,
        height: int = 0,
        depth: int = 0,
        num_channels: int = 0,
        dtype: Any = None,
        filter_mode: TextureFilterMode | None = None,
        address_mode: Any = None,
        address_mode_u: TextureAddressMode | None = None,
        address_mode_v: TextureAddressMode | None = None,
        address_mode_w: TextureAddressMode | None = None,
        normalized_coords: bool = True,
        num_mip_levels: int = 1,
        mip_filter_mode: TextureFilterMode | None = None,
        device: Any = None,
    ) -> None:
        modes = _address_modes(self._name(), address_mode, (address_mode_u, address_mode_v, address_mode_w))
        self._make(
            *(data, (width, height, depth), num_channels, dtype, filter_mode, modes),
            *(normalized_coords, num_mip_levels, mip_filter_mode, device),
        )


def _member(name: str) -> property:
    return property(lambda self: self._values[name])


for _class in (Texture1D, Texture2D, Texture3D):
    STRUCT_CLASSES[_class._ir_type_] = _class
    _class._defaults_ = {}
    for _name, _ in _class._ir_type_.fields:
        setattr(_class, _name, _member(_name))
