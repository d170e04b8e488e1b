"""The page in a browser: clicks, keys and hovers. Needs playwright, and a Chromium: its own or the system's."""

import itertools
import threading

import networkx as nx
import pytest

import cwnet
from cwnet.data._graph_files import from_smiles
from cwnet.explore import LIFTINGS, ExploreServer, exhibit, render_explorer
from cwnet.lifting import Graph

from .test_page import EVIL, named


@pytest.fixture
def view(chromium, tmp_path):
    """Open a page or an address. In the end nothing may have been asked for elsewhere, nor reported as wrong."""
    wrong, opened = [], []

    def show(text, address="", **options):
        if text.startswith("<!doctype"):
            (tmp_path / "page.html").write_text(text, encoding="utf-8")
            text = (tmp_path / "page.html").as_uri()
        options = {"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce", **options}
        page = chromium.new_page(**options)
        page.set_default_timeout(5000)
        page.on("console", lambda message: message.type in ("error", "warning") and wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: request.url.startswith(text.split("#")[0]) or wrong.append(request.url))
        page.goto(text + address)
        opened.append(page)
        return page

    yield show
    for page in opened:
        page.close()
    assert wrong == []


def place(data, name):
    return next(i for i, found in enumerate(data["exhibits"]) if found["name"] == name)


def state(page, name):
    return page.locator("#page").get_attribute(f"data-{name}")


def marked(page, panel=0):
    """The cells that are held up, by their part."""
    return page.evaluate(
        """(p) => Object.fromEntries(["self", "boundary", "coboundary", "upper", "lower"].map((role) => [role,
          [...document.querySelectorAll(".panel")[p].querySelectorAll(`.near.${role}`)]
            .map((e) => [Number(e.dataset.d), Number(e.dataset.i)]).sort((a, b) => a[0] - b[0] || a[1] - b[1])]))""",
        panel,
    )


def all_around(complex, d):
    """What lies around every d-cell, from the library."""
    found = [
        {"boundary": [[d - 1, j] for j in sorted(down)], "coboundary": [[d + 1, j] for j in sorted(up)]}
        for down, up in zip(complex.boundary(d).tolist(), complex.coboundary(d).tolist(), strict=True)
    ]
    for role, pairs in (("upper", complex.upper(d)), ("lower", complex.lower(d))):
        near = {frozenset(pair) for pair in pairs.index.T.tolist()}
        for i, of in enumerate(found):
            of[role] = sorted([d, j] for pair in near if i in pair for j in pair - {i})
    return found


def around(complex, d, i):
    return all_around(complex, d)[i]


# What the script computes


def test_what_lies_around_a_cell_is_the_librarys(view, page, collection, data):
    shown = view(page)
    for name in ("Diazepam", "Decalin", "Two triangles", "CSL(11, 3)"):
        at = place(data, name)
        for key, complex in collection[0][at].complexes.items():
            found = shown.evaluate(
                """([at, key]) => {
                  const { exhibits } = JSON.parse(document.getElementById("data").textContent);
                  const X = Cells.complexOf(exhibits[at], key);
                  return X.counts.map((n, d) => X.boundary[d].map((_, i) => Cells.around(X, d, i)));
                }""",
                [at, key],
            )
            for d, cells in enumerate(found):
                mine = [{role: sorted(near) for role, near in of.items()} for of in cells]
                assert mine == all_around(complex, d), (name, key, d)


@pytest.mark.parametrize("start", ["uniform", "labels"])
def test_verdicts_are_the_librarys(view, page, collection, data, start):
    shown = view(page)
    found = shown.evaluate(
        """(start) => {
          const { exhibits, liftings } = JSON.parse(document.getElementById("data").textContent);
          const some = exhibits.filter((e) => start === "uniform" || e.labelKind !== null);
          return liftings.map((key) => some.map((a) => some.map((b) => {
            const counts = [a, b].map((e) => Cells.complexOf(e, key).counts);
            const { decidedAt, stable } = Cells.colouring([a, b], key, start, counts);
            return [decidedAt, stable];
          })));
        }""",
        start,
    )
    graphs = [each.source.graph for each in collection[0] if start == "uniform" or each.label_kind]
    if start == "uniform":
        graphs = [Graph(g.num_nodes, g.edges) for g in graphs]
    assert len(graphs) in (6, 12)
    for key, table in zip(LIFTINGS, found, strict=True):
        for a, b in itertools.combinations_with_replacement(range(len(graphs)), 2):
            initial = "uniform" if start == "uniform" else "features"
            verdict = cwnet.distinguish(graphs[a], graphs[b], LIFTINGS[key], initial=initial)
            decided, stable = table[a][b]
            assert (decided is not None, decided if verdict else stable) == (verdict.distinguished, verdict.rounds)


# What one sees and does


def test_stepping_with_clicks_keys_and_the_slider(view, page):
    shown = view(page)
    line = shown.locator("#line")
    assert line.inner_text() == "Round 0: not told apart yet"
    assert shown.locator("#previous").is_disabled()
    assert shown.locator(".row.differs").count() == 0
    shown.click("#next")
    assert line.inner_text() == "Told apart in round 1"
    assert shown.locator("#verdict").get_attribute("data-state") == "apart"
    assert shown.locator(".row.differs").count() == 6
    assert "they differ" in shown.locator(".row.differs").first.get_attribute("aria-label")
    shown.keyboard.press("ArrowLeft")
    assert (state(shown, "round"), line.inner_text()) == ("0", "Round 0: not told apart yet")
    shown.keyboard.press("End")
    assert (state(shown, "round"), shown.locator("#next").is_disabled()) == (state(shown, "rounds"), True)
    shown.keyboard.press("Home")
    shown.locator("#slider").focus()
    shown.keyboard.press("ArrowRight")
    shown.keyboard.press("ArrowRight")
    assert state(shown, "round") == "2"
    assert "round=2" in shown.url
    shown.click("#previous")
    assert state(shown, "round") == "1"


def test_colours_on_cells_are_those_of_the_histogram(view, page, data):
    shown = view(page, f"#a={place(data, 'Decalin')}&b={place(data, 'Bicyclopentyl')}&lifting=rings:6&round=1")
    assert shown.locator(".panel").nth(0).locator(".vertex text").all_text_contents().count("5") == 2
    fills = shown.evaluate(
        """() => [...document.querySelectorAll(".vertex")]
          .map((e) => [e.style.getPropertyValue("--colour"), e.textContent])"""
    )
    assert len(set(map(tuple, fills))) == len({text for _, text in fills}) == 2


def test_a_row_of_the_histogram_holds_up_its_cells(view, page, data):
    shown = view(page, f"#a={place(data, 'Decalin')}&b={place(data, 'Bicyclopentyl')}&lifting=rings:6&round=1")
    row = shown.get_by_role("button", name="Colour 5: 2 in Decalin, 2 in Bicyclopentyl")
    row.hover()
    alike = "[...document.querySelectorAll('.alike')].map((e) => e.getAttribute('aria-label').split(', ')[1])"
    assert shown.evaluate(alike) == ["colour 5"] * 4
    shown.hover(".keys")
    assert shown.evaluate(alike) == []
    row.focus()
    assert shown.evaluate(alike) == ["colour 5"] * 4


def test_a_lifting_attaches_cells(view, page, data):
    shown = view(page, f"#a={place(data, 'Muscone')}&lifting=rings:6")
    about = shown.locator(".panel figcaption p")
    assert "17 bonds, 0 rings" in about.inner_text()
    shown.get_by_label("Rings ≤ 18").check()
    assert "17 bonds, 1 ring" in about.inner_text()
    assert shown.locator(".face").count() == 1
    shown.get_by_label("Graph only").check()
    assert about.inner_text().endswith("17 atoms, 17 bonds")
    assert "WL" in shown.locator("#detail").inner_text()


def test_wl_does_not_tell_the_pairs_apart_and_cells_do(view, page, data):
    shown = view(page)
    for card in shown.locator(".pair-card").all():
        card.click()
        lifting = state(shown, "lifting")
        shown.keyboard.press("End")
        assert shown.locator("#line").inner_text().startswith("Told apart in round")
        shown.get_by_label("Graph only").check()
        shown.locator("#next").focus()
        shown.keyboard.press("End")
        assert shown.locator("#line").inner_text().startswith("Not told apart: stable after round")
        assert lifting != "none"


def test_hovering_shows_what_lies_around(view, page, collection, data):
    at = place(data, "Diazepam")
    complex = collection[0][at].complexes["rings:18"]
    shown = view(page, f"#a={at}&lifting=rings:18&round=2")
    ring = complex.boundary(2).tolist()[2]
    shown.hover(f".edge[data-i='{ring[0]}'] .seen", force=True)
    assert marked(shown) == {"self": [[1, ring[0]]], **around(complex, 1, ring[0])}
    box = shown.locator("#inspector")
    for role in ("boundary", "coboundary", "upper", "lower"):
        chips = box.locator(f".relation.{role} .chip")
        assert chips.count() == len(around(complex, 1, ring[0])[role])
    assert box.locator("h3").inner_text().startswith("Bond: ")
    shown.hover(".keys")
    assert marked(shown)["self"] == []
    shown.hover(".face[data-i='2']")
    assert marked(shown)["boundary"] == [[1, j] for j in sorted(ring)]
    assert len(ring) == 7
    assert "Ring of 7" in box.inner_text()


def test_a_click_keeps_a_cell_and_chips_lead_on(view, page, data):
    shown = view(page, f"#a={place(data, 'Caffeine')}&lifting=rings:6")
    shown.click(".vertex[data-i='1'] circle")
    shown.hover(".keys")
    assert marked(shown)["self"] == [[0, 1]]
    chip = shown.locator(".relation.coboundary .chip").first
    edge = int(chip.get_attribute("data-i"))
    chip.click()
    assert marked(shown)["self"] == [[1, edge]]
    shown.keyboard.press("Escape")
    assert marked(shown)["self"] == []


def test_keys_walk_through_the_cells(view, page, data):
    shown = view(page, f"#a={place(data, 'Hexagon')}&lifting=rings:6")
    shown.locator(".panel svg .cell[tabindex='0']").focus()
    for _ in range(6):
        shown.keyboard.press("ArrowDown")
    assert marked(shown)["self"] == [[1, 0]]  # past six vertices
    for _ in range(6):
        shown.keyboard.press("ArrowDown")
    assert marked(shown) == {
        "self": [[2, 0]],
        "boundary": [[1, j] for j in range(6)],
        **{role: [] for role in ("coboundary", "upper", "lower")},
    }
    assert shown.evaluate("document.activeElement.getAttribute('aria-label')").startswith("2‑cell of 6")
    shown.keyboard.press("ArrowUp")
    shown.keyboard.press("Enter")
    shown.hover(".keys")
    assert marked(shown)["self"] == [[1, 5]]
    assert shown.locator(".cell[tabindex='0']").count() == 1


#: A point of the screen in the units of the picture.
IN_PICTURE = """([x, y]) => {
  const from = document.querySelector(".panel svg").getScreenCTM().inverse();
  const point = new DOMPoint(x, y).matrixTransform(from);
  return [point.x, point.y];
}"""


def test_zoom_and_pan_with_wheel_keys_buttons_and_mouse(view, page, data):
    shown = view(page, f"#a={place(data, 'Aspirin')}&lifting=rings:6")
    svg = shown.locator(".panel svg").first

    def box():
        return [float(v) for v in svg.get_attribute("viewBox").split()]

    home, middle = box(), svg.bounding_box()
    x, y = middle["x"] + middle["width"] / 2, middle["y"] + middle["height"] / 2
    shown.mouse.move(x + 60, y + 40)
    under = shown.evaluate(IN_PICTURE, [x + 60, y + 40])
    shown.mouse.wheel(0, -240)
    shown.wait_for_function("w => document.querySelector('.panel svg').viewBox.baseVal.width < w", arg=home[2])
    # What is under the pointer stays there, up to the pixels that events are counted in.
    assert shown.evaluate(IN_PICTURE, [x + 60, y + 40]) == pytest.approx(under, abs=0.5)
    shown.keyboard.press("0")
    assert box() == home
    shown.keyboard.press("+")
    assert box()[2] < home[2]
    shown.keyboard.press("-")
    assert box() == pytest.approx(home, abs=0.1)
    shown.keyboard.press("Shift+ArrowRight")
    assert box()[0] > home[0]
    assert state(shown, "round") == "0"
    shown.get_by_role("button", name="Fit").click()
    assert box() == home
    corner = (middle["x"] + 20, middle["y"] + 20)
    shown.mouse.move(*corner)
    shown.mouse.down()
    shown.mouse.move(corner[0] + 50, corner[1] + 30, steps=3)
    shown.mouse.up()
    assert box()[0] < home[0]
    assert box()[1] < home[1]
    assert box()[2:] == home[2:]
    shown.get_by_role("button", name="Zoom in").click()
    assert box()[2] < home[2]


def test_comparing_any_two(view, page, data):
    shown = view(page, f"#a={place(data, 'Aspirin')}&lifting=rings:6")
    assert shown.locator(".panel").count() == 1
    card = shown.locator(".exhibit", has_text="Caffeine")
    card.hover()
    card.get_by_role("button", name="Compare with Caffeine").click()
    assert shown.locator(".panel h2").all_inner_texts() == ["Aspirin", "Caffeine"]
    assert shown.locator("#line").inner_text().startswith("Told apart in round 0")
    shown.hover(".panel:nth-child(2) .vertex[data-i='0'] circle")
    assert (marked(shown, 0)["self"], marked(shown, 1)["self"]) == ([], [[0, 0]])
    shown.get_by_role("button", name="Stop comparing").click()
    assert shown.locator(".panel").count() == 1
    shown.get_by_role("button", name="Show Diazepam").click()
    assert shown.locator(".panel h2").all_inner_texts() == ["Diazepam"]


def test_colours_start_from_labels_or_not(view, page, data):
    shown = view(page, f"#a={place(data, 'Aspirin')}&lifting=none")
    colours = shown.locator("#line")
    assert colours.inner_text().startswith("5 colours")  # C, O, and three types of bonds
    shown.get_by_label("Start from elements and bonds").uncheck()
    assert colours.inner_text().startswith("1 colour")
    shown.get_by_role("button", name="Show Hexagon").click()
    assert not shown.locator("#labels-switch").is_visible()


def test_contributions(view, page, data):
    at = place(data, "Aspirin")
    found = data["exhibits"][at]["prediction"]
    shown = view(page, f"#a={at}&lifting=none")
    shown.get_by_label("Contributions").check()
    assert state(shown, "lifting") == "rings:18"
    assert shown.locator("#line").inner_text() == f"penalised logP {found['value']:.2f}"
    assert not shown.locator("#transport").is_visible()
    total = shown.locator("#prediction .total td").inner_text()
    assert total == f"{found['value']:.2f}"
    row = shown.locator(".contribution", has_text="Ring of 6")
    assert row.locator(".value").inner_text() == f"+{found['contributions'][2][0]:.2f}"
    row.hover()
    assert marked(shown)["self"] == [[2, 0]]
    assert "contributes +" in shown.locator("#inspector").inner_text()
    worst = min(range(len(found["contributions"][0])), key=lambda i: found["contributions"][0][i])
    look = shown.locator(f".vertex[data-i='{worst}']")
    assert look.evaluate("e => e.style.getPropertyValue('--colour')").startswith("color-mix(in oklab, var(--down)")
    assert "contributes −" in look.get_attribute("aria-label")
    shown.get_by_label("Numbers on cells").uncheck()
    assert look.locator("text").first.text_content() == "O"
    shown.get_by_role("button", name="Show Hexagon").click()
    assert state(shown, "view") == "colours"
    assert shown.get_by_label("Contributions").is_disabled()


def test_many_cells_are_drawn_when_pointed_at(view, page, data):
    shown = view(page, f"#a={place(data, 'Shrikhande')}&lifting=rings:6")
    assert shown.locator(".face").count() == 204
    assert shown.locator(".face >> visible=true").count() == 0
    shown.hover(".edge[data-i='0'] .seen", force=True)
    assert shown.locator(".face >> visible=true").count() == len(marked(shown)["coboundary"]) > 0
    shown.locator(".vertex").first.focus()
    shown.keyboard.press("ArrowUp")  # from the first cell to the last, a ring
    assert marked(shown)["self"] == [[2, 203]]
    assert shown.locator(".face.self").is_visible()


def test_a_lifting_that_is_too_much_can_not_be_chosen(view):
    shown = view(render_explorer([exhibit(named(nx.circulant_graph(41, [1, 3]), "CSL"))]), "#a=0&lifting=rings:18")
    assert state(shown, "lifting") == "rings:6"
    assert shown.get_by_label("Rings ≤ 18").is_disabled()
    label = shown.locator("#liftings label", has_text="Rings ≤ 18")
    assert label.get_attribute("title") == "CSL: Rings(18) attaches more than 1,000 cells, too many to draw"


def test_text_of_users_is_harmless(view):
    bad = exhibit(named(nx.cycle_graph(3), EVIL, labels=(EVIL, "C", "N")), about=EVIL)
    shown = view(render_explorer([bad, exhibit(from_smiles("CCO", EVIL))]))
    shown.hover(".vertex[data-i='0'] circle")
    shown.click(".edge[data-i='0'] .hit", force=True)
    assert shown.locator(".panel h2").all_inner_texts() == [EVIL, EVIL]
    assert EVIL.split("<")[0] in shown.locator("#inspector").inner_text()
    assert shown.evaluate("window.hacked") is None
    assert shown.locator("img").count() == 0


def test_names_for_those_who_do_not_see(view, page):
    shown = view(page)
    nameless = shown.evaluate(
        """() => [...document.querySelectorAll("button, .cell, .panel svg, input, fieldset")].filter((e) => !(
          e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.[0]?.textContent
        )).map((e) => e.outerHTML)"""
    )
    assert nameless == []
    assert shown.locator(".vertex").first.get_attribute("aria-label") == "Atom: C0, colour 2"
    shown.keyboard.press("Tab")
    ring = shown.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert ring == "solid"


def test_dark_and_still(view, page):
    dark, light = view(page, color_scheme="dark"), view(page, color_scheme="light", reduced_motion="no-preference")
    moves = "getComputedStyle(document.querySelector('.vertex circle')).transitionDuration"
    assert (dark.evaluate(moves), light.evaluate(moves)) == ("0s", "0.35s")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert dark.evaluate(ground) != light.evaluate(ground)


def test_it_fits_a_small_screen(view, page):
    shown = view(page)
    shown.set_viewport_size({"width": 400, "height": 800})
    assert shown.evaluate("document.documentElement.scrollWidth") <= 400
    assert shown.locator(".panel").first.is_visible()


def test_typing_a_molecule(view, collection):
    with ExploreServer(0) as server:
        server.show(*collection)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        shown = view(server.address)
        shown.get_by_label("Type a molecule").fill("c1ccccc1O")
        shown.keyboard.press("Enter")
        shown.wait_for_url("**smiles=c1ccccc1O**")
        assert shown.locator(".panel h2").all_inner_texts() == ["c1ccccc1O"]
        box = shown.get_by_label("Type a molecule")
        box.fill("CC#C")
        shown.get_by_role("button", name="Add").click()
        shown.wait_for_url("**CC%23C**")
        assert shown.locator(".panel h2").all_inner_texts() == ["CC#C"]
        assert shown.locator("#gallery .exhibit b").all_inner_texts()[:2] == ["c1ccccc1O", "CC#C"]
        server.shutdown()
