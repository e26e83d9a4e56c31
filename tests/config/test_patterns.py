from __future__ import annotations

import pytest

from quarkfast.config import match_names
from quarkfast.errors import ConfigError

NAMES = ("/layer1/conv", "/layer1/relu", "/layer2/conv", "head[0]")


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        pytest.param(["head[0]"], {"head[0]"}, id="name"),
        pytest.param(["/layer?/conv"], {"/layer1/conv", "/layer2/conv"}, id="glob"),
        pytest.param(["head[*"], {"head[0]"}, id="glob with a bracket"),
        pytest.param(["^/layer1/.*"], {"/layer1/conv", "/layer1/relu"}, id="regular expression"),
        pytest.param(["^.*conv$", "head[0]"], {"/layer1/conv", "/layer2/conv", "head[0]"}, id="several"),
        pytest.param([], set(), id="none"),
    ],
)
def test_patterns_stand_for_names(patterns, expected):
    assert match_names(patterns, NAMES, "exclude") == expected


@pytest.mark.parametrize("pattern", ["/layer1/con", "/layer3/*", "^nothing.*"])
def test_a_pattern_that_matches_nothing_is_an_error(pattern):
    with pytest.raises(ConfigError, match="exclude: expected the name of a node, got"):
        match_names([pattern], NAMES, "exclude")


def test_a_name_that_is_almost_right_is_suggested():
    with pytest.raises(ConfigError, match="did you mean '/layer1/conv'"):
        match_names(["/layer1/con"], NAMES, "exclude")


def test_a_broken_regular_expression_is_an_error():
    with pytest.raises(ConfigError, match=r"exclude: expected a regular expression, got '\^\('"):
        match_names(["^("], NAMES, "exclude")
