"use strict";
(() => {
  const { exhibits, pairs, liftings, start } = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const page = byId("page");
  const CHIPS = 24; // more neighbours than this are counted, not listed
  const ROWS = 40; // the same for colours of one dimension
  const LISTED = 10; // the same for contributions
  const SMALLEST = 3.6; // edges that fit side by side into the smallest picture

  const state = { a: 0, b: null, lifting: "rings:6", view: "colours", labels: true, numbers: true, round: 0, kept: null };
  let scene = null; // what is drawn: exhibits, complexes, colouring, panels

  // Words

  const LIFTING_NAMES = { none: "Graph only", "rings:6": "Rings ≤ 6", "rings:18": "Rings ≤ 18", "cliques:4": "Cliques ≤ 4" };
  const RELATIONS = { boundary: "Boundary", coboundary: "Coboundary", upper: "Upper neighbours", lower: "Lower neighbours" };
  const MEANING = {
    boundary: "the cells of one dimension less on its rim",
    coboundary: "the cells of one dimension more on whose rim it lies",
    upper: "the cells it shares a larger cell with",
    lower: "the cells it shares a smaller cell with",
  };
  const counted = (n, one, more = `${one}s`) => `${n} ${n === 1 ? one : more}`;
  const signed = (x, digits = 2) => `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(digits)}`;
  const plain = (x, digits = 2) => `${x < 0 ? "−" : ""}${Math.abs(x).toFixed(digits)}`;
  const KINDS = {
    molecule: [["atom", "atoms"], ["bond", "bonds"], ["ring", "rings"]],
    graph: [["vertex", "vertices"], ["edge", "edges"]],
  };
  const kind = (exhibit, d, many) => {
    const names = KINDS[exhibit.smiles === null ? "graph" : "molecule"];
    return (names[d] ?? [`${d}\u2011cell`, `${d}\u2011cells`])[many ? 1 : 0];
  };
  const targetName = ({ target }) => target.replaceAll("_", " ").replace(/\blogp\b/, "logP");
  const capital = (text) => text[0].toUpperCase() + text.slice(1);
  const vertexName = (exhibit, v) => (exhibit.labels ? `${exhibit.labels[v]}${v}` : `${v}`);

  /** A short name for a cell: its vertices. */
  function shortName(p, d, i) {
    const { exhibit, complex } = scene.panels[p];
    const names = complex.members[d][i].map((v) => vertexName(exhibit, v));
    if (d > 1 && names.length > 8) return `${names.slice(0, 3).join(" ")} … ${names.at(-1)}`;
    return names.join(d === 1 ? "–" : " ");
  }

  function longName(p, d, i) {
    const { exhibit, complex } = scene.panels[p];
    const size = d > 1 ? ` of ${complex.members[d][i].length}` : "";
    return `${capital(kind(exhibit, d))}${size}: ${shortName(p, d, i)}`;
  }

  // Colours: eight that the colour-blind tell apart, then hues a golden angle apart on three levels of lightness.

  const PALETTE = [
    [0.54, 0.14, 248], [0.76, 0.15, 70], [0.62, 0.13, 165], [0.7, 0.12, 345], [0.76, 0.1, 233], [0.6, 0.18, 42],
    [0.89, 0.16, 105], [0.47, 0.15, 300],
  ];
  const paintOf = (k) => {
    const [l, c, h] = PALETTE[k] ?? [[0.66, 0.8, 0.5][k % 3], 0.12, (k * 137.508 + 20) % 360];
    return { colour: `oklch(${l} ${c} ${h.toFixed(1)})`, ink: l > 0.64 ? "oklch(0.2 0.02 265)" : "oklch(0.99 0 0)" };
  };
  const shade = (value, limit) => {
    const part = limit ? Math.min(1, Math.abs(value) / limit) : 0;
    const share = `${(100 * part ** 0.8).toFixed(1)}%`;
    const colour = `color-mix(in oklab, var(${value < 0 ? "--down" : "--up"}) ${share}, var(--paper))`;
    return { colour, ink: part > 0.62 ? "var(--paper)" : "var(--ink)" };
  };

  // What is shown

  const shown = () => [state.a, state.b].filter((i) => i !== null).map((i) => exhibits[i]);
  const predicted = (exhibit) => exhibit.prediction !== null && !exhibit.prediction.refused;
  /** Why a lifting can not be chosen; undefined if it can. */
  function refusal(lifting) {
    const exhibit = shown().find(({ complexes }) => complexes[lifting].refused);
    return exhibit && `${exhibit.name}: ${exhibit.complexes[lifting].refused}`;
  }
  const canContribute = () => shown().every(predicted);
  const sameLabels = () => shown().every((exhibit) => exhibit.labelKind !== null && exhibit.labelKind === shown()[0].labelKind);
  const liftingNow = () => (state.view === "contributions" ? shown()[0].prediction.lifting : state.lifting);

  function draw() {
    if (state.view === "contributions" && !canContribute()) state.view = "colours";
    if (refusal(state.lifting)) state.lifting = refusal("rings:6") ? "none" : "rings:6";
    const lifting = liftingNow();
    const list = shown();
    const complexes = list.map((exhibit) => Cells.complexOf(exhibit, lifting));
    const from = state.labels && sameLabels() ? "labels" : "uniform";
    const colouring = Cells.colouring(list, lifting, from, complexes.map((complex) => complex.counts));
    const panels = list.map((exhibit, p) => ({ exhibit, complex: complexes[p], ...panelOf(p) }));
    scene = { lifting, colouring, panels };
    state.kept = null;
    byId("stage").classList.toggle("two", list.length > 1);
    scene.panels.forEach(({ figure, exhibit, complex }) => {
      figure.querySelector("h2").textContent = exhibit.name;
      const cells = complex.counts.map((n, d) => counted(n, kind(exhibit, d), kind(exhibit, d, true)));
      const about = exhibit.about ? `${exhibit.about} · ` : "";
      figure.querySelector("p").textContent = about + cells.join(", ");
      figure.querySelector("svg").setAttribute("aria-label", `${exhibit.name}: ${cells.join(", ")}`);
    });
    showControls();
    fit(scene.panels.map(({ drawing, exhibit, complex }) => drawing.show(exhibit, complex)));
    showRound(clamp(state.round, 0, lastRound()));
  }

  /** Edges are as long on the left as on the right, unless that would make one drawing tiny. */
  function fit(boxes) {
    const { clientWidth, clientHeight } = scene.panels[0].drawing.svg;
    const shape = clientWidth / clientHeight || 1;
    const widths = boxes.map(([, , w, h]) => Math.max(w, h * shape, SMALLEST * UNIT));
    scene.panels.forEach(({ drawing }, p) => {
      const [x, y, w, h] = boxes[p];
      const width = Math.min(Math.max(...widths), 1.6 * widths[p]);
      drawing.fit([x + (w - width) / 2, y + (h - width / shape) / 2, width, width / shape]);
    });
  }

  const lastRound = () => scene.colouring.rounds.length - 1;

  /** The frame of a panel; it stays when what it shows changes. */
  function panelOf(p) {
    const stage = byId("stage");
    while (stage.children.length > shown().length) stage.lastChild.remove();
    if (!stage.children[p]) {
      const figure = node("figure", "panel");
      const caption = node("figcaption");
      const words = node("div");
      words.append(node("h2"), node("p"));
      caption.append(node("b", `letter l${p}`, "AB"[p]), words);
      if (p === 1) caption.append(button("close", "×", "Stop comparing", () => change({ b: null })));
      const svg = make("svg", { role: "group" });
      const drawing = new Drawing(svg);
      const zoom = node("div", "zoom");
      zoom.append(
        button("", "+", "Zoom in", () => drawing.zoom(1.25)),
        button("", "−", "Zoom out", () => drawing.zoom(0.8)),
        button("", "⤢", "Fit", () => drawing.fit(drawing.home)),
      );
      figure.append(caption, svg, zoom);
      figure.drawing = drawing;
      stage.append(figure);
    }
    return { figure: stage.children[p], drawing: stage.children[p].drawing };
  }

  function button(className, text, label, action) {
    const element = node("button", className, text);
    element.type = "button";
    element.setAttribute("aria-label", label);
    element.title = label;
    element.addEventListener("click", action);
    return element;
  }

  // Controls

  function showControls() {
    const model = state.view === "contributions";
    for (const input of byId("liftings").querySelectorAll("input")) {
      const why = refusal(input.value) ?? (model ? "The model looks at these cells." : "");
      input.checked = input.value === scene.lifting;
      input.disabled = Boolean(why) && !input.checked;
      input.parentElement.title = input.disabled ? why : "";
    }
    for (const input of byId("views").querySelectorAll("input")) {
      input.checked = input.value === state.view;
      input.disabled = input.value === "contributions" && !canContribute();
      const refused = shown().map((exhibit) => exhibit.prediction?.refused).find(Boolean);
      input.parentElement.title = input.disabled ? (refused ?? "A model predicts molecules.") : "";
    }
    byId("labels-switch").hidden = model || !sameLabels();
    byId("labels-switch").lastChild.textContent = shown()[0].smiles === null ? "Start from labels" : "Start from elements and bonds";
    byId("labels").checked = state.labels;
    byId("numbers").checked = state.numbers;
    for (const id of ["transport", "histograms"]) byId(id).hidden = model;
    for (const id of ["scale", "prediction"]) byId(id).hidden = !model;
    for (const card of byId("gallery").querySelectorAll("[data-a]")) {
      const { a, b } = card.dataset;
      const where = [state.a, state.b].map((i, p) => (i === Number(a) ? "AB"[p] : "")).join("");
      card.classList.toggle("now", b === undefined ? where !== "" : where.startsWith("A") && Number(b) === state.b);
      if (b === undefined) card.querySelector(".where").textContent = where;
    }
    const last = lastRound();
    byId("slider").max = last;
    byId("ticks").replaceChildren(
      ...Array.from({ length: last + 1 }, (_, t) => {
        const decides = t === scene.colouring.decidedAt;
        const tick = node("span", decides ? "decides" : "", decides || t % Math.ceil(last / 20) === 0 ? t : "");
        tick.style.left = `${(100 * t) / last}%`;
        return tick;
      }),
    );
  }

  function change(changes) {
    Object.assign(state, changes);
    draw();
  }

  // A round, or the contributions

  function showRound(t) {
    state.round = t;
    const model = state.view === "contributions";
    const values = model ? scene.panels.flatMap(({ exhibit }) => exhibit.prediction.contributions.flat()) : [];
    const limit = Math.max(0, ...values.map(Math.abs));
    scene.limit = limit;
    scene.panels.forEach(({ drawing }, p) => {
      drawing.svg.classList.toggle("model", model);
      drawing.svg.classList.toggle("lettered", !state.numbers);
      drawing.paint(model ? (d, i) => contributionLook(p, d, i) : (d, i) => colourLook(p, d, i));
    });
    if (model) showPrediction();
    else showHistograms();
    showVerdict();
    const last = lastRound();
    byId("round").textContent = `Round ${t} of ${last}`;
    byId("slider").value = t;
    byId("slider").setAttribute("aria-valuetext", `Round ${t} of ${last}`);
    [...byId("ticks").children].forEach((tick, u) => tick.classList.toggle("now", u === t));
    byId("previous").disabled = t === 0;
    byId("next").disabled = t === last;
    Object.assign(page.dataset, { round: t, rounds: last, lifting: scene.lifting, view: state.view });
    byId("scale-low").textContent = signed(-limit);
    byId("scale-high").textContent = signed(limit);
    point(state.kept);
    writeAddress();
  }

  /** What stands on a vertex instead of a number: its label, but for carbon, as chemists do. */
  function letter({ labels, smiles }, d, i) {
    if (d > 0 || !labels || (smiles !== null && labels[i] === "C")) return "";
    return labels[i].slice(0, 3);
  }

  function colourLook(p, d, i) {
    const k = scene.colouring.rounds[state.round][p][d][i];
    const text = state.numbers ? k + 1 : letter(scene.panels[p].exhibit, d, i);
    return { ...paintOf(k), text, name: `${longName(p, d, i)}, colour ${k + 1}` };
  }

  function contributionLook(p, d, i) {
    const { exhibit } = scene.panels[p];
    const value = exhibit.prediction.contributions[d][i];
    const seen = scene.limit > 0 && Math.abs(value) >= [0.03, 0.2, 0][d] * scene.limit;
    const text = state.numbers ? (seen ? signed(value) : "") : letter(exhibit, d, i);
    return { ...shade(value, scene.limit), text, name: `${longName(p, d, i)}, contributes ${signed(value)}` };
  }

  function showVerdict() {
    const { colouring, panels, lifting } = scene;
    const { decidedAt, stable, rounds } = colouring;
    const t = state.round;
    const now = new Set(rounds[t].flat(2)).size;
    const test = lifting === "none" ? "WL" : `cellular WL (${LIFTING_NAMES[lifting].toLowerCase()})`;
    let look = "open";
    let sign = "?";
    let line = `Round ${t}: not told apart yet`;
    let detail = `${test} · ${counted(now, "colour")}`;
    if (state.view === "contributions") {
      const { half, level } = panels[0].exhibit.prediction;
      [look, sign] = ["plain", "ƒ"];
      const name = (exhibit) => (panels.length > 1 ? exhibit.name : targetName(exhibit.prediction));
      line = panels.map(({ exhibit }) => `${name(exhibit)} ${plain(exhibit.prediction.value)}`).join("   ");
      detail = half === null ? "" : `within ± ${half.toFixed(2)} for ${Math.round(100 * level)} % of molecules like those it learnt from`;
    } else if (panels.length < 2) {
      [look, sign] = ["plain", t >= stable ? "=" : "…"];
      line = `${counted(now, "colour")}${t >= stable ? `: stable after round ${stable}` : " so far"}`;
      detail = test;
    } else if (decidedAt !== null && t >= decidedAt) {
      [look, sign] = ["apart", "≠"];
      const [a, b] = panels.map(({ complex }) => complex.counts.join());
      line = `Told apart in round ${decidedAt}`;
      if (decidedAt === 0) line += a === b ? ": the initial colours differ" : ": the numbers of cells differ";
    } else if (decidedAt === null && t >= stable) {
      [look, sign] = ["alike", "="];
      line = `Not told apart: stable after round ${stable}`;
    }
    byId("verdict").dataset.state = look;
    byId("sign").textContent = sign;
    byId("line").textContent = line;
    byId("detail").textContent = detail;
  }

  function heading(text, ...right) {
    const head = node("h3", "", text);
    for (const each of right) head.append(node("span", "", each));
    return head;
  }

  function showHistograms() {
    const box = byId("histograms");
    const two = scene.panels.length > 1;
    const colours = scene.colouring.rounds[state.round];
    const head = heading("Colours");
    if (two) head.append(node("b", "letter l0", "A"), node("b", "letter l1", "B"));
    const parts = [head];
    const dims = Math.max(...colours.map((panel) => panel.length));
    for (let d = 0; d < dims; d++) {
      const counts = colours.map((panel) => Cells.histogram(panel[d] ?? []));
      const differs = (k) => two && (counts[0].get(k) ?? 0) !== (counts[1].get(k) ?? 0);
      const all = [...new Set(counts.flatMap((count) => [...count.keys()]))].sort((j, k) => differs(k) - differs(j) || j - k);
      if (!all.length) continue;
      const top = Math.max(...counts.flatMap((count) => [...count.values()]));
      parts.push(node("h4", "", capital(kind(scene.panels[0].exhibit, d, true))));
      for (const k of all.slice(0, ROWS)) {
        const row = node("button", `row${two ? " pair" : ""}${differs(k) ? " differs" : ""}`);
        row.type = "button";
        row.dataset.k = k;
        const { colour, ink } = paintOf(k);
        row.style.setProperty("--colour", colour);
        row.style.setProperty("--on", ink);
        const bars = counts.map((count) => {
          const bar = node("span", "bar");
          bar.append(node("i"), node("span", "", count.get(k) ?? 0));
          bar.firstChild.style.width = `${(100 * (count.get(k) ?? 0)) / top}%`;
          return bar;
        });
        const swatch = node("span", "swatch", k + 1);
        row.append(...(two ? [bars[0], swatch, bars[1]] : [swatch, bars[0]]), node("span", "unequal", differs(k) ? "≠" : ""));
        const where = counts.map((count, p) => `${count.get(k) ?? 0} in ${scene.panels[p].exhibit.name}`).join(", ");
        row.setAttribute("aria-label", `Colour ${k + 1}: ${where}${differs(k) ? ": they differ" : ""}`);
        parts.push(row);
      }
      if (all.length > ROWS) parts.push(node("p", "note", `and ${all.length - ROWS} more`));
    }
    if (scene.panels.some(({ drawing }) => drawing.svg.classList.contains("crowded"))) {
      parts.push(node("p", "note", "There are many 2-cells: they are drawn when you point at them or at an edge of theirs."));
    }
    box.replaceChildren(...parts);
  }

  function showPrediction() {
    const parts = scene.panels.flatMap(({ exhibit }, p) => {
      const { unit, value, baseline, missing, contributions } = exhibit.prediction;
      const table = node("table", "sum");
      const line = (name, number, className = "") => {
        const row = node("tr", className);
        row.append(node("th", "", name), node("td", "", number));
        table.append(row);
      };
      line("Saturated skeleton", plain(baseline));
      contributions.forEach((values, d) => {
        const name = counted(values.length, kind(exhibit, d), kind(exhibit, d, true));
        line(name, signed(values.reduce((a, b) => a + b, 0)));
      });
      if (Math.abs(missing) >= 0.005) line("Missed by the sum", signed(missing), "faint");
      line("Prediction", plain(value), "total");
      const cells = contributions.flatMap((values, d) => values.map((c, i) => ({ d, i, c }))).filter(({ c }) => c !== 0);
      // Rings are what this page is about: they are listed whatever they contribute.
      const large = cells.sort((x, y) => Math.abs(y.c) - Math.abs(x.c)).filter(({ d }, at) => at < LISTED || d === 2);
      const list = node("div", "list");
      for (const { d, i, c } of large) {
        const row = button("contribution", "", `${longName(p, d, i)} ${signed(c)}`, () => keep([p, d, i]));
        row.title = "";
        Object.assign(row.dataset, { p, d, i });
        const bar = node("i");
        bar.style.width = `${(50 * Math.abs(c)) / scene.limit}%`;
        const track = node("span", `track ${c < 0 ? "down" : "up"}`);
        track.append(bar);
        row.append(node("span", "name", d === 2 ? longName(p, d, i) : shortName(p, d, i)), track, node("span", "value", signed(c)));
        list.append(row);
      }
      const name = scene.panels.length > 1 ? exhibit.name : capital(targetName(exhibit.prediction)) + (unit ? ` (${unit})` : "");
      if (!large.length) list.append(node("p", "note", "A saturated hydrocarbon is its own skeleton: nothing is added to it."));
      return [heading(name), table, list];
    });
    byId("prediction").replaceChildren(...parts);
  }

  // Pointing at a cell: [panel, dimension, number]

  function point(cell) {
    scene.pointed = cell;
    scene.panels.forEach(({ drawing }, p) => drawing.point(cell && cell[0] === p ? cell.slice(1) : null));
    if (cell) page.dataset.pointed = cell.join(" ");
    else delete page.dataset.pointed;
    showInspector(cell);
  }

  function keep(cell) {
    state.kept = cell;
    point(cell);
  }

  function showInspector(cell) {
    const box = byId("inspector");
    if (!cell) {
      const roles = Object.keys(RELATIONS).map((role) => relation(role, null));
      box.replaceChildren(heading("Cell"), node("p", "note", "Point at a cell to see what lies around it; click to keep it."), ...roles);
      return;
    }
    const [p, d, i] = cell;
    const { exhibit, complex } = scene.panels[p];
    const facts = node("p", "facts");
    if (state.view === "contributions") facts.textContent = `contributes ${signed(exhibit.prediction.contributions[d][i], 3)}`;
    else {
      const k = scene.colouring.rounds[state.round][p][d][i];
      const swatch = node("span", "swatch", k + 1);
      swatch.style.setProperty("--colour", paintOf(k).colour);
      swatch.style.setProperty("--on", paintOf(k).ink);
      const alike = scene.colouring.rounds[state.round].map((panel) => panel.flat().filter((other) => other === k).length);
      const cells = alike.length > 1 ? alike.map((n, q) => `${n} in ${"AB"[q]}`).join(", ") : counted(alike[0], "cell");
      facts.append(swatch, `colour of ${cells}`);
    }
    const title = heading(longName(p, d, i));
    if (scene.panels.length > 1) title.prepend(node("b", `letter l${p}`, "AB"[p]));
    if (state.kept) title.append(button("close", "×", "Let go", () => keep(null)));
    const found = Cells.around(complex, d, i);
    box.replaceChildren(title, facts, ...Object.keys(RELATIONS).map((role) => relation(role, found[role], p)));
  }

  function relation(role, cells, p) {
    const box = node("div", `relation ${role}`);
    const head = node("h4", "", RELATIONS[role]);
    head.prepend(node("i"));
    box.append(head);
    box.dataset.role = role;
    if (!cells) {
      box.append(node("p", "note", MEANING[role]));
      return box;
    }
    head.append(node("span", "", cells.length));
    const chips = node("div", "chips");
    for (const [d, i] of cells.slice(0, CHIPS)) {
      const chip = button("chip", shortName(p, d, i), longName(p, d, i), () => {
        keep([p, d, i]);
        scene.panels[p].drawing.shapes[d][i]?.focus({ preventScroll: true }); // the chip itself is gone
      });
      Object.assign(chip.dataset, { d, i });
      chips.append(chip);
    }
    if (cells.length > CHIPS) chips.append(node("span", "note", `and ${cells.length - CHIPS} more`));
    if (cells.length) box.append(chips);
    return box;
  }

  /** Hold up all cells of a colour; null lets go. */
  function pick(k) {
    const colours = scene.colouring.rounds[state.round];
    scene.panels.forEach(({ drawing }, p) => drawing.pick(k === null ? null : (d, i) => colours[p][d][i] === k));
  }
  const colourAt = (event) => {
    const row = event.target.closest(".row");
    return row && Number(row.dataset.k);
  };
  byId("histograms").addEventListener("pointerover", (event) => pick(colourAt(event)));
  byId("histograms").addEventListener("pointerleave", () => pick(null));
  byId("histograms").addEventListener("focusin", (event) => pick(colourAt(event)));
  byId("histograms").addEventListener("focusout", () => pick(null));

  const cellAt = (event) => {
    const shape = event.target.closest?.("[data-i]");
    if (!shape) return null;
    const p = "p" in shape.dataset ? Number(shape.dataset.p) : scene.panels.findIndex(({ figure }) => figure.contains(shape));
    return p < 0 ? null : [p, Number(shape.dataset.d), Number(shape.dataset.i)];
  };
  for (const area of [byId("stage"), byId("prediction")]) {
    area.addEventListener("pointerover", (event) => {
      if (!event.buttons) point(cellAt(event) ?? state.kept);
    });
    area.addEventListener("pointerleave", () => point(state.kept));
    area.addEventListener("focusin", (event) => {
      if (event.target.matches(":focus-visible")) point(cellAt(event) ?? state.kept);
    });
  }
  byId("stage").addEventListener("click", (event) => {
    const panel = scene.panels.find(({ figure }) => figure.contains(event.target));
    if (!panel || panel.drawing.dragged || !event.target.closest("svg")) return;
    const cell = cellAt(event);
    keep(cell && cell.join() === state.kept?.join() ? null : cell);
  });

  /** The next cell of the drawing, through all dimensions. */
  function walk(drawing, by) {
    const shapes = drawing.shapes.flat();
    const from = shapes.indexOf(document.activeElement);
    const next = shapes[(Math.max(from, by < 0 ? 0 : -1) + by + shapes.length) % shapes.length];
    for (const shape of shapes) shape.setAttribute("tabindex", shape === next ? "0" : "-1");
    point(cellAt({ target: next })); // first, because a 2-cell among many is there only when pointed at
    next.focus({ preventScroll: true });
  }

  // Keys

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=checkbox])")) return;
    const step = (by) => () => state.view === "colours" && showRound(clamp(state.round + by, 0, lastRound()));
    const panel = scene.panels.find(({ figure }) => figure.contains(event.target)) ?? scene.panels[0];
    const keys = { ArrowLeft: step(-1), ArrowRight: step(1), Home: step(-Infinity), End: step(Infinity), Escape: () => keep(null) };
    if (event.target.closest("svg")) {
      keys.ArrowUp = () => walk(panel.drawing, -1);
      keys.ArrowDown = () => walk(panel.drawing, 1);
      keys.Enter = () => keep(cellAt(event));
    }
    if (panel.drawing.key(event)) event.preventDefault();
    else if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  });

  byId("previous").addEventListener("click", () => showRound(state.round - 1));
  byId("next").addEventListener("click", () => showRound(state.round + 1));
  byId("slider").addEventListener("input", () => showRound(Number(byId("slider").value)));
  byId("labels").addEventListener("change", () => change({ labels: byId("labels").checked }));
  byId("numbers").addEventListener("change", () => {
    state.numbers = byId("numbers").checked;
    showRound(state.round);
  });
  byId("views").addEventListener("change", (event) => change({ view: event.target.value }));
  byId("liftings").addEventListener("change", (event) => change({ lifting: event.target.value }));

  // The gallery

  function card(i) {
    const exhibit = exhibits[i];
    const box = node("div", "exhibit");
    box.dataset.a = i;
    const choose = button("choose", "", `Show ${exhibit.name}`, () => change({ a: i, b: null, round: 0 }));
    const words = node("span", "words");
    words.append(node("b", "", exhibit.name), node("small", "", exhibit.about));
    choose.append(thumbnail(exhibit), words, node("span", "where"));
    box.append(choose, button("versus", "vs", `Compare with ${exhibit.name}`, () => change({ b: i, round: 0 })));
    return box;
  }

  function pairCard({ a, b, lifting, about }) {
    const names = `${exhibits[a].name} and ${exhibits[b].name}`;
    const box = button("pair-card", "", `Compare ${names}`, () => change({ a, b, lifting, round: 0, view: "colours" }));
    Object.assign(box.dataset, { a, b });
    const words = node("span", "words");
    words.append(node("b", "", names), node("small", "", about));
    const pictures = node("span", "pictures");
    pictures.append(thumbnail(exhibits[a]), thumbnail(exhibits[b]));
    box.append(pictures, words);
    return box;
  }

  function fillGallery() {
    const groups = { yours: "Yours", pairs: "What WL can not tell apart", molecules: "Molecules", graphs: "Graphs" };
    for (const [group, name] of Object.entries(groups)) {
      const cards = group === "pairs" ? pairs.map(pairCard) : exhibits.flatMap((exhibit, i) => (exhibit.group === group ? [card(i)] : []));
      if (cards.length) byId("gallery").append(node("h2", "", name), ...cards);
    }
    for (const lifting of liftings) {
      const label = node("label");
      const input = node("input");
      Object.assign(input, { type: "radio", name: "lifting", value: lifting });
      label.append(input, node("span", "", LIFTING_NAMES[lifting] ?? lifting));
      byId("liftings").append(label);
    }
  }

  // The address says what is shown, so that it can be kept and sent.

  function writeAddress() {
    const { a, b, lifting, view, round, labels, numbers } = state;
    const parts = [`a=${a}`, b === null ? "" : `b=${b}`, `lifting=${lifting}`, `round=${round}`];
    parts.push(view === "colours" ? "" : `view=${view}`, labels ? "" : "labels=0", numbers ? "" : "numbers=0");
    const hash = `#${parts.filter(Boolean).join("&")}`;
    try {
      if (location.hash !== hash) history.replaceState(null, "", hash);
    } catch {
      // A page inside a notebook has no address of its own, and needs none.
    }
  }

  function fromAddress() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const place = (name) => (exhibits[wanted.get(name)] ? Number(wanted.get(name)) : null);
    const told = place("a") !== null;
    Object.assign(state, {
      a: told ? place("a") : start.a,
      b: told ? place("b") : start.b,
      lifting: liftings.includes(wanted.get("lifting")) ? wanted.get("lifting") : start.lifting,
      view: wanted.get("view") === "contributions" ? "contributions" : "colours",
      labels: wanted.get("labels") !== "0",
      numbers: wanted.get("numbers") !== "0",
      round: Number.parseInt(wanted.get("round"), 10) || 0,
    });
    draw();
  }

  fillGallery();
  addEventListener("hashchange", fromAddress);
  fromAddress();
})();
