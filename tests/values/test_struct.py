"""Structs on the host: making, reading, changing, arrays of them, and NumPy's view of those."""

import copy
import pickle

import numpy as np
import pytest

import warp_like as wp
from warp_like.ir.layout import field_offsets, size_of


@wp.struct
class Material:
    color: wp.vec3
    id: int = 7


@wp.struct
class Body:
    """A body."""

    flag: bool
    mass: wp.float64 = 2.0
    pos: wp.vec3
    frame: wp.mat22
    material: Material
    half: wp.float16
    brain: wp.bfloat16

    def momentum(self, speed):
        return self.mass * speed


@wp.struct
class Holder:
    data: wp.array(dtype=float)
    grid: wp.array2d[wp.vec3]
    scale: float


def test_fields_start_as_zero_or_as_the_class_says():
    b = Body()
    assert (b.flag, b.mass, b.material.id, b.half) == (False, 2.0, 7, 0.0)
    assert b.pos == wp.vec3()
    assert b.frame == wp.mat22()
    assert Holder().data is None


def test_made_by_name_and_by_position():
    b = Body(True, pos=(1.0, 2.0, 3.0), material=Material(id=3))
    assert b.flag is True
    assert b.pos == wp.vec3(1.0, 2.0, 3.0)
    assert b.material == Material(wp.vec3(), 3)
    assert b.momentum(3.0) == 6.0
    assert Body.__doc__ == "A body."


def test_assignment_copies_and_what_is_held_changes_in_place():
    v, m = wp.vec3(1.0, 2.0, 3.0), Material(id=1)
    b = Body(pos=v, material=m)
    v.x = 9.0
    m.id = 9
    assert b.pos.x == 1.0
    assert b.material.id == 1
    b.pos.x = 5.0
    b.material.color[1] = 4.0
    assert b.pos == wp.vec3(5.0, 2.0, 3.0)
    assert b.material.color == wp.vec3(0.0, 4.0, 0.0)
    other = Body()
    assert other.material.color == wp.vec3()
    assert Body().material.id == 7


def test_what_makes_a_field():
    b = Body(pos=None)
    assert b.pos == wp.vec3()
    b.pos = np.array([1.0, 2.0, 3.0])
    b.pos = None
    assert b.pos == wp.vec3()

    @wp.struct
    class Rows:
        m: wp.mat22

    for given in ((1.0, 2.0, 3.0, 4.0), [[1.0, 2.0], [3.0, 4.0]], np.arange(1.0, 5.0)):
        assert Rows(m=given).m == wp.mat22(1.0, 2.0, 3.0, 4.0)


def test_a_default_is_not_shared():
    @wp.struct
    class Defaults:
        v: wp.vec3 = wp.vec3(1.0, 1.0, 1.0)

    Defaults().v.x = 5.0
    a = Defaults()
    a.v.x = 6.0
    assert Defaults().v == wp.vec3(1.0, 1.0, 1.0)


def test_repr_equality_and_copies():
    m = Material(wp.vec3(1.0, 0.0, 0.0), 2)
    assert repr(m) == "Material(color=vec3f([1.0, 0.0, 0.0]), id=2)"
    assert m == copy.copy(m) == copy.deepcopy(m) == pickle.loads(pickle.dumps(m))
    assert m != Material()
    h = Holder(data=wp.zeros(3))
    assert copy.copy(h).data is h.data
    assert copy.deepcopy(h).data is not h.data


def test_string_annotations():
    @wp.struct
    class Later:
        inner: "Material"
        data: "wp.array(dtype=wp.vec3)"

    assert Later().inner.id == 7


def test_a_number_that_does_not_fit_wraps_with_a_warning():
    b = Material()
    with pytest.warns(UserWarning, match="Material.id: 1099511627779 does not fit int32, .* stored as 3"):
        b.id = 2**40 + 3
    assert b.id == 3


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda b: setattr(b, "mas", 1.0), AttributeError, "struct Body has no field `mas`; did you mean `mass`?"),
        (lambda b: b.zzz, AttributeError, "struct Body has no field `zzz`; it has flag, mass, pos,"),
        (lambda b: setattr(b, "mass", "x"), TypeError, "field `mass` of struct Body is float64, got str 'x'"),
        (lambda b: setattr(b, "pos", 1.0), TypeError, r"field `pos` of struct Body is vec3\[float32\], got float 1.0"),
        (lambda b: setattr(b, "pos", (1.0, 2.0)), TypeError, r"is vec3\[float32\], got tuple of shape \(2,\)"),
        (lambda b: setattr(b, "pos", wp.vec3d()), TypeError, r"is vec3\[float32\], got vec3\[float64\]"),
        (lambda b: setattr(b, "material", Holder()), TypeError, "is struct Material, got struct Holder"),
        (lambda b: setattr(b.material, "id", 1.5), TypeError, "field `id` of struct Material is int32, got float 1.5"),
        (lambda b: setattr(b, "mass", None), TypeError, "field `mass` of struct Body is float64, got NoneType"),
        (lambda b: Body(masss=1.0), TypeError, "struct Body has no field `masss`; did you mean `mass`?"),
        (lambda b: Material(wp.vec3(), 1, 2), TypeError, r"Material\(\) takes at most 2 fields, got 3"),
        (lambda b: Material(wp.vec3(), color=wp.vec3()), TypeError, r"Material\(\) got field `color` twice"),
        (
            lambda b: Holder(data=np.zeros(3)),
            TypeError,
            r"is array1d\[float32\], got ndarray of shape \(3,\): expected elements of float32, got a NumPy array",
        ),
        (lambda b: Holder(data=[1.0]), TypeError, r"got list of shape \(1,\): expected an array, got list"),
        (lambda b: Holder(data=wp.zeros(3, dtype=int)), TypeError, r"is array1d\[float32\], got array1d\[int32\]"),
    ],
)
def test_mistakes(change, error, message):
    with pytest.raises(error, match=message):
        change(Body())


def test_declarations_that_mean_nothing():
    with pytest.raises(TypeError, match="struct Bad, field `x`: str is not a type of the kernel language"):

        @wp.struct
        class Bad:
            x: str

    with pytest.raises(TypeError, match="field `x`: expected one concrete type"):

        @wp.struct
        class Open:
            x: wp.array

    with pytest.raises(TypeError, match="field `x` of struct Wrong is int32, got float 1.5"):

        @wp.struct
        class Wrong:
            x: int = 1.5

    with pytest.raises(TypeError, match="struct Child can't inherit; give it a field of type Material"):

        @wp.struct
        class Child(Material):
            y: float

    with pytest.raises(TypeError, match="the name `numpy_value` is taken"):

        @wp.struct
        class Taken:
            numpy_value: float


def test_empty_arrays():
    a = wp.zeros((0, 2), dtype=Material)
    assert a.numpy().shape == (0, 2)
    assert a.list() == []


def bodies(n):
    return [
        Body(flag=i % 2 == 1, pos=(i, 0.5, 0.0), frame=((i, 1), (2, 3)), material=Material(id=i), half=0.5, brain=1.5)
        for i in range(n)
    ]


def test_memory_is_that_of_c():
    t = Body._ir_type_
    dtype = Body.numpy_dtype()
    aligned = np.dtype({"names": dtype.names, "formats": [dtype[n] for n in dtype.names]}, align=True)
    assert [dtype.fields[n][1] for n in dtype.names] == field_offsets(t) == [aligned.fields[n][1] for n in dtype.names]
    assert dtype.itemsize == size_of(t) == aligned.itemsize


def test_arrays_of_structs_and_numpy_both_ways():
    made = bodies(5)
    a = wp.array(made)
    assert a.dtype is Body
    assert a.shape == (5,)
    records = a.numpy()
    assert records.dtype == Body.numpy_dtype()
    np.testing.assert_array_equal(records["pos"][:, 0], np.arange(5))
    np.testing.assert_array_equal(records["frame"][3], [[3, 1], [2, 3]])
    np.testing.assert_array_equal(records["material"]["id"], np.arange(5))
    assert a.list() == made
    again = wp.array(records, dtype=Body)
    assert again.list() == made
    assert again.ptr != a.ptr
    records["mass"] = 8.0  # the same memory
    assert a[4].mass == 8.0
    assert again[4].mass == 2.0


@pytest.mark.parametrize("held", [wp.float32, wp.array(dtype=float)])
def test_a_struct_that_is_defined_again_as_in_a_notebook(held):
    def define():
        @wp.struct
        class Again:
            held_again: held
            n: int

        return Again

    value = 1.5 if held is wp.float32 else wp.ones(2, dtype=float)
    for n in range(3):
        again = define()
        a = wp.array([again(held_again=value, n=n), again(held_again=value, n=9)], dtype=again)
        assert (a[0].n, a[1].n) == (n, 9)
    with pytest.raises(TypeError, match="is made of instances of it"):
        wp.array([Material()], dtype=again)


def test_elements_and_views():
    a = wp.zeros((2, 3), dtype=Material)
    a[1, 2] = Material(id=5)
    assert a[1, 2].id == 5
    assert a[1][2] == a[1, 2]
    assert a[:, 2][1].id == 5
    assert a.transpose()[2, 1].id == 5
    assert a.reshape(6)[5].id == 5
    a.fill_(Material(id=3))
    assert set(a.numpy()["id"].ravel()) == {3}
    a[0] = [Material(id=i) for i in range(3)]
    assert a.numpy()["id"].tolist() == [[0, 1, 2], [3, 3, 3]]
    a.zero_()
    assert not a.numpy()["id"].any()
    b = wp.clone(wp.full(2, Material(id=4)))
    assert [m.id for m in b.list()] == [4, 4]
    c = wp.zeros(2, dtype=Material)
    wp.copy(c, b)
    c.assign([Material(id=1), *c.list()[1:]])
    assert c.numpy()["id"].tolist() == [1, 4]
    with pytest.raises(TypeError, match="is struct Material, got Body"):
        c[0] = Body()
    with pytest.raises(TypeError, match="made of instances of it or of a structured NumPy array"):
        wp.array([1.0, 2.0], dtype=Material)
    with pytest.raises(TypeError, match="has the fields"):
        wp.array(np.zeros(2, dtype=[("color", "f4", 3)]), dtype=Material)


def test_structured_numpy_memory_is_shared():
    records = np.zeros(3, dtype=Material.numpy_dtype())
    a = wp.from_numpy(records, dtype=Material)
    a[1] = Material(id=2)
    assert records["id"].tolist() == [0, 2, 0]
    packed = np.zeros(2, dtype=[("id", "i4"), ("color", "f4", 3)])
    packed["id"] = 4
    b = wp.from_numpy(packed, dtype=Material)  # other places: a copy
    assert b[0].id == 4


def test_deepcopy_and_pickle_of_arrays():
    a = wp.array(bodies(3), requires_grad=True)
    assert copy.deepcopy(a).list() == a.list()
    assert pickle.loads(pickle.dumps(a)).list() == a.list()
    assert a.grad.dtype is Body


def test_a_value_without_an_annotation_is_no_field():
    class Plain:
        x: float
        mass = 1.5
        count = 2
        up = wp.vec3(0.0, 0.0, 1.0)
        KIND = 7
        _hidden = 3

        def twice(self):
            return 2.0 * self.x

    with pytest.warns(UserWarning, match="struct Plain") as caught:
        Body = wp.struct(Plain)
    assert [str(w.message) for w in caught] == [
        f"struct Plain: `{name}` has no annotation, so it is no field, and kernels don't see it; write {instead}"
        for name, instead in {
            "mass": "mass: float = 1.5",
            "count": "count: int = 2",
            "up": "up: wp.vec3f = ...",
        }.items()
    ]
    assert Body(2.0).twice() == 4.0
