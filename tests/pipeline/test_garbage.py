"""Collections while a model is at work leave older objects alone, and nothing stays frozen."""

import gc

import pytest

from quarkfast.pipeline.garbage import only_new_objects_collected


def test_older_objects_are_frozen_in_the_block_and_thawed_behind_it() -> None:
    with only_new_objects_collected():
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize(("given", "within"), [(700, 10_000), (20_000, 20_000), (0, 0)])
def test_collections_are_rarer_in_the_block_unless_there_are_none(given: int, within: int) -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(given, *before[1:])
        with only_new_objects_collected():
            assert gc.get_threshold()[0] == within
        assert gc.get_threshold() == (given, *before[1:])
    finally:
        gc.set_threshold(*before)


def test_an_error_thaws_them_too() -> None:
    with pytest.raises(KeyError), only_new_objects_collected():
        raise KeyError
    assert gc.get_freeze_count() == 0


def test_what_the_user_has_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        with only_new_objects_collected():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
