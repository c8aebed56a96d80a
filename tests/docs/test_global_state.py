"""``docs/global_state.md`` lists the global state that the source has, and nothing else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs import global_state
from tests.docs.global_state import ROOT, Module, State, native_state, python_state, variables

PAGE = (ROOT / "docs" / "global_state.md").read_text(encoding="utf-8")


def listed() -> set[State]:
    """The state of the page's tables; the last one names what belongs to others."""
    ours, _, _ = PAGE.partition("## State of the process that belongs to others")
    rows = re.findall(r"^\| (`[^|]*) \| `([^`|]*)` +\|", ours, re.MULTILINE)
    return {(file, name) for names, file in rows for name in re.findall(r"`([^`]+)`", names)}


def test_the_page_lists_what_there_is() -> None:
    found = python_state() | native_state()
    assert len(found) > 100
    missing, gone = found - listed(), listed() - found
    assert not missing, f"not in docs/global_state.md: {sorted(missing)}"
    assert not gone, f"in docs/global_state.md, but not in the source: {sorted(gone)}"


def test_files_of_the_last_table_exist() -> None:
    last = PAGE.partition("## State of the process that belongs to others")[2]
    files = re.findall(r"`((?:warp_like|native)/[\w/.]+)`", last)
    assert len(files) >= 6
    assert all((ROOT / file).exists() for file in files)


def test_the_search_sees_what_changes_the_process() -> None:
    """The last table is written by hand; these calls are what it is about."""
    named = ("set_threshold", "setrecursionlimit", "register_at_fork", "register_ffi_target", "pthread_atfork")
    calls = rf"\b(?:{'|'.join(named)})\("
    last = PAGE.partition("## State of the process that belongs to others")[2]
    sources = [*(ROOT / "warp_like").rglob("*.py"), *(ROOT / "native").glob("*.cpp")]
    with_calls = [p for p in sources if re.search(calls, p.read_text(encoding="utf-8"))]
    assert len(with_calls) >= 5
    for path in with_calls:
        assert f"`{path.relative_to(ROOT).as_posix()}`" in last


PYTHON = """
import functools
import itertools
import threading
from contextvars import ContextVar
from warp_like import _native

TABLE = {"a": 1}
FILLED: dict = {}
LISTED = []
number = 0
counter = itertools.count()
lock = threading.Lock()
inside = ContextVar("inside")
recorder = _native.Recorder()
changing, frozen, derived = Changing(), Frozen(), Derived()
box = Changing()
plain = Frozen()
local = Local()
marked = Frozen()
kept = functools.cache(len)


class Changing:
    def __init__(self):
        self.x = 1

    def grow(self):
        self.x += 1


class Frozen:
    def __init__(self):
        self.x = 1

    def twice(self):
        return 2 * self.x


class Derived(Changing):
    pass


class Local(threading.local):
    pass


class Registry:
    known = []


@functools.lru_cache(maxsize=1)
def remembered():
    return 1


def use():
    global number
    number = 1
    FILLED["b"] = TABLE["a"]
    LISTED.append(1)
    marked.x = 3
    Registry.known = [1]
    own = {}
    own["b"] = 1
"""


def test_python_that_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "warp_like").mkdir()
    (tmp_path / "warp_like" / "sample.py").write_text(PYTHON, encoding="utf-8")
    monkeypatch.setattr(global_state, "ROOT", tmp_path)
    names = {name for _, name in python_state()}
    assert names == {
        *("FILLED", "LISTED", "number", "counter", "lock", "inside", "recorder", "box", "local", "marked", "kept"),
        *("remembered", "Registry.known"),
    }


CPP = """
#include <atomic>
#define MACRO(x) int x = 0;
extern PyObject* elsewhere;
namespace wl {
class Forward;
using Short = int;
enum class Kind : uint8_t { One = 1, Two };
constexpr int kFixed = 3;
const char* const kWord = "a; b { c";
const char* const kWords[] = {"a", "b"};
const int kTable[] = {1, 2};
PyMethodDef methods[] = {{"f", f, METH_O, "f(x)"}, {nullptr, nullptr, 0, nullptr}};
PyTypeObject SampleType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject* sample_type = nullptr;
namespace {
std::atomic<std::vector<int>*> shared{nullptr};  // not: int commented = 0;
thread_local Spare spare;
TensorType cache[kFixed];
int64_t count = 0, limit;
struct Node {
    int member = 0;
    static int declared_;
    static constexpr int kInner = 1;
    inline static bool inner = false;
    Node(int a) : member(a) {}
    int get() const noexcept { return member; }
};
int Node::declared_ = 0;
template <typename T>
T twice(T x) {
    int local = 2;
    static const bool once = compute();
    static int calls = 0;
    for (int i = 0; i < 2; ++i) { local += i; }
    const auto f = [&](int y) { static bool tried = false; return y; };
    return x * local;
}
int function(int a, int b);
}  // namespace
}  // namespace wl
"""


def test_cpp_that_is_found() -> None:
    found = {"sample_type", "shared", "spare", "cache", "inner", "Node::declared_", "calls", "tried"}
    assert {*variables(CPP)} == found | {"count", "limit"}


def test_the_meaning_of_names() -> None:
    module = Module(ROOT / "warp_like" / "runtime" / "kernels" / "kernel.py")
    assert module.dotted == "warp_like.runtime.kernels.kernel"
    assert module.meaning("_kernels") == "warp_like.runtime.kernels.kernel._kernels"
    assert isinstance(module.tree, ast.Module)
