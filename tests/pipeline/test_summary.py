from __future__ import annotations

import pytest

import quarkfast
from quarkfast.demo.data import MODEL, load_images
from quarkfast.pipeline.summary import FloatNode, Summary


def _summary(*left):
    return Summary("MX6", "dot-products", "mx6", "mx6", {"Conv": 2}, left, 3, 2, 2, 8, 13, 1000, 300, {}, ())


def test_nodes_that_stay_float_for_one_reason_share_a_row_that_names_three():
    relus = [FloatNode(f"relu_{index}", "Relu", "no rule") for index in range(5)]
    adds = [FloatNode("add_0", "Add", "no rule"), FloatNode("add_1", "Add", "excluded")]
    found = [text for key, text in _summary(relus[0], adds[0], *relus[1:], adds[1]).rows() if key == "left float"]
    assert found == ["5 Relu, 1 Add ('relu_0', 'add_0', 'relu_1', ...): no rule", "Add 'add_1': excluded"]


def test_operators_that_a_target_has_no_rule_for_share_a_row():
    nodes = [FloatNode(f"n{index}", op, f"npu has no rule for {op}") for index, op in enumerate(["Erf", "Div", "Div"])]
    rows = _summary(*nodes, FloatNode("m", "Erf", "excluded")).rows()
    found = [text for key, text in rows if key == "left float"]
    assert found == ["2 Div, 1 Erf ('n0', 'n1', 'n2'): npu has no rule for them", "Erf 'm': excluded"]
    one = [text for key, text in _summary(nodes[0]).rows() if key == "left float"]
    assert one == ["Erf 'n0': npu has no rule for Erf"]


def test_three_nodes_are_all_named():
    nodes = [FloatNode(name, "Relu", "no rule") for name in "abc"]
    assert ("left float", "3 Relu ('a', 'b', 'c'): no rule") in _summary(*nodes).rows()


def test_plain_data_names_every_node():
    nodes = [FloatNode(f"relu_{index}", "Relu", "no rule") for index in range(5)]
    assert [node["name"] for node in _summary(*nodes).to_dict()["left_float"]] == [node.name for node in nodes]


def test_records_are_no_part_of_plain_data():
    assert "records" not in _summary().to_dict()
    assert "records" not in repr(_summary())


@pytest.mark.parametrize(("preset", "shown"), [("A8W8", True), ("INT8_WO", False)])
def test_samples_are_counted_where_they_gave_ranges(preset, shown):
    result = quarkfast.quantize(MODEL, preset=preset, calibration_data=load_images().calibration)
    assert ("calibrated on" in dict(result.summary.rows())) == shown
