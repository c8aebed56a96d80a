"""Scopes of a tape and its picture."""

import re
import shutil
import subprocess

import pytest

import warp_like as wp


@wp.kernel
def step(x: wp.array(dtype=float), gain: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * gain[i]


@wp.kernel
def total(values: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, values[wp.tid()])


def simulation(n=4):
    xs = [wp.zeros(3, dtype=float, requires_grad=True) for _ in range(n + 1)]
    gain = wp.ones(3, dtype=float)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        tape.record_scope_begin("simulation", {"dt": 0.1})
        for k in range(n):
            tape.record_scope_begin(f"step {k}")
            wp.launch(step, 3, inputs=[xs[k], gain, xs[k + 1]])
            tape.record_scope_end()
        tape.record_scope_end()
        wp.launch(total, 3, inputs=[xs[n], loss])
    return tape, xs, gain, loss


def nodes(dot):
    """Label by name."""
    return dict(re.findall(r'^ *(\w+) \[shape.*label="([^"]*)"', dot, re.M))


def edges(dot):
    labels = nodes(dot)
    return {(labels[a].split("\\n")[0], labels[b].split("\\n")[0]) for a, b in re.findall(r"(\w+) -> (\w+);", dot)}


def test_scopes():
    tape = simulation(2)[0]
    named = [(at, name) for at, name, _ in tape.scopes]
    assert named == [(0, "simulation"), (0, "step 0"), (1, None), (1, "step 1"), (2, None), (2, None)]
    assert tape.scopes[0][2] == {"dt": 0.1}
    tape.record_scope_begin("empty")
    tape.record_scope_end()
    assert len(tape.scopes) == 6
    tape.record_scope_begin("empty")
    tape.record_scope_end(remove_scope_if_empty=False)
    assert len(tape.scopes) == 8
    with pytest.raises(RuntimeError, match="without record_scope_begin"):
        tape.record_scope_end()
    tape.reset()
    assert tape.scopes == []


def test_the_whole_graph():
    tape, xs, _gain, _loss = simulation(3)
    labels = {x: f"x{k}" for k, x in enumerate(xs)}
    dot = tape.visualize(simplify_graph=False, array_labels=labels, graph_direction="TB")
    assert edges(dot) == {
        *((f"x{k}", "step") for k in range(3)),
        *(("step", f"x{k + 1}") for k in range(3)),
        ("gain", "step"),
        ("x3", "total"),
        ("loss", "total"),
        ("total", "loss"),
    }
    assert list(nodes(dot).values()).count("step\\ndim 3") == 3
    assert "rankdir=TB" in dot
    assert re.findall(r' label="(\D*\d?)";', dot) == ["simulation", "step 0", "step 1", "step 2"]
    assert 'tooltip="dt: 0.1"' in dot
    assert "cluster" not in tape.visualize(ignore_graph_scopes=True)


def test_repetitions_are_folded():
    tape, xs, _gain, loss = simulation(5)
    dot = tape.visualize(array_labels={xs[0]: "start"}, track_outputs=[loss], track_output_names=["result"])
    assert list(nodes(dot).values()).count("step\\ndim 3") == 1
    assert 'label="repeated 5 times"' in dot
    # the output of a round is the input of the next and of what follows; it is called by its longest name
    assert edges(dot) == {
        ("start", "step"),
        ("values", "step"),
        ("step", "values"),
        ("gain", "step"),
        ("values", "total"),
        ("result", "total"),
        ("total", "result"),
    }


def test_longer_rounds_and_other_operations():
    a, b = (wp.zeros(3, dtype=float, requires_grad=True) for _ in range(2))
    gain = wp.ones(3, dtype=float)
    with wp.Tape() as tape:
        for _ in range(3):
            wp.launch(step, 3, inputs=[a, gain, b])
            wp.copy(a, b)
        b.fill_(0.0)

        def custom():
            pass

        tape.record_func(custom, [a])
    dot = tape.visualize(choose_longest_node_name=False)
    shown = [n.split("\\n")[0] for n in nodes(dot).values()]
    assert sorted(shown) == ["copy", "custom", "fill", "gain", "step", "x", "y"]
    assert {("y", "copy"), ("copy", "x"), ("fill", "y"), ("x", "custom")} <= edges(dot)


def test_read_only_arrays_can_be_hidden():
    tape, xs, _gain, loss = simulation()
    shown = nodes(tape.visualize(hide_readonly_arrays=True, track_inputs=[xs[0]], track_input_names=["start"]))
    assert "start\\nfloat32 [3]" in shown.values()
    assert not any(n.startswith("gain") for n in shown.values())
    del loss


def test_names_are_quoted(tmp_path):
    tape, xs, gain, _loss = simulation(1)
    odd = 'a "b" <c> \\ #'
    dot = tape.visualize(tmp_path / "tape.dot", array_labels={gain: odd})
    assert (tmp_path / "tape.dot").read_text() == dot
    assert 'label="a \\"b\\" <c> \\\\ #\\nfloat32' in dot
    mermaid = tape.visualize(str(tmp_path / "tape.mmd"), array_labels={gain: odd}, track_inputs=[xs[0]])
    assert mermaid.startswith("flowchart LR\n")
    assert '(["a #34;b#34; #60;c#62; \\ #35;<br/>float32 #91;3#93;"])' in mermaid
    assert 'op0["step<br/>dim 3"]' in mermaid
    assert mermaid.count("subgraph") == mermaid.count("  end\n") == 2
    assert "style arr0 stroke-width:3px" in mermaid
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg"], input=dot, text=True, check=True, capture_output=True)


def test_bad_arguments():
    tape, xs, *_ = simulation(1)
    with pytest.raises(ValueError, match="graph_direction is LR, RL, TB or BT, got 'XY'"):
        tape.visualize(graph_direction="XY")
    with pytest.raises(ValueError, match="format is"):
        tape.visualize(format="svg")
    with pytest.raises(ValueError, match="track_inputs has 1 arrays, and there are 2 names"):
        tape.visualize(track_inputs=[xs[0]], track_input_names=["a", "b"])
    with pytest.raises(ValueError, match="track_inputs has 0 arrays, and there are 2 names"):
        tape.visualize(track_input_names=["a", "b"])
