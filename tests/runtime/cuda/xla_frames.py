"""Calls as XLA makes them on CUDA, without XLA: the structs of its C API, and a stream of the fake driver."""

import ctypes

import numpy as np

from warp_like import _native

_HEAD = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p)]


def _struct(name, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": [*_HEAD, *fields]})


def _plain(name, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": [*fields]})


_VOID, _INT, _INT64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
Version = _struct("Version", ("major", _INT), ("minor", _INT))
ErrorArgs = _struct("ErrorArgs", ("message", ctypes.c_char_p), ("code", _INT))
StreamArgs = _struct("StreamArgs", ("context", _VOID), ("stream", _VOID))
AllocateArgs = _struct(
    "AllocateArgs", ("context", _VOID), ("size", ctypes.c_size_t), ("alignment", ctypes.c_size_t), ("data", _VOID)
)
Buffer = _struct("Buffer", ("dtype", _INT), ("data", _VOID), ("rank", _INT64), ("dims", ctypes.POINTER(_INT64)))
Span = _plain("Span", ("text", ctypes.c_char_p), ("length", ctypes.c_size_t))
Scalar = _plain("Scalar", ("dtype", _INT), ("value", _VOID))
Array = _plain("Array", ("dtype", _INT), ("size", ctypes.c_size_t), ("data", _VOID))
Values = _struct("Values", ("size", _INT64), ("types", ctypes.POINTER(_INT)), ("values", ctypes.POINTER(_VOID)))
Attributes = _struct(
    "Attributes",
    *(("size", _INT64), ("types", ctypes.POINTER(_INT)), ("names", ctypes.POINTER(ctypes.POINTER(Span)))),
    ("values", ctypes.POINTER(_VOID)),
)
Api = _struct(
    "Api",
    *(("version", Version), ("internal", _VOID), ("error_create", _VOID), ("error_message", _VOID)),
    *(("error_destroy", _VOID), ("register", _VOID), ("stream_get", _VOID), ("type_register", _VOID)),
    *(("context_get", _VOID), ("state_set", _VOID), ("state_get", _VOID), ("allocate", _VOID)),
)
Frame = _struct(
    "Frame",
    *(("api", ctypes.POINTER(Api)), ("context", _VOID), ("stage", _INT)),
    *(("args", Values), ("rets", Values), ("attrs", Attributes)),
)
_EXECUTE, _BUFFER, _ARRAY, _SCALAR, _S64 = 3, 1, 1, 3, 5


def _void(struct):
    return ctypes.cast(ctypes.pointer(struct), _VOID)


class XlaCall:
    """A call site and the buffers of one call.

    Args:
        call: The traced call, a ``jaxffi.call.Call``.
        operands: Arrays on the device; their shapes are those of JAX's arrays.
        results: Likewise.
    """

    def __init__(self, call, operands, results):
        self.kept = [*operands, *results]
        self.errors = []
        self.room = 0x7000  # where XLA has memory for a call; None where it has none
        self.allocated = []  # size and alignment
        block, binds = call._packed()
        words = {
            "plan": call.code.key,
            "dims": np.array(call.dims, np.int64),
            "block": np.frombuffer(block, np.int64).copy(),
            "binds": np.array(binds, np.int64),
            "block_dim": call.block_dim,
        }
        self.frame = Frame(ctypes.sizeof(Frame), None)
        self.frame.stage = _EXECUTE
        self.frame.args = self._values(operands)
        self.frame.rets = self._values(results)
        self.frame.attrs = self._attributes(words)

    def run(self, stream):
        """Let the handler run on a stream; the text of the error that it gives, or None."""

        def create(args):
            self.errors.append(args.contents.message.decode())
            return 1

        def get_stream(args):
            args.contents.stream = stream
            return None

        def allocate(args):
            if self.room is None:
                self.errors.append("RESOURCE_EXHAUSTED")
                return 1
            self.allocated.append((args.contents.size, args.contents.alignment))
            args.contents.data = self.room
            return None

        error = ctypes.CFUNCTYPE(_VOID, ctypes.POINTER(ErrorArgs))(create)
        allocator = ctypes.CFUNCTYPE(_VOID, ctypes.POINTER(AllocateArgs))(allocate)
        getter = ctypes.CFUNCTYPE(_VOID, ctypes.POINTER(StreamArgs))(get_stream)
        api = Api(ctypes.sizeof(Api), None)
        api.error_create, api.stream_get = ctypes.cast(error, _VOID), ctypes.cast(getter, _VOID)
        api.allocate = ctypes.cast(allocator, _VOID)
        self.frame.api = ctypes.pointer(api)
        capsule = _native.xla_handler(0, 3, True)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = _VOID, [ctypes.py_object, ctypes.c_char_p]
        handler = ctypes.CFUNCTYPE(_VOID, ctypes.POINTER(Frame))(pointer(capsule, None))
        failed = handler(ctypes.byref(self.frame))
        return self.errors.pop() if failed else None

    def _keep(self, made):
        self.kept.append(made)
        return made

    def _values(self, arrays):
        count = len(arrays)
        types = self._keep((_INT * count)(*[_BUFFER] * count))
        values = self._keep((_VOID * count)())
        for i, a in enumerate(arrays):
            shape = a._full_shape
            dims = self._keep((_INT64 * len(shape))(*shape))
            buffer = self._keep(Buffer(ctypes.sizeof(Buffer), None, 0, a.ptr, len(shape), dims))
            values[i] = _void(buffer)
        return Values(ctypes.sizeof(Values), None, count, types, values)

    def _attributes(self, words):
        count = len(words)
        names = self._keep((ctypes.POINTER(Span) * count)())
        types, values = self._keep((_INT * count)()), self._keep((_VOID * count)())
        for i, (name, value) in enumerate(words.items()):
            names[i] = ctypes.pointer(self._keep(Span(name.encode(), len(name))))
            if isinstance(value, int):
                held = self._keep(_INT64(value))
                types[i], made = _SCALAR, Scalar(_S64, _void(held))
            else:
                self._keep(value)
                types[i], made = _ARRAY, Array(_S64, value.size, value.ctypes.data)
            values[i] = _void(self._keep(made))
        return Attributes(ctypes.sizeof(Attributes), None, count, types, names, values)
