"""Activation precision: tensors that 8 bits cannot carry and that get 16 (mixed precision)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from quarkfast.config import POLICY, Policy

__all__ = ["choose_activations", "most_runs"]

Noise = Callable[[Collection[str]], float]


@dataclass(frozen=True, slots=True)
class _ActivationGroup:
    names: tuple[str, ...]
    noise: float
    size: int


def most_runs(count: int, policy: Policy = POLICY) -> int:
    """Returns how often the choice among so many tensors asks for noise, at most."""
    return min(2 * count, policy.activation_runs + 1) + 2 + count.bit_length()


def choose_activations(
    sizes: Mapping[str, int], own: Noise, noise: Noise, most: float, limit: float, policy: Policy = POLICY
) -> tuple[str, ...]:
    """Returns the fewest tensors without whose rounding the outputs have at most the noise `most`.

    1. All tensors are one group. The group that makes most noise by itself is halved, over and over, as long as that
       is more than a small part of `most` (`Policy.activation_negligible`).
    2. Groups are ranked by their noise for each element, as long as they take at most `limit` elements.
    3. The shortest beginning of that rank that suffices is found by bisection; all of it is taken where none does.

    Args:
        sizes: Name of a tensor -> its number of elements, in the order of the nodes.
        own: From the tensors that are rounded to the noise that they add; that of independent roundings sums up.
        noise: From the tensors that are rounded to the noise of the worst output, as a part of its power.
        most: The noise to come down to, as a part of the power.
        limit: At most so many elements are chosen.
        policy: How often models run, and what noise is not looked into.
    """
    names = tuple(sizes)
    if not names or noise(names) <= most:
        return ()
    size, ranked, groups = 0, list[_ActivationGroup](), _split(sizes, own, most, policy)
    for group in sorted(groups, key=lambda each: each.noise / max(each.size, 1), reverse=True):
        if size + group.size <= limit:
            ranked.append(group)
            size += group.size
    low, high = 0, len(ranked)
    while low < high:
        middle = (low + high) // 2
        raised = {name for group in ranked[:middle] for name in group.names}
        if noise([name for name in names if name not in raised]) <= most:
            high = middle
        else:
            low = middle + 1
    return tuple(name for group in ranked[:low] for name in group.names)


def _split(sizes: Mapping[str, int], own: Noise, most: float, policy: Policy) -> list[_ActivationGroup]:
    """Returns all tensors in groups with the noise that each makes by itself, those that are not negligible single."""

    def group(names: tuple[str, ...]) -> _ActivationGroup:
        return _ActivationGroup(names, own(names), sum(sizes[name] for name in names))

    runs, groups = 1, [group(tuple(sizes))]
    while runs < policy.activation_runs and (several := [each for each in groups if len(each.names) > 1]):
        worst = max(several, key=lambda each: each.noise)
        if worst.noise <= most / policy.activation_negligible:
            break
        half = len(worst.names) // 2
        groups.remove(worst)
        groups += [group(worst.names[:half]), group(worst.names[half:])]
        runs += 2
    return groups
