"""Plots of the documentation: labels are whole, and the best stands first."""

import re

import pytest

from docs import pictures

PLOTS = ["throughput.svg", "processor.svg"]
LABEL = re.compile(r"<text x='(\d+)'[^>]*text-anchor='end'[^>]*>([^<]+)</text>")
BAR = re.compile(r"<rect x='\d+' y='(\d+)' width='(\d+)' height='16'")


@pytest.mark.parametrize("name", PLOTS)
def test_no_label_begins_left_of_the_picture(name: str) -> None:
    labels = LABEL.findall(pictures.pictures()[name])

    assert len(labels) > 10
    assert [text for x, text in labels if int(x) < 7 * len(text)] == []


@pytest.mark.parametrize("name", PLOTS)
def test_bars_of_a_group_are_in_order(name: str) -> None:
    bars = [(int(y), int(width)) for y, width in BAR.findall(pictures.pictures()[name])]
    groups: list[list[int]] = []
    for (y, width), (before, _) in zip(bars, [(-100, 0), *bars[:-1]], strict=True):
        if y - before > 30:
            groups.append([])
        groups[-1].append(width)

    assert len(groups) == 2
    assert all(each == sorted(each, reverse=name == PLOTS[0]) for each in groups)
