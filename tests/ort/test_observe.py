"""quarkfast::Observe: passes its input through without a copy and adds it to a collector."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, helper

from quarkfast import _core, ort
from quarkfast.errors import ModelError

from .models import DOMAINS, declare, one_node, session


def observed_relu(collector: Any = 0, slot: Any = 0, observers: int = 1) -> ModelProto:
    """Relu, a chain of Observe, Neg."""
    nodes = [helper.make_node("Relu", ["x"], ["t0"])]
    for index in range(observers):
        attributes = {"collector": collector, "slot": slot}
        name = f"node {index}"
        nodes.append(
            helper.make_node("Observe", [f"t{index}"], [f"t{index + 1}"], name, domain="quarkfast", **attributes)
        )
    nodes.append(helper.make_node("Neg", [f"t{observers}"], ["y"]))
    graph = helper.make_graph(nodes, "observed", [declare("x", np.float32, ["n", 4])], [declare("y", np.float32, None)])
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(name, 1) for name in DOMAINS)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_values_pass_through_and_reach_the_collector(rng: np.random.Generator) -> None:
    collector = _core.Collector(2)
    observer = session(observed_relu(collector.id, 1))
    batches = [rng.standard_normal((n, 4)).astype(np.float32) for n in (3, 0, 100)]
    for x in batches:
        assert np.array_equal(observer.run(None, {"x": x})[0], -np.maximum(x, 0))
    seen = collector.range(1)
    assert (seen["min"], seen["max"], seen["count"]) == (0.0, max(x.max() for x in batches if x.size), 103 * 4)
    assert collector.range(0)["count"] == 0


def test_the_output_is_the_memory_of_the_input(probe: Path) -> None:
    collector = _core.Collector(1)
    model = observed_relu(collector.id, 0, observers=3)
    model.graph.node.append(helper.make_node("Same", ["t0", "t3"], ["same"], domain="quarkfast.probe"))
    model.graph.output.append(declare("same", np.float32, None))
    model.opset_import.append(helper.make_opsetid("quarkfast.probe", 1))
    for optimize in (False, True):
        options = ort.session_options(optimize=optimize)
        options.register_custom_ops_library(str(probe))
        runner = ort.inference_session(model.SerializeToString(), options)
        assert runner.run(["same"], {"x": np.ones((5, 4), np.float32)})[0] == 1
    assert collector.range(0)["count"] == 2 * 3 * 20


def test_an_initializer_is_copied_and_stays_as_it_is() -> None:
    collector = _core.Collector(1)
    w = np.arange(4, dtype=np.float32)
    model = one_node("Observe", [w], domain="quarkfast", constants=(0,), collector=collector.id, slot=0)
    runner = session(model)
    for _ in range(2):
        assert runner.run(None, {})[0].tolist() == w.tolist()


def test_shapes_of_later_tensors_stay_known() -> None:
    collector = _core.Collector(1)
    assert session(observed_relu(collector.id)).get_outputs()[0].shape == ["n", 4]


def test_a_session_keeps_its_collector_alive() -> None:
    collector = _core.Collector(1)
    runner = session(observed_relu(collector.id))
    del collector
    assert runner.run(None, {"x": np.ones((1, 4), np.float32)})[0].tolist() == [[-1] * 4]


def test_a_copy_of_the_library_that_opened_no_collector_says_so(tmp_path: Path) -> None:
    copy = shutil.copy(ort.get_library_path(), tmp_path)
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(copy)
    opened = _core.Collector(1)
    message = f"got {opened.id} in a copy of the library that has opened none; register the library at quarkfast.get_"
    with pytest.raises(ModelError, match=message):
        ort.inference_session(observed_relu(opened.id).SerializeToString(), options)


def test_eight_threads_on_one_session_lose_no_value() -> None:
    collector = _core.Collector(1)
    runner = session(observed_relu(collector.id))
    x = np.ones((100, 4), np.float32)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: runner.run(None, {"x": x}), range(200)))
    assert collector.range(0)["count"] == 200 * x.size


NODE = "quarkfast.Observe 'node 0': "


@pytest.mark.parametrize(
    ("collector", "slot", "sentence"),
    [
        (-1, 0, "attribute 'collector': expected the id of an open collector, got -1; create the session while the "),
        ("one", 0, "attribute 'collector': expected an integer, got another type"),
        (None, 2, "attribute 'slot': expected 0 to 1, got 2"),
        (None, -1, "attribute 'slot': expected 0 to 1, got -1"),
        (None, 0.5, "attribute 'slot': expected an integer, got another type"),
        (None, [1], "attribute 'slot': expected an integer, got another type"),
        (None, None, "attribute 'slot': expected an integer, got nothing"),
    ],
    ids=str,
)
def test_attributes_that_name_no_slot_are_rejected_with_the_session(collector: Any, slot: Any, sentence: str) -> None:
    opened = _core.Collector(2)
    model = observed_relu(opened.id if collector is None else collector, 0 if slot is None else slot)
    if slot is None:
        del model.graph.node[1].attribute[1]
    with pytest.raises(ModelError) as caught:
        session(model)
    assert NODE + sentence in str(caught.value)
