#include "link.h"

#include <algorithm>

#include "alloc.h"
#include "array.h"
#include "dlpack.h"
#include "fast_path.h"
#include "make.h"
#include "structmember.h"

namespace wl {

namespace {

// The native base of TorchGradient and PaddleGradient.
struct Link {
    PyObject_HEAD PyObject* holder;  // the tensor, or a weak reference to it
    PyObject* grad;                  // what its gradient has to be, or None
};

Link* as_link(PyObject* object) { return reinterpret_cast<Link*>(object); }

PyObject* link_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *holder, *grad;
    if (!PyArg_ParseTuple(args, "OO:Link", &holder, &grad)) return nullptr;
    PyObject* object = type->tp_alloc(type, 0);
    if (!object) return nullptr;
    as_link(object)->holder = Ref::borrow(holder).release();
    as_link(object)->grad = Ref::borrow(grad).release();
    return object;
}

PyObject* link_tensor(PyObject* object, PyObject*) {
    PyObject* holder = as_link(object)->holder;
    PyObject* found = holder && PyWeakref_Check(holder) ? dereferenced(holder) : Ref::borrow(holder).release();
    return found ? found : Ref::borrow(Py_None).release();
}

int link_traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(as_link(object)->holder);
    Py_VISIT(as_link(object)->grad);
    return 0;
}

int link_clear(PyObject* object) {
    Py_CLEAR(as_link(object)->holder);
    Py_CLEAR(as_link(object)->grad);
    return 0;
}

void link_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    link_clear(object);
    Py_TYPE(object)->tp_free(object);
}

PyMethodDef link_methods[] = {
    {"tensor", link_tensor, METH_NOARGS, "tensor($self, /)\n--\n\nReturn the tensor, or None when it is gone."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef link_members[] = {
    {"grad", T_OBJECT, offsetof(Link, grad), 0, "What the tensor's gradient has to be, or None."},
    {nullptr, 0, 0, 0, nullptr},
};

PyTypeObject LinkType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// ---- from_torch

PyObject* requires_grad_name = nullptr;
PyObject* is_leaf_name = nullptr;
PyObject* grad_name = nullptr;
PyObject* dtype_name = nullptr;
PyObject* link_class = nullptr;       // TorchGradient, once it is known
PyObject* is_grad_enabled = nullptr;  // torch.is_grad_enabled

// Reads (t[, dtype]); false where there is more, or less.
bool read_call(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, PyObject** dtype) {
    const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (nargs < 1 || nargs + named > 2 || (named && PyTuple_GET_ITEM(kwnames, 0) != dtype_name)) return false;
    *dtype = nargs + named == 2 ? args[1] : Py_None;
    return true;
}

// The gradient of a leaf that has one and shows it. Null, without an exception, where Python has to see to it.
Ref published_gradient(PyObject* tensor) {
    if (!link_class || Ref(PyObject_GetAttr(tensor, is_leaf_name)).get() != Py_True) return Ref();
    if (Ref(PyObject_CallNoArgs(is_grad_enabled)).get() != Py_True) return Ref();
    Ref grad(PyObject_GetAttr(tensor, grad_name));
    return grad && grad.get() != Py_None ? std::move(grad) : Ref();
}

bool same_shape(const Array* a, const Array* b) {
    return a->ndim == b->ndim && std::equal(a->shape, a->shape + a->ndim, b->shape);
}

// Gives `made` the gradient of `tensor`, and ties the two; false where Python has to see to it.
bool share_gradient(Array* made, PyObject* tensor, Ref grad) {
    Ref gradient = shared_array(grad.get(), made->dtype, false);
    if (!gradient || !same_shape(made, reinterpret_cast<Array*>(gradient.get()))) return false;
    auto* cls = reinterpret_cast<PyTypeObject*>(link_class);
    Ref link(cls->tp_alloc(cls, 0));
    if (!link) return false;
    as_link(link.get())->holder = Ref::borrow(tensor).release();
    as_link(link.get())->grad = grad.release();
    made->grad_links = PyList_New(1);
    if (!made->grad_links) return false;
    PyList_SET_ITEM(made->grad_links, 0, link.release());
    made->grad_array = gradient.release();
    return true;
}

PyObject* convert(PyObject* tensor, PyObject* dtype) {
    const TensorType* type = find_tensor_type(Py_TYPE(tensor));
    if (!type || !type->is_neg) return nullptr;  // no tensor of PyTorch's
    const Ref requires_grad(PyObject_GetAttr(tensor, requires_grad_name));
    if (!requires_grad) return nullptr;
    Ref grad;
    if (requires_grad.get() != Py_False && !(grad = published_gradient(tensor))) return nullptr;
    Ref made = shared_array(tensor, dtype, true);
    if (!made) return nullptr;
    if (grad && !share_gradient(reinterpret_cast<Array*>(made.get()), tensor, std::move(grad))) return nullptr;
    return made.release();
}

PyObject* from_torch_shortcut(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    PyObject* dtype;
    if (!read_call(args, nargs, kwnames, &dtype)) return nullptr;
    PyObject* made = convert(args[0], dtype);
    if (!made) forget_error();  // nothing has been done yet; what is wrong comes up again in Python
    return made;
}

PyObject* torch_reader(PyObject*, PyObject* checked) { return make_fast_path(from_torch_shortcut, checked); }

PyObject* set_torch_link(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 2 || !PyType_Check(args[0]) || !PyCallable_Check(args[1]) ||
        !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(args[0]), &LinkType)) {
        PyErr_SetString(PyExc_TypeError, "set_torch_link(cls, is_grad_enabled) needs a subclass of Link");
        return nullptr;
    }
    Py_INCREF(args[0]);
    Py_XSETREF(link_class, args[0]);
    Py_INCREF(args[1]);
    Py_XSETREF(is_grad_enabled, args[1]);
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"torch_reader", torch_reader, METH_O,
     "torch_reader($module, checked, /)\n--\n\nReturn the function `from_torch`: dense tensors whose gradient, if they "
     "require one, is there already are converted at once, all else goes to `checked`."},
    {"set_torch_link", method(set_torch_link), METH_FASTCALL,
     "set_torch_link($module, cls, is_grad_enabled, /)\n--\n\nSay which class of links ties gradients to tensors of "
     "PyTorch, and what tells whether its grad mode is on."},
    {nullptr, nullptr, 0, nullptr},
};

bool intern_names() {
    requires_grad_name = PyUnicode_InternFromString("requires_grad");
    is_leaf_name = PyUnicode_InternFromString("is_leaf");
    grad_name = PyUnicode_InternFromString("grad");
    dtype_name = PyUnicode_InternFromString("dtype");
    return requires_grad_name && is_leaf_name && grad_name && dtype_name;
}

}  // namespace

bool register_link(PyObject* module) {
    LinkType.tp_name = "warp_like._native.Link";
    LinkType.tp_basicsize = sizeof(Link);
    LinkType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
    LinkType.tp_doc =
        "Link(holder, grad)\n--\n\nThe tie between the gradients of a tensor and of an array. `holder` is the "
        "tensor, or a weak reference to it.";
    LinkType.tp_new = link_new;
    LinkType.tp_dealloc = link_dealloc;
    LinkType.tp_traverse = link_traverse;
    LinkType.tp_clear = link_clear;
    LinkType.tp_methods = link_methods;
    LinkType.tp_members = link_members;
    return intern_names() && add_type(module, "Link", &LinkType) && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
