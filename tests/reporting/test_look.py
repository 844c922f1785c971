"""The visual language: every method can be told from every other, on light and on dark paper, by everybody."""

import itertools

import matplotlib.colors
import numpy as np
import pytest

from sparsect.reporting.look import COLOURS, LOOKS, MARKERS, OTHERS, PAGE, look, variables
from sparsect.solvers import METHODS

# Full colour blindness of each kind on linear RGB (Machado, Oliveira and Fernandes 2009).
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(colour):
    levels = np.array(matplotlib.colors.to_rgb(colour))
    return np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """Contrast of two colours as WCAG 2 defines it, from 1 to 21."""
    low, high = sorted(0.05 + linear(colour) @ [0.2126, 0.7152, 0.0722] for colour in (one, other))
    return high / low


def oklab(levels):
    """Perceptual coordinates of linear RGB (Ottosson 2020)."""
    cones = np.array(
        [
            [0.41222147, 0.53633254, 0.05144599],
            [0.21190350, 0.68069955, 0.10739696],
            [0.08830246, 0.28171884, 0.62997870],
        ]
    )
    opponents = np.array(
        [
            [0.21045426, 0.79361779, -0.00407205],
            [1.97799850, -2.42859221, 0.45059371],
            [0.02590404, 0.78277177, -0.80867577],
        ]
    )
    return opponents @ np.cbrt(cones @ np.clip(levels, 0, 1))


def test_every_method_has_a_look_and_no_other_name_has():
    assert set(LOOKS) == set(METHODS)


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(METHODS, 2)))
def test_two_methods_differ_in_marker_and_those_of_one_colour_in_shape_and_line(one, other):
    a, b = look(one), look(other)
    assert (a.marker, a.filled) != (b.marker, b.filled)
    if a.colour == b.colour:
        assert a.marker != b.marker
        assert a.dashes != b.dashes


@pytest.mark.parametrize("paper", [0, 1], ids=["light", "dark"])
def test_colours_and_text_stand_out_from_the_paper(paper):
    for pair in COLOURS.values():
        assert contrast(pair[paper], PAGE["paper"][paper]) >= 3
    for ground in ("paper", "soft"):
        for words in (COLOURS["ink"], PAGE["faint"], PAGE["best"]):
            assert contrast(words[paper], PAGE[ground][paper]) >= 4.5


@pytest.mark.parametrize("blindness", BLINDNESS)
@pytest.mark.parametrize("paper", [0, 1], ids=["light", "dark"])
def test_colours_can_be_told_apart_with_colour_blindness(paper, blindness):
    seen = [oklab(np.array(BLINDNESS[blindness]) @ linear(pair[paper])) for pair in COLOURS.values()]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 0.09


def test_a_method_outside_the_package_has_a_look_of_its_own():
    own = look("hard-thresholding")
    assert own == look("hard-thresholding")
    assert own.marker in OTHERS
    assert all(own.marker != method.marker and own.dashes != method.dashes for method in LOOKS.values())
    assert len({look(f"own-{number}") for number in range(500)}) == len(OTHERS) * len(COLOURS)


def test_variables_hold_every_colour_for_its_paper():
    light, dark = variables(False), variables(True)
    assert "--blue: #0072b2;" in light
    assert "--blue: #4ba3e3;" in dark
    assert light.count("--") == dark.count("--") == len(COLOURS) + len(PAGE)
    assert look("omp").css == "var(--amber)"


@pytest.mark.parametrize("method", [*METHODS, "hard-thresholding"])
def test_matplotlib_draws_every_look(method):
    from sparsect.reporting.plots import new_figure

    axes = new_figure((2, 2)).add_subplot()
    (line,) = axes.plot([0, 1], [0, 1], **look(method).line())
    assert line.get_marker() in MARKERS
    assert matplotlib.colors.same_color(line.get_color(), look(method).light)
