from __future__ import annotations

from quarkfast.pipeline.summary import FloatNode, Summary


def _summary(*left):
    return Summary("MX6", "dot-products", "mx6", "mx6", {"Conv": 2}, left, 3, 2, 2, 8, 13, 1000, 300, {}, ())


def test_nodes_that_stay_float_for_one_reason_share_a_row_that_names_three():
    relus = [FloatNode(f"relu_{index}", "Relu", "no rule") for index in range(5)]
    adds = [FloatNode("add_0", "Add", "no rule"), FloatNode("add_1", "Add", "excluded")]
    found = [text for key, text in _summary(relus[0], adds[0], *relus[1:], adds[1]).rows() if key == "left float"]
    assert found == [
        "5 Relu ('relu_0', 'relu_1', 'relu_2', ...): no rule",
        "Add 'add_0': no rule",
        "Add 'add_1': excluded",
    ]


def test_three_nodes_are_all_named():
    nodes = [FloatNode(name, "Relu", "no rule") for name in "abc"]
    assert ("left float", "3 Relu ('a', 'b', 'c'): no rule") in _summary(*nodes).rows()


def test_plain_data_names_every_node():
    nodes = [FloatNode(f"relu_{index}", "Relu", "no rule") for index in range(5)]
    assert [node["name"] for node in _summary(*nodes).to_dict()["left_float"]] == [node.name for node in nodes]


def test_records_are_no_part_of_plain_data():
    assert "records" not in _summary().to_dict()
    assert "records" not in repr(_summary())
