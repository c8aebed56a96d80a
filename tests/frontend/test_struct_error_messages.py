"""The whole text of every error about structs in kernel code."""

import linecache

import pytest

import warp_like as wp
from warp_like.frontend.build import build_kernel
from warp_like.passes.pipeline import prepare

FILE = "struct_kernels.py"


@wp.struct
class Inner:
    x: float
    v: wp.vec3


@wp.struct
class Item:
    mass: float
    count: int
    inner: Inner


@wp.struct
class Holder:
    data: wp.array(dtype=float)
    item: Item


MISTAKES = {
    "unknown_field": "s.item.mas = 1.0",
    "unknown_field_read": "a[0] = s.item.inner.y",
    "wrong_type": "s.item.mass = s.item.count",
    "wrong_type_in_array": "items[0].inner.v = s.item",
    "wrong_component": "s.item.inner.v.q = 1.0",
    "struct_arithmetic": "a[0] = float(items[0] + items[1])",
    "struct_comparison": "if items[0] == items[1]: a[0] = 1.0",
    "struct_condition": "if s.item: a[0] = 1.0",
    "struct_index": "a[0] = s.item[0]",
    "field_of_whole_array": "items.mass = 1.0",
    "unknown_keyword": "i = Item(mas=1.0)",
    "wrong_keyword": "i = Item(mass=1)\ni = Item(count=1.5)",
    "given_twice": "i = Item(1.0, mass=1.0)",
    "too_many": "i = Inner(1.0, wp.vec3(), 3)",
    "type_changes": "q = s.item\nif a[0] > 0.0: q = s.item.inner\na[0] = q.x",
    "atomic": "wp.atomic_add(items, 0, s.item)",
    "wrong_argument": "a[0] = mass(s.item.inner)",
}


@wp.func
def mass(i: Item):
    return i.mass


def source_of(body):
    lines = "\n    ".join(body.split("\n")) if "\n        " not in body else body
    return (
        "@wp.kernel\n"
        "def k(s: Holder, items: wp.array(dtype=Item), a: wp.array(dtype=float), b: wp.array(dtype=float)):\n"
        f"    {lines}\n"
    )


def error_of(source):
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    module = {"wp": wp, "__name__": "kernels", "Holder": Holder, "Item": Item, "Inner": Inner, "mass": mass}
    exec(compile(source, FILE, "exec"), module)
    k = module["k"]
    with pytest.raises(wp.WarpCodegenError) as caught:
        prepare(build_kernel(k.source, tuple(t for _, t in k.parameters)))
    return caught.value


@pytest.mark.parametrize("name", MISTAKES)
def test_message(name, golden):
    error = error_of(source_of(MISTAKES[name]))
    assert FILE in str(error)
    golden(f"struct_{name}", f"{type(error).__name__}: {error}\n")


def test_a_function_with_its_own_gradient_takes_no_struct_with_an_array():
    @wp.struct
    class Table:
        values: wp.array(dtype=float)

    @wp.func
    def first(t: Table):
        return t.values[0]

    @wp.func_grad(first)
    def adj_first(t: Table, adj_ret: float):
        pass

    @wp.kernel
    def k(t: Table, out: wp.array(dtype=float)):
        out[0] = first(t)

    message = "`first` takes or returns a struct with an array, so it can have no gradient"
    with pytest.raises(wp.WarpCodegenTypeError, match=message):
        wp.launch(k, dim=1, inputs=[Table(values=wp.zeros(1)), wp.zeros(1)])
