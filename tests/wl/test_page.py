import html
import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import cwnet
from cwnet import CellComplex
from cwnet.wl._layout import layout
from cwnet.wl._page import Panel, TestRun, _lasting_colours, render_page

TRIANGLES = (6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
HEXAGON = (6, [(i, (i + 1) % 6) for i in range(6)])
DECALIN = (10, [*((i, (i + 1) % 10) for i in range(10)), (0, 5)])
BICYCLOPENTYL = (10, [*((5 * r + i, 5 * r + (i + 1) % 5) for r in range(2) for i in range(5)), (0, 5)])


def wl_run():
    """WL on two triangles and a hexagon, coloured by hand: it sees vertices and edges and nothing more."""
    a, b = cwnet.lift(TRIANGLES, None), cwnet.lift(HEXAGON, None)
    rounds = [[[0] * 6, [0] * 6], [[0] * 6, [1] * 6], [[0] * 6, [1] * 6]]
    return TestRun("WL", (Panel("Two triangles", a, rounds), Panel("Hexagon", b, rounds)), False, None)


def cwl_run():
    """A test that sees only how large rings are: those of decalin have 6 edges, those of bicyclopentyl 5."""
    a, b = cwnet.lift(DECALIN, cwnet.Rings(6)), cwnet.lift(BICYCLOPENTYL, cwnet.Rings(6))
    of_a, of_b = ([[[0] * 10, [0] * 11, [0] * 2], [[0] * 10, [1] * 11, [k] * 2]] for k in (2, 3))
    return TestRun("CWL on Rings(6)", (Panel("Decalin", a, of_a), Panel("Bicyclopentyl", b, of_b)), True, 1)


def changed(run, **changes):
    """The run with changes to its first panel."""
    return replace(run, panels=(replace(run.panels[0], **changes), run.panels[1]))


def data_of(page):
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


def test_page_asks_for_nothing_from_outside():
    page = render_page([wl_run(), cwl_run()], "Two triangles and a hexagon")
    assert page.startswith("<!doctype html>")
    assert not re.search(r"https?://|\bsrc\s*=|<link\b|@import|\burl\(|\bfetch\(|\bimport\(", page)
    assert "default-src 'none'" in page
    assert not re.search(r"\{\{\w+\}\}", page)


def test_data_describes_the_drawing():
    first, second = data_of(render_page([wl_run(), cwl_run()], "t"))["runs"]
    assert (first["test"], first["decidedAt"]) == ("WL", None)
    assert (second["test"], second["decidedAt"]) == ("CWL on Rings(6)", 1)
    decalin = second["panels"][0]
    assert decalin["about"] == "10 vertices, 11 edges, 2 2-cells"
    assert decalin["edges"][0] == [0, 1, 0.0]
    assert [[v for v, _ in steps] for steps in decalin["cells"]] == [[0, 1, 2, 3, 4, 5], [0, 5, 6, 7, 8, 9]]


def test_runs_on_one_graph_share_its_drawing():
    without = cwl_run().panels
    without = tuple(Panel(p.name, p.complex.skeleton(1), [[[0] * 10, [1] * 11]]) for p in without)
    runs = [TestRun("WL", without, False, None), cwl_run()]
    wl, cwl = (data["panels"][0]["points"] for data in data_of(render_page(runs, "t"))["runs"])
    assert wl == cwl == layout(runs[1].panels[0].complex).round(3).tolist()


def test_user_text_is_escaped():
    bad = "</script><script>alert(1)</script><!-- & {{data}}"
    run = changed(replace(cwl_run(), test=bad, looks_at=bad), name=bad, labels=[bad] * 10)
    page = render_page([run], bad)
    clean = render_page([cwl_run()], "t")
    assert page.count("<script") == clean.count("<script")
    assert page.count("<!--") == clean.count("<!--")
    assert page.count(html.escape(bad)) == 2  # <title> and <h1>
    data = data_of(page)["runs"][0]
    assert data["test"] == data["looksAt"] == data["panels"][0]["name"] == data["panels"][0]["labels"][0] == bad


def test_largest_piece_keeps_its_colour():
    a = CellComplex.from_boundaries(4, [])
    b = CellComplex.from_boundaries(3, [])
    # Numbers are new in every round. One class of 7 splits into 5 + 2, then the 5 into 3 + 2.
    of_a = [[[9, 9, 9, 9]], [[0, 0, 7, 7]], [[5, 5, 1, 1]]]
    of_b = [[[9, 9, 9]], [[7, 7, 7]], [[3, 3, 3]]]
    shown = _lasting_colours((Panel("a", a, of_a), Panel("b", b, of_b)))
    assert shown == [[[[0, 0, 0, 0]], [[1, 1, 0, 0]], [[1, 1, 2, 2]]], [[[0, 0, 0]], [[0, 0, 0]], [[0, 0, 0]]]]


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([], "at least one test"),
        ([wl_run(), changed(wl_run(), rounds=[])], r"runs\[1\].panels\[0\].rounds is empty"),
        ([changed(wl_run(), rounds=[[[0] * 6]])], r"panels\[0\].rounds\[0\] has colours for 1 dimensions.*lists 2"),
        (
            [changed(wl_run(), rounds=[[[0] * 6, [0] * 6], [[0] * 6, [0] * 5]])],
            r"runs\[0\].panels\[0\].rounds\[1\]\[1\] has 5 colours for 6 cells",
        ),
        ([changed(wl_run(), rounds=wl_run().panels[0].rounds[:2])], "2 and 3 rounds"),
        ([changed(wl_run(), labels=["C"])], r"panels\[0\].labels has 1 entries for 6 vertices"),
        ([changed(wl_run(), positions=[(0, 0)])], r"panels\[0\].positions has 1 entries for 6 vertices"),
        ([changed(wl_run(), positions=[(0, 0)] * 5 + [(0, float("nan"))])], r"positions\[5\] is .*two finite numbers"),
        ([replace(wl_run(), panels=wl_run().panels[:1])], "1 panels"),
        ([replace(wl_run(), distinguished=True)], "contradicts decided_at=None"),
        ([replace(wl_run(), distinguished=True, decided_at=2)], "decided_at=2, but the colour histograms never differ"),
        ([replace(cwl_run(), decided_at=7)], "first differ in round 1"),
        ([replace(cwl_run(), distinguished=False, decided_at=None)], "first differ in round 1"),
    ],
)
def test_bad_input_is_named(runs, message):
    with pytest.raises(ValueError, match=message):
        render_page(runs, "t")


def test_given_positions_are_kept_up_to_scale():
    points = np.array([(0, 0), (2, 0), (2, 2), (6, 0), (8, 0), (8, 2)])
    panel = data_of(render_page([changed(wl_run(), positions=points)], "t"))["runs"][0]["panels"][0]
    assert panel["points"] == (points / 2).tolist()


def test_layout_draws_rings_round():
    points = layout(cwnet.lift(HEXAGON, cwnet.Rings(6)))
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, atol=0.01)
    assert np.ptp(np.sort(points[:, 1])[:2]) < 0.01  # it stands on a side


def test_layout_repeats_itself_and_keeps_components_apart():
    points = layout(cwnet.lift(TRIANGLES, None))
    np.testing.assert_array_equal(points, layout(cwnet.lift(TRIANGLES, None)))
    assert points[:3, 0].max() < points[3:, 0].min() or points[3:, 0].max() < points[:3, 0].min()


def test_layout_draws_a_polyhedron_without_crossings():
    cube = [(a, a ^ 1 << k) for a in range(8) for k in range(3) if a < a ^ 1 << k]
    points = layout(cwnet.lift((8, cube), cwnet.Rings(4)))
    for i, (a, b) in enumerate(cube):
        for c, d in cube[:i]:
            if not {a, b} & {c, d}:
                corners = ((a, b, c), (a, b, d), (c, d, a), (c, d, b))
                sides = [np.linalg.det([points[q] - points[p], points[r] - points[p]]) for p, q, r in corners]
                assert sides[0] * sides[1] > 0 or sides[2] * sides[3] > 0


@pytest.mark.parametrize(
    "complex",
    [
        CellComplex.from_boundaries(0, []),
        CellComplex.from_boundaries(1, []),
        CellComplex.from_boundaries(3, [[]]),
        CellComplex.from_boundaries(3, [[(0, 1), (1, 2)]]),
        CellComplex.from_boundaries(2, [[(0, 1), (0, 1)], [(0, 1), (0, 1)]]),
    ],
)
def test_small_and_odd_complexes(complex):
    assert layout(complex).shape == (complex.num_cells[0], 2)
    assert np.isfinite(layout(complex)).all()
    rounds = [[[0] * n for n in complex.num_cells]]
    panels = (Panel("a", complex, rounds), Panel("b", complex, rounds))
    data = data_of(render_page([TestRun("CWL", panels, False, None)], "t"))
    assert len(data["runs"][0]["panels"][0]["points"]) == complex.num_cells[0]


def test_parallel_edges_bow_apart():
    sphere = CellComplex.from_boundaries(2, [[(0, 1), (1, 0)], [(0, 1), (0, 1)]])
    rounds = [[[0, 0], [0, 0], [0, 0]]]
    run = TestRun("CWL", (Panel("a", sphere, rounds), Panel("b", sphere, rounds)), False, None)
    panel = data_of(render_page([run], "t"))["runs"][0]["panels"][0]
    assert panel["edges"] == [[0, 1, -0.3], [1, 0, 0.3]]
    assert panel["cells"] == [[[0, -0.3], [1, 0.3]]] * 2


# In a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium on this machine to open the page with")
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    flags += " --disable-component-update --disable-sync --virtual-time-budget=3000 --dump-dom"

    def dom(page, address=""):
        folder = tmp_path_factory.mktemp("page")
        (folder / "page.html").write_text(page, encoding="utf-8")
        where = f"file://{folder}/page.html{address}"
        command = [chromium, *flags.split(), f"--user-data-dir={folder / 'profile'}", where]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    return dom


def element(dom, id):
    """The attributes and the text of an element that holds no element of its own kind."""
    _, attributes, inner = re.search(rf'<(\w+)([^>]*\bid="{id}"[^>]*)>(.*?)</\1>', dom, re.DOTALL).groups()
    return dict(re.findall(r'([\w-]+)="([^"]*)"', attributes)), re.sub(r"<[^>]*>", "", inner).strip()


def drawn(dom):
    """(vertices, edges, 2-cells) of both panels."""
    return [tuple(map(int, d)) for d in re.findall(r'data-vertices="(\d+)" data-edges="(\d+)" data-cells="(\d+)"', dom)]


def test_browser_draws_and_steps_by_address(browser):
    page = render_page([wl_run(), cwl_run()], "Two triangles & a hexagon")
    first = browser(page)
    assert drawn(first) == [(6, 6, 0), (6, 6, 0)]
    assert element(first, "line")[1] == "Initial colours: not told apart yet"
    assert element(first, "page")[0]["data-round"] == "0"

    last = browser(page, "#run=0&round=2")
    assert element(last, "line")[1] == "Not told apart: stable after round 1"
    assert (element(last, "page")[0]["data-rows"], element(last, "page")[0]["data-differing"]) == ("2", "0")

    apart = browser(page, "#run=1&round=1&colour=3")
    state = element(apart, "page")[0]
    assert drawn(apart) == [(10, 11, 2), (10, 11, 2)]
    assert element(apart, "verdict")[0]["data-state"] == "apart"
    assert element(apart, "line")[1] == "Told apart in round 1"
    assert (state["data-test"], state["data-rows"], state["data-differing"]) == ("CWL on Rings(6)", "4", "2")
    assert len(re.findall(r'class="cell face k2 on"', apart)) == 2  # the held colour: both rings of decalin


def test_browser_controls(browser):
    driver = """<script>
      const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      const seen = [];
      const note = () => seen.push(document.getElementById("page").dataset.round);
      document.getElementById("next").click(); note();
      press("ArrowRight"); note();
      press("ArrowRight"); note();
      press("Home"); note();
      press("End"); note();
      press("ArrowLeft"); note();
      document.getElementById("previous").click(); note();
      document.getElementById("play").click(); note();
      document.querySelector("#panel1 .vertex").dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
      document.body.dataset.seen = seen.join(" ");
      document.body.dataset.tip = document.getElementById("tip").innerText;
      document.body.dataset.pointed = document.querySelectorAll(".panel .on").length;
    </script></body>"""
    page, policies = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", render_page([wl_run()], "t"))
    assert policies == 1  # it would forbid the driver
    dom = browser(page.replace("</body>", driver))
    body = dict(re.findall(r'data-(\w+)="([^"]*)"', re.search(r"<body[^>]*>", dom)[0]))
    assert body["seen"] == "1 2 2 0 2 1 0 1"
    assert body["tip"].split("\n")[:2] == ["Vertex 0", "Colour 1: 12 cells"]
    assert body["pointed"] == "12"
    assert element(dom, "page")[0]["data-round"] == "2"  # play went on to the end
