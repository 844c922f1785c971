"""Pages: what is added to them is there once, escaped, in the colours of the page, and without anything fetched."""

import re

import pytest

from sparsect.reporting.inline import inline
from sparsect.reporting.look import COLOURS, look
from sparsect.reporting.page import Page
from sparsect.reporting.plots import new_figure

ODD = "<b>a & \"b\" 'c'</b>"


@pytest.fixture
def written(tmp_path):
    def write(page):
        page.write(tmp_path / "page.html")
        return (tmp_path / "page.html").read_text()

    return write


def chart():
    figure = new_figure((3, 2))
    axes = figure.add_subplot()
    for method in ("annealed-difference-map", "omp"):
        axes.plot([1, 2], [3, 4], label=method, **look(method).line())
    axes.set(xlabel=ODD, xscale="log")
    axes.legend()
    return figure


def test_a_chart_has_the_colours_and_letters_of_the_page():
    element = inline(chart())
    assert element.startswith("<svg")
    for name in ("blue", "amber", "ink"):
        assert f"var(--{name})" in element
    assert not {pair[0] for pair in COLOURS.values()} & set(re.findall("#[0-9a-f]{6}", element))
    assert "DejaVu" not in element
    assert "http" not in element
    assert "<b>" not in element
    assert element == inline(chart())


def test_everything_is_escaped(written, rng):
    page = Page(ODD)
    page.section(ODD)
    page.subsection(ODD)
    page.text(ODD)
    page.points([ODD])
    page.table([ODD], [[ODD]], methods=[ODD])
    page.pictures([(ODD, rng.random((4, 5)))])
    page.picture(ODD, rng.random((4, 5, 3)))
    page.slider([(ODD, rng.random((4, 5))) for _ in range(3)])
    page.chart(ODD, ODD, chart())
    text = written(page)
    assert "<b>" not in text
    assert text.count("<h1>&lt;b&gt;a &amp; &quot;b&quot;") == 1
    # Every attribute is closed where it should be.
    assert not re.search(r'(alt|aria-label)="[^"]*<', text)


def test_a_slider_holds_every_picture_once_and_can_choose_from_more_than_two(written, rng):
    pictures = [(name, rng.random((4, 5))) for name in ("before", "after", "truth")]
    two, three = Page("two"), Page("three")
    two.slider(pictures[:2])
    three.slider(pictures)
    text = written(two)
    assert text.count("<img") == 2
    assert "<select>" not in text
    assert "Left of the line: before. Right of it: after." in text
    text = written(three)
    assert text.count("<img") == text.count("data:image/png") == 3
    assert re.findall("<option selected>(.*?)</option>", text) == ["before", "after"]
    assert text.count("<option") == 6
    assert 'aria-label="boundary between before and after"' in text


def test_large_pictures_under_a_slider_are_compressed(written, monkeypatch, rng):
    monkeypatch.setattr("sparsect.reporting.page.LOSSLESS", 39)
    page = Page("large")
    page.slider([(name, rng.random((4, 5))) for name in ("before", "after")])
    assert written(page).count("data:image/jpeg") == 2


def test_only_a_page_with_a_slider_has_a_script(written, rng):
    page = Page("plain")
    page.text("words")
    assert "<script" not in written(page)
    page.slider([("before", rng.random((4, 5))), ("after", rng.random((4, 5)))])
    page.slider([("before", rng.random((4, 5))), ("after", rng.random((4, 5)))])
    assert written(page).count("<script") == 1


def test_tables_of_methods_show_line_and_marker(written):
    page = Page("methods")
    page.table(["method", "dB"], [["omp", "1"], ["ormp", "2"], ["limit", "3"]], best=1, methods=("omp", "ormp"))
    *rows, limit = re.findall("<tr.*?</tr>", written(page))[1:]
    assert "<svg" not in limit
    assert all("var(--amber)" in row for row in rows)
    assert ['fill="var(--paper)"' in row for row in rows] == [False, True]
    assert ["class=best" in row for row in rows] == [False, True]
