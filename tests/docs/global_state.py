"""Finds the global state of the package and of the native extension, in their text.

In Python that is what ``global`` statements change, containers at a module's level that something writes to, objects of
classes that change after they are made, counters, locks, context variables, caches, and attributes of modules and
classes that are set from outside. In C++ it is each variable of a namespace, each ``static`` one of a function and each
static member that is not constant.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CONTAINERS = {"dict", "list", "set", "defaultdict", "deque", "OrderedDict", "Counter"}
MUTABLE = {"ContextVar", "local", "Lock", "RLock", "Condition", "Event", "count", "held_by_forks"}
MUTABLE |= {"WeakKeyDictionary", "WeakValueDictionary", "WeakSet"}
CACHES = {"cache", "lru_cache"}
CHANGING = {
    *("append", "add", "update", "pop", "popitem", "clear", "setdefault", "extend", "insert", "remove", "discard"),
    *("sort", "appendleft", "popleft"),
}
FINISHING = {"__init__", "__new__", "__post_init__", "__set_name__", "__init_subclass__"}

State = tuple[str, str]
"""A file, relative to the repository, and a name in it; ``Class.attribute`` for that of a class."""


# --- Python ---------------------------------------------------------------------------------------------------


class Module:
    """The syntax tree of one file, and what its names stand for."""

    def __init__(self, path: Path) -> None:
        self.file = path.relative_to(ROOT).as_posix()
        self.dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.nodes = list(ast.walk(self.tree))
        self.written = list(written(self.nodes))
        self.imported: dict[str, str] = {}  # a local name and what it stands for, dotted
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self.imported.update((a.asname or a.name, f"{node.module}.{a.name}") for a in node.names)
        self.values = {target.id: value for target, value in assignments(self.tree.body)}

    def meaning(self, name: str) -> str:
        """The dotted name of what ``name`` stands for in this file."""
        return self.imported.get(name, f"{self.dotted}.{name}")


def assignments(body: list[ast.stmt]) -> Iterator[tuple[ast.Name, ast.expr]]:
    """The names that statements assign to, also in branches, and their values."""
    for node in body:
        match node:
            case ast.Assign():
                yield from ((t, node.value) for t in node.targets if isinstance(t, ast.Name))
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                yield target, value
            case ast.If() | ast.Try() | ast.With():
                yield from assignments([s for s in ast.iter_child_nodes(node) if isinstance(s, ast.stmt)])


def called(value: ast.AST) -> str:
    """The last part of the name of the function that an expression calls; of a decorator that it is."""
    function = value.func if isinstance(value, ast.Call) else value
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def written(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """What is changed in place: ``x`` of ``x[i] = v``, ``x.a = v``, ``del x[i]``, ``x |= v`` and ``x.append(v)``."""
    for node in nodes:
        targets: list[ast.expr] = []
        match node:
            case ast.Assign() | ast.Delete():
                targets = [part for t in node.targets for part in (t.elts if isinstance(t, ast.Tuple) else [t])]
            case ast.AnnAssign() | ast.AugAssign():
                targets = [node.target]
            case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in CHANGING:
                yield value
        yield from (t.value for t in targets if isinstance(t, ast.Subscript | ast.Attribute))


def changing_classes(modules: list[Module]) -> set[str]:
    """The dotted names of classes whose objects change after they are made, or that are native."""
    classes = {m.meaning(c.name): (m, c) for m in modules for c in m.nodes if isinstance(c, ast.ClassDef)}

    @functools.cache
    def changes(name: str) -> bool:
        if name not in classes:
            return name.startswith("warp_like._native.") or name == "threading.local"
        module, tree = classes[name]
        methods = (f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name not in FINISHING)
        if any(of_self(target) for f in methods for target in written(ast.walk(f))):
            return True
        return any(changes(base_name(module, base)) for base in tree.bases)

    return {name for name in classes if changes(name)}


def base_name(module: Module, base: ast.expr) -> str:
    """The dotted name of a base class."""
    if isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name):
        return f"{module.imported.get(base.value.id, base.value.id)}.{base.attr}"
    return module.meaning(called(base))


def of_self(target: ast.expr) -> bool:
    """Whether an expression is ``self`` or an attribute of it."""
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return isinstance(target, ast.Name) and target.id == "self"


def python_state() -> set[State]:
    """The global state of the Python package."""
    modules = [Module(path) for path in sorted((ROOT / "warp_like").rglob("*.py"))]
    classes = changing_classes(modules)
    targets = {named(m, target) for m in modules for target in m.written}
    found: set[State] = set()
    for m in modules:
        found |= {(m.file, name) for node in m.nodes if isinstance(node, ast.Global) for name in node.names}
        for name, value in m.values.items():
            if is_state(m, value, classes) or f"{m.dotted}.{name}" in targets:
                found.add((m.file, name))
        found |= {(m.file, name) for name in caches(m)} | set(set_from_outside(m, modules))
        if any(isinstance(t, ast.Call) and called(t) == "globals" for t in m.written):
            found.add((m.file, "globals()"))
    return found


def named(m: Module, target: ast.expr) -> str:
    """The dotted name of what is written to, if it is something of a module; else an empty text."""
    match target:
        case ast.Name():
            return m.meaning(target.id)
        case ast.Attribute(value=ast.Name() as owner):
            return f"{m.meaning(owner.id)}.{target.attr}"
    return ""


def is_container(value: ast.expr) -> bool:
    """Whether an expression makes a container that can be changed."""
    literal = ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp
    return isinstance(value, literal) or (isinstance(value, ast.Call) and called(value) in CONTAINERS)


def is_state(m: Module, value: ast.expr, classes: set[str]) -> bool:
    """Whether an expression makes an object that is there to change."""
    if not isinstance(value, ast.Call):
        return False
    function = value.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        owner = m.imported.get(function.value.id, function.value.id)
        if owner == "warp_like._native":
            return function.attr[0].isupper()
        return called(value) in MUTABLE | CACHES or f"{owner}.{function.attr}" in classes
    return called(value) in MUTABLE | CACHES or m.meaning(called(value)) in classes


def caches(m: Module) -> Iterator[str]:
    """The functions of a module that remember their results."""
    for node in m.tree.body:
        if isinstance(node, ast.FunctionDef) and any(called(d) in CACHES for d in node.decorator_list):
            yield node.name


def set_from_outside(m: Module, modules: list[Module]) -> Iterator[State]:
    """The attributes of modules and classes that ``m`` sets or, in the latter, changes in place."""
    known = {other.dotted: other for other in modules}
    for node in m.nodes:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                owner = m.meaning(target.value.id)
                parent, _, name = owner.rpartition(".")
                if owner in known and target.attr in known[owner].values:
                    yield known[owner].file, target.attr
                elif parent in known and name[0].isupper():
                    yield known[parent].file, f"{name}.{target.attr}"


# --- C++ ------------------------------------------------------------------------------------------------------

FIXED_TABLES = {"PyMethodDef", "PyMemberDef", "PyGetSetDef", "PyModuleDef", "PyTypeObject", "PySequenceMethods"}
FIXED_TABLES |= {"PyMappingMethods", "PyNumberMethods", "PyBufferProcs"}
"""Tables that Python's C interface takes without ``const``; nothing writes to them once the module is imported."""

_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL | re.MULTILINE)
_CHARACTER = re.compile(r"'(?:\\.|[^'\\\n])'")
_NO_VARIABLE = re.compile(r"^(?:using|typedef|static_assert|template|friend|extern|namespace|return|public|private)\b")
_FORWARD = re.compile(r"^(?:class|struct|union|enum)\b[^=(]*$")


def native_state() -> set[State]:
    """The global state of the native extension."""
    files = [*sorted((ROOT / "native").glob("*.cpp")), *sorted((ROOT / "native").glob("*.h"))]
    return {(f.relative_to(ROOT).as_posix(), name) for f in files for name in variables(f.read_text(encoding="utf-8"))}


def variables(text: str) -> Iterator[str]:
    """The names of the variables in a C++ file that live as long as the process, or as a thread."""
    text = _CHARACTER.sub("' '", _NOISE.sub(lambda m: '""' if m[0][0] == '"' else "", text))
    scopes = ["namespace"]
    statement = ""
    for part in re.split(r"([{};])", text):
        if part == "{":
            scopes.append(scope_of(statement, scopes[-1]))
            statement = "" if scopes[-1] != "value" else statement + "{"
        elif part == "}":
            if scopes.pop() == "value":
                statement += "}"
            else:
                statement = ""
        elif part == ";":
            if scopes[-1] != "value":
                yield from variables_of(statement.strip(), scopes[-1])
                statement = ""
        else:
            statement += part


def scope_of(statement: str, outside: str) -> str:
    """What the brace after ``statement`` opens: a namespace, a class, a function's code, or a value in braces."""
    words = re.sub(r"\s+", " ", statement).strip()
    if outside == "value" or words.endswith(("=", ",", "(", "return")):
        return "value"
    if re.match(r"(?:inline )?namespace\b|extern \"\"", words):
        return "namespace"
    if re.match(r"(?:template ?<.*> ?)?(?:typedef )?(?:class|struct|union)\b[^=()]*$", words):
        return "class"
    if re.match(r"enum\b", words):
        return "value"
    ends_a_head = re.search(r"\)(?: (?:const|noexcept|override|final))*(?: ?->[^;]*)?$|\b(?:else|do|try)$|^$|:$", words)
    if ends_a_head or outside == "code" or re.search(r"\) ?:[^:]", words):
        return "code" if ends_a_head or not re.search(r"[\w\]>]$", words) else "value"
    return "value" if re.search(r"[\w\]>]$", words) else "code"


def variables_of(statement: str, scope: str) -> list[str]:
    """The names of the variables that a statement declares, if they are neither constant nor of a shorter life."""
    words = re.sub(r"__attribute__ ?\(\(.*\)\) ", "", re.sub(r"\s+", " ", statement))
    words = re.sub(r"^(?:public|private|protected) ?: ?", "", words)
    first, *others = without_values(words)
    if _NO_VARIABLE.match(first) or _FORWARD.match(first):
        return []
    kept = re.match(r"(?:static |inline |thread_local )+", first)
    if scope == "class" and not (kept and "inline" in kept[0]):  # other static members are defined elsewhere
        return []
    if scope == "code" and not (kept and ("static" in kept[0] or "thread_local" in kept[0])):
        return []
    declared = re.sub(r"<.*>", "", first[kept.end() :] if kept else first)
    if "(" in declared or is_constant(declared):
        return []
    found = re.match(r"([\w:]+)\b.*?([\w:]+)\s*(?:\[[^\]]*\]\s*)*$", declared)
    if found is None or (found[1] in FIXED_TABLES and "*" not in declared):
        return []
    return [found[2], *(name for other in others for name in re.findall(r"\w+", other)[:1])]


def without_values(words: str) -> list[str]:
    """The declarators of a statement, split at commas and without what they are set to."""
    parts, depth, in_value = [""], 0, False
    for c in words:
        depth += (c in "([{<") - (c in ")]}>")
        in_value |= c == "{" or (c == "=" and not depth)
        if c == "," and not depth:
            parts.append("")
            in_value = False
        elif not in_value:
            parts[-1] += c
    return [part.strip() for part in parts]


def is_constant(declared: str) -> bool:
    """Whether a declaration, without its value, is of something that never changes."""
    if "constexpr" in declared or re.search(r"\* ?const \w+(?:\[[^\]]*\])?$", declared):
        return True
    return declared.startswith("const ") and ("*" not in declared or declared.endswith("]"))
