"""``wp.map``: a function applied to the elements of arrays, by a kernel that is made for it.

The kernel is ordinary source text, so that errors show where they are, tapes record the launch, and the cache knows it.
"""

from __future__ import annotations

import linecache
import re
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from warp_like import values
from warp_like.base.contract import MAX_DIMS
from warp_like.base.hashing import digest
from warp_like.frontend.builtin import Builtin
from warp_like.frontend.function import Function, Overload
from warp_like.frontend.lambdas import LAMBDA
from warp_like.frontend.source import annotation_names, file_lines
from warp_like.ir.types import Array, Scalar, Type, indexed_array, is_differentiable, scalar_of
from warp_like.runtime.arrays import interop_hooks
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.creation import empty
from warp_like.runtime.arrays.indexed import indexedarray
from warp_like.runtime.kernels.arguments import infer_type
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.kernels.module import Module
from warp_like.runtime.launching.launch import launch
from warp_like.runtime.memory.device import Device
from warp_like.runtime.memory.recorder import recorder
from warp_like.values.struct import StructInstance

_KEPT = 256

_functions: dict[Any, Function] = {}


def map(
    func: Callable[..., Any],
    *inputs: Any,
    out: Any = None,
    return_kernel: bool = False,
    block_dim: int | None = None,
    device: Device | str | None = None,
) -> Any:
    """Apply a function to the elements of arrays.

    The arrays are broadcast against each other as NumPy does it. Arguments that are no arrays, such as numbers, vectors
    and structs, are the same for all elements; so are arrays for parameters that are annotated as arrays. A Python
    number for a parameter without an annotation has the type of the arrays' components where they all have one. Tapes
    record the launch.

    Args:
        func: A function made by ``wp.func``, a builtin, a Python function that could be one, or a lambda.
        inputs: Its arguments: arrays of any framework, and values.
        out: An array for the result, or a list of arrays for several results; new ones are made when left out. It may
            be one of ``inputs``.
        return_kernel: Return the kernel and launch nothing. It takes the inputs and then the outputs, and its grid is
            that of the outputs.
        block_dim: For CUDA devices.
        device: Where to run; the current device when left out.

    Returns:
        The array of results, or a list of them where the function returns several. New arrays require a gradient if an
        input does.

    Raises:
        TypeError: ``func`` is no function or returns nothing, or ``out`` has another dtype or shape than the result.
        ValueError: No input is an array, or the shapes do not fit each other.
        WarpCodegenError: The function can't be compiled for these types.

    Example:
        >>> wp.map(lambda x, y: x + 2.0 * y, wp.array([1.0, 2.0]), wp.array([10.0, 20.0])).numpy()
        array([21., 42.])
    """
    call = _Call(_function(func), inputs, out)
    kernel = call.kernel()
    if return_kernel:
        return kernel
    outputs = call.outputs(device)
    given = [o.array for o in outputs]
    launch(kernel, dim=call.shape, inputs=call.args, outputs=given, device=device, block_dim=block_dim)
    results = [o.given for o in outputs]
    return results[0] if len(results) == 1 else results


class _Output:
    """An output as the user gave it and as an array over its memory."""

    def __init__(self, given: Any, array: array) -> None:
        self.given = given
        self.array = array


class _Call:
    """One call of ``map``: the arguments with their types, and how each is read for an element of the result.

    Attributes:
        args: The arguments for the kernel; arrays of other libraries as arrays.
        types: Their types.
        mapped: Whether an element of the argument is taken, rather than the argument.
        shape: The shape of the result.
    """

    def __init__(self, function: Function | Builtin, inputs: Sequence[Any], out: Any) -> None:
        self.function = function
        self.given = None if out is None else list(out) if isinstance(out, (list, tuple)) else [out]
        self.name = function.name if function.name != LAMBDA else "lambda"
        wanted = _wanted(function, len(inputs))
        self.args = [_argument(x, t) for x, t in zip(inputs, wanted, strict=True)]
        self.mapped = [
            isinstance(x, (array, indexedarray)) and not isinstance(t, Array)
            for x, t in zip(self.args, wanted, strict=True)
        ]
        if not any(self.mapped):
            raise ValueError(f"map() of `{self.name}` needs at least one array to map the function over")
        self.shape = self._broadcast()
        default = self._common_scalar()
        self.types = [_type(x, t, default) for x, t in zip(self.args, wanted, strict=True)]

    def _arrays(self) -> list[Any]:
        return [x for x, mapped in zip(self.args, self.mapped, strict=True) if mapped]

    def _broadcast(self) -> tuple[int, ...]:
        shapes = [a.shape for a in self._arrays()]
        try:
            shape = np.broadcast_shapes(*shapes)
        except ValueError:
            shown = ", ".join(str(shape) for shape in shapes)
            raise ValueError(f"map() of `{self.name}`: the shapes {shown} do not broadcast") from None
        if not 1 <= len(shape) <= MAX_DIMS:
            raise ValueError(f"map() of `{self.name}`: a grid has 1 to {MAX_DIMS} dimensions, got shape {shape}")
        return tuple(shape)

    def _common_scalar(self) -> Scalar | None:
        """The scalar type that all elements are made of, if there is one."""
        found = {scalar_of(infer_type(a).dtype) for a in self._arrays()}  # type: ignore[attr-defined]
        return found.pop() if len(found) == 1 else None

    # --- the kernel ---

    def kernel(self) -> Kernel:
        """Return the kernel, made once for a function, the types and the pattern of broadcasting."""
        indices = tuple(self._index(x, mapped) for x, mapped in zip(self.args, self.mapped, strict=True))
        made = self.function.mapped
        indexed = tuple(k for k, x in enumerate(self.given or ()) if isinstance(x, indexedarray))
        key = (tuple(self.types), indices, len(self.shape), indexed)
        if key not in made:
            self.results = self._result_types()
            made[key] = self._make(indices, indexed), self.results
        kernel, self.results = made[key]
        return kernel

    def _index(self, x: Any, mapped: bool) -> str:
        """How an argument is indexed: ``[i0, 0]`` where its second extent is broadcast, nothing if it is not mapped."""
        if not mapped:
            return ""
        first = len(self.shape) - len(x.shape)
        names = [
            "0" if n == 1 and whole != 1 else f"i{first + k}"
            for k, (n, whole) in enumerate(zip(x.shape, self.shape[first:], strict=True))
        ]
        return f"[{', '.join(names)}]"

    def _result_types(self) -> tuple[Type, ...]:
        from warp_like.frontend.build import result_types  # the frontend is loaded when there is something to build

        params = [f"a{k}" for k in range(len(self.args))]
        text = f"def mapped({', '.join(params)}):\n    return f({', '.join(params)})\n"
        probe = _define(text, "mapped", {"f": self.function})
        elements = [
            t.dtype if mapped else t  # type: ignore[attr-defined]
            for t, mapped in zip(self.types, self.mapped, strict=True)
        ]
        found = result_types(Overload(probe), elements)
        if not found:
            raise TypeError(f"map() of `{self.name}`: the function returns nothing")
        return found

    def _make(self, indices: Sequence[str], indexed: Sequence[int]) -> Kernel:
        n, m = len(self.args), len(self.results)
        params = [f"a{k}: A{k}" for k in range(n)] + [f"out{k}: Out{k}" for k in range(m)]
        threads = ", ".join(f"i{k}" for k in range(len(self.shape)))
        call = f"f({', '.join(f'a{k}{index}' for k, index in enumerate(indices))})"
        results = ", ".join(f"r{k}" for k in range(m))
        name = f"map_{self.name}"
        lines = [f"def {name}({', '.join(params)}):", f"    {threads} = tid()", f"    {results} = {call}"]
        lines += [f"    out{k}[{threads}] = r{k}" for k in range(m)]
        names: dict[str, Any] = {"f": self.function, "tid": Builtin("tid")}
        names |= {f"A{k}": t for k, t in enumerate(self.types)}
        for k, t in enumerate(self.results):
            names[f"Out{k}"] = (indexed_array if k in indexed else Array)(t, len(self.shape))
        return Kernel(_define("\n".join(lines) + "\n", name, names), module="unique")

    # --- the results ---

    def outputs(self, device: Device | str | None) -> list[_Output]:
        """Return the arrays that the results go to: those given, or new ones."""
        given = self.given
        if given is None:
            wants = any(getattr(x, "requires_grad", False) for x in self.args if isinstance(x, (array, indexedarray)))
            made = [
                empty(self.shape, values.from_ir(t), device=device, requires_grad=wants and is_differentiable(t))
                for t in self.results
            ]
            return [_Output(a, a) for a in made]
        if len(given) != len(self.results):
            raise TypeError(f"map() of `{self.name}`: {len(self.results)} results, got {len(given)} arrays in out")
        return [self._checked(k, x, t) for k, (x, t) in enumerate(zip(given, self.results, strict=True))]

    def _checked(self, k: int, given: Any, t: Type) -> _Output:
        site = f"map() of `{self.name}`: out" + (f"[{k}]" if len(self.results) > 1 else "")
        try:
            a = _as_array(given, values.from_ir(t))
            found = values.to_ir(a.dtype)
        except (TypeError, ValueError) as e:
            raise TypeError(f"{site} is an array of {t}: {e}") from e
        if found != t:
            raise TypeError(f"{site} is an array of {t}, got one of {found}")
        if tuple(a.shape) != self.shape:
            raise TypeError(f"{site} has shape {self.shape}, got {tuple(a.shape)}")
        return _Output(given, a)


# --- arguments ---


def _wanted(function: Function | Builtin, count: int) -> list[Type | None]:
    """The type of each parameter where the function leaves no choice."""
    if isinstance(function, Builtin) or len(function.overloads) != 1:
        return [None] * count
    overload = function.overloads[0]
    most, least = len(overload.params), len(overload.params) - len(overload.defaults)
    if not least <= count <= most:
        takes = f"{most}" if least == most else f"{least} to {most}"
        raise TypeError(f"map() of `{function.name}`, which takes {takes} arguments, got {count}")
    return list(overload.types[:count])


def _argument(x: Any, wanted: Type | None) -> Any:
    """An argument as the kernel takes it: arrays of other libraries as arrays, everything else as it is."""
    if isinstance(x, (array, indexedarray, bool, int, float, StructInstance)) or values.constant_of(x) is not None:
        return x
    element = wanted.dtype if isinstance(wanted, Array) else wanted
    return _as_array(x, None if element is None else values.from_ir(element))


def _as_array(x: Any, dtype: Any) -> Any:
    return x if isinstance(x, (array, indexedarray)) else interop_hooks.as_array(x, dtype, recorder.active is not None)


def _type(x: Any, wanted: Type | None, common: Scalar | None) -> Type:
    if isinstance(x, StructInstance):
        return x._ir_type_
    if isinstance(x, (array, indexedarray)):
        return infer_type(x)
    if wanted is not None:
        return wanted
    if common is not None and type(x) in (int, float) and (common.is_float or (common.is_int and type(x) is int)):
        return common
    return infer_type(x)


# --- functions ---


def _function(func: Any) -> Function | Builtin:
    if isinstance(func, (Function, Builtin)):
        return func
    if not isinstance(func, types.FunctionType):
        raise TypeError(f"map() takes a function, got {type(func).__name__}")
    key = _key(func)
    found = _functions.get(key) if key is not None else None
    if found is None:
        found = Function([Overload(func, annotation_names(func), file_lines(func))])
        if key is not None:
            while len(_functions) >= _KEPT:
                del _functions[next(iter(_functions))]
            _functions[key] = found
    return found


def create_warp_function(func: Callable[..., Any]) -> tuple[Function, Module]:
    """Make a function of kernels from a Python function, whose parameters then take any type; return it and its module.

    Raises:
        TypeError: ``func`` was not made by ``def`` or ``lambda``.

    Example:
        >>> double, module = wp.utils.create_warp_function(lambda x: x + x)
        >>> wp.map(double, wp.ones(2)).list()
        [2.0, 2.0]
    """
    if not isinstance(func, types.FunctionType):
        raise TypeError(f"create_warp_function() takes a function, got {type(func).__name__}")
    definition = Overload(func, annotation_names(func), file_lines(func))
    definition.source = definition.source.with_types(dict.fromkeys(definition.params, Any))
    made = Function([definition])
    made.name = re.sub(r"\W", "_", func.__qualname__)
    made.module = Module(f"map_{made.name}")
    made.module.functions[made.name] = made
    return made, made.module


def _key(func: types.FunctionType) -> Any:
    """What tells a Python function from others, so that a lambda in a loop is compiled once; None for no such thing."""
    code = func.__code__
    try:
        cells = tuple(cell.cell_contents for cell in func.__closure__ or ())
        captured = tuple((type(x), repr(x) if isinstance(x, (int, float)) else x) for x in cells)
        key = (code, code.co_filename, id(func.__globals__), captured, func.__defaults__)
        hash(key)
    except (TypeError, ValueError):  # unhashable, or captured and not assigned yet
        return None
    return key


def _define(text: str, name: str, names: dict[str, Any]) -> Any:
    """Run the definition ``text``, whose lines can be found afterwards."""
    file = f"<wp.map {digest(text)[:12]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names["__name__"] = __name__
    exec(compile(text, file, "exec"), names)
    return names[name]
