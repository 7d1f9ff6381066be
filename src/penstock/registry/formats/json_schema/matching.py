"""Find the largest matching between the alternatives of two combined schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def largest_matching(neighbours: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return the largest matching, left to right, in a graph given as each left node's right neighbours.

    The algorithm uses augmenting paths (Kuhn 1955).
    """
    taken: dict[int, int] = {}  # maps right to left
    for start in neighbours:
        came_from: dict[int, int] = {}  # maps a right node to the left node from which it was reached
        waiting, end = [start], None
        while waiting and end is None:
            left = waiting.pop()
            for right in neighbours[left]:
                if right in came_from:
                    continue
                came_from[right] = left
                if right not in taken:
                    end = right
                    break
                waiting.append(taken[right])
        while end is not None:
            left = came_from[end]
            before = next((right for right, other in taken.items() if other == left), None)
            taken[end] = left
            end = before if left != start else None
    return {left: right for right, left in taken.items()}
