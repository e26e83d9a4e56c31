"""One step of a recipe: what it needs to know of activations, and what it does to the context."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from quarkfast.errors import QuarkfastError
from quarkfast.statistics import StatisticsRequest

__all__ = ["FunctionStep", "Step", "may_require", "rereads", "run_steps"]

_log = logging.getLogger("quarkfast")


class Step(Protocol):
    """What a recipe is made of. Any object with these attributes and methods is one; none has to inherit.

    A class of a lower layer, such as an algorithm with its settings, is a step if its methods take a context: they
    read and set attributes of it (``model``, ``scheme``, ``placement``, ``statistics``, ``plan``, ``notes``).
    """

    @property
    def name(self) -> str:
        """What the plan of a model and errors call it."""

    @property
    def stage(self) -> str:
        """The stage of the progress that it belongs to.

        Steps of one stage follow each other, and what they require is merged, so that samples run once before the
        first of them.
        """

    def applies(self, context: Any) -> bool:
        """Whether the step has anything to do under the scheme of `context`; the model is not looked at."""

    def requires(self, context: Any) -> StatisticsRequest:
        """Returns what must be known of activations before the stage of this step begins."""

    def run(self, context: Any) -> bool:
        """Does the step; returns whether it changed anything."""


def _always(context: Any) -> bool:
    return True


def _nothing(context: Any) -> StatisticsRequest:
    return StatisticsRequest()


class FunctionStep(NamedTuple):
    """A step made of functions.

    Example:
        >>> step = FunctionStep("count nodes", "prepare", lambda context: False)
        >>> step.applies(None), len(step.requires(None)), step.run(None)
        (True, 0, False)
    """

    name: str
    stage: str
    run: Callable[[Any], bool]
    applies: Callable[[Any], bool] = _always
    requires: Callable[[Any], StatisticsRequest] = _nothing


def may_require(step: Step) -> bool:
    """Whether `step` may ask for statistics, as far as can be said before it is asked."""
    return getattr(step, "requires", _nothing) is not _nothing


def rereads(step: Step, context: Any) -> int:
    """Returns how many of the first samples `step` reads once more after statistics have been gathered."""
    return int(step.rereads(context)) if hasattr(step, "rereads") else 0


def run_steps(steps: Sequence[Step], context: Any) -> None:
    """Runs the steps that apply, one by one, until one says that nothing is to be done."""
    for step in steps:
        if not step.applies(context):
            continue
        try:
            changed = step.run(context)
        except QuarkfastError as error:
            error.add_note(f"in step {step.name!r} of the recipe")
            raise
        _log.debug("step %r %s", step.name, "changed the model" if changed else "left the model as it was")
        if getattr(context, "unchanged", False):
            return
