"use strict";
(() => {
  const { runs } = JSON.parse(document.getElementById("data").textContent);
  const page = document.getElementById("page");
  const byId = (id) => document.getElementById(id);
  const panels = [0, 1].map((p) => byId(`panel${p}`));
  // The parser knows the namespace of SVG; spelling it out would put an address into a page that has none.
  const SVG = panels[0].querySelector("svg").namespaceURI;
  const WIDTH = 600;
  const HEIGHT = 588;
  const MARGIN = 44;
  const CROWD = 150; // more 2-cells than this are drawn only while their colour is pointed at
  const ROWS = 100; // more colours than this in one dimension are counted in one line below the others
  const HEAVY = 1500; // more shapes than this change colour at once: fading them all would stutter

  const state = { run: 0, round: 0, numbers: false, held: null, cell: null, timer: null };
  let scene = null; // the shapes of the run that is drawn

  // Small helpers

  const make = (tag, attributes = {}, parent = null) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (parent) parent.append(element);
    return element;
  };
  const node = (tag, className = "", text = "") => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== "") element.textContent = text;
    return element;
  };
  const clamp = (x, low, high) => Math.max(low, Math.min(high, x));
  const kind = (d, many) => (d === 0 ? (many ? "vertices" : "vertex") : d === 1 ? (many ? "edges" : "edge") : many ? `${d}-cells` : `${d}-cell`);
  const capital = (text) => text[0].toUpperCase() + text.slice(1);
  const counted = (n, d) => `${n} ${kind(d, n !== 1)}`;

  // Colours: twelve that are far apart, then hues a golden angle apart on three levels of lightness.

  const PALETTE = [
    [0.58, 0.155, 256], [0.75, 0.155, 62], [0.64, 0.13, 164], [0.6, 0.2, 352], [0.53, 0.19, 296], [0.85, 0.155, 98],
    [0.76, 0.115, 222], [0.58, 0.2, 27], [0.7, 0.18, 138], [0.48, 0.085, 55], [0.79, 0.12, 345], [0.41, 0.12, 262],
  ];
  const paint = (k) => PALETTE[k] ?? [[0.62, 0.78, 0.48][k % 3], [0.15, 0.12, 0.13][k % 3], (k * 137.508 + 20) % 360];
  const numberOfColours = (run) => 1 + Math.max(0, ...run.panels.flatMap((panel) => panel.rounds.at(-1).flat()));
  const sheet = document.styleSheets[0];  // the page's policy allows no other
  const most = Math.max(...runs.map(numberOfColours));
  for (let k = 0; k < most; k++) {
    const [l, c, h] = paint(k);
    sheet.insertRule(`.k${k} { --lum: ${l}; --chroma: ${c}; --hue: ${h.toFixed(1)}; }`);
  }

  // Numbers of cells: count[p][d] maps a colour to how many d-cells of panel p have it.

  const tally = (run, t) =>
    run.panels.map((panel) =>
      panel.rounds[t].map((row) => {
        const count = new Map();
        for (const k of row) count.set(k, (count.get(k) ?? 0) + 1);
        return count;
      }),
    );
  const classes = (count) => new Set(count.flatMap((dims) => dims.flatMap((map) => [...map.keys()])));
  const rowsOf = ([a, b]) =>
    [...(a.length > b.length ? a : b).keys()].reduce((sum, d) => sum + new Set([...(a[d]?.keys() ?? []), ...(b[d]?.keys() ?? [])]).size, 0);
  const sizeOf = (dims, k) => dims.map((map, d) => [d, map.get(k) ?? 0]).filter(([, n]) => n);

  // Drawing a run

  function fit(run) {
    // An edge is about as long on the left as on the right, unless that would make one drawing tiny.
    const boxes = run.panels.map(({ points }) => {
      const xs = points.map((p) => p[0]);
      const ys = points.map((p) => p[1]);
      const of = (v) => (v.length ? [Math.min(...v), Math.max(...v)] : [0, 0]);
      return { x: of(xs), y: of(ys) };
    });
    const largest = boxes.map(({ x, y }) =>
      Math.min((WIDTH - 2 * MARGIN) / Math.max(x[1] - x[0], 1e-6), (HEIGHT - 2 * MARGIN) / Math.max(y[1] - y[0], 1e-6), 260),
    );
    const scales = largest.map((scale) => Math.min(scale, 1.4 * Math.min(...largest)));
    const at = run.panels.map(({ points }, p) => {
      const cx = (boxes[p].x[0] + boxes[p].x[1]) / 2;
      const cy = (boxes[p].y[0] + boxes[p].y[1]) / 2;
      return points.map(([x, y]) => [WIDTH / 2 + (x - cx) * scales[p], HEIGHT / 2 - (y - cy) * scales[p]]);
    });
    const gap = Math.min(...at.map(typicalGap));
    const radius = clamp(0.3 * gap, 4, 21);
    // Where edges are many they are drawn thinner, or they would hide the cells between them.
    const degree = Math.max(...run.panels.map(({ points, edges }) => (2 * edges.length) / Math.max(1, points.length)));
    return { at, radius, stroke: clamp(0.34 * radius * Math.min(1, Math.sqrt(3.2 / degree)), 1.4, 6.5) };
  }

  // The distance that nine in ten points keep from all others: a single close pair must not shrink the rest.
  function typicalGap(points) {
    const gaps = points.map((p) => Math.min(...points.map((q) => (p === q ? Infinity : Math.hypot(p[0] - q[0], p[1] - q[1])))));
    return gaps.sort((a, b) => a - b)[Math.floor(gaps.length / 10)] ?? Infinity;
  }

  // The control point of an edge that bows; positions have y upwards, the screen downwards.
  function bow(at, u, v, bend) {
    const [a, b] = u < v ? [at[u], at[v]] : [at[v], at[u]];
    return [(a[0] + b[0]) / 2 + bend * (b[1] - a[1]), (a[1] + b[1]) / 2 - bend * (b[0] - a[0])];
  }
  const spot = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;
  const leg = (at, u, v, bend) => (bend ? `Q${spot(bow(at, u, v, bend))} ${spot(at[v])}` : `L${spot(at[v])}`);
  const middle = (at, u, v, bend) => {
    const mid = [(at[u][0] + at[v][0]) / 2, (at[u][1] + at[v][1]) / 2];
    if (!bend) return mid;
    const c = bow(at, u, v, bend);
    return [(mid[0] + c[0]) / 2, (mid[1] + c[1]) / 2];
  };

  function outline(at, steps, inset) {
    // Cells are drawn a little smaller than they are, so that neighbours do not touch.
    const centre = [0, 1].map((axis) => steps.reduce((sum, [v]) => sum + at[v][axis], 0) / steps.length);
    const reach = Math.max(...steps.map(([v]) => Math.hypot(at[v][0] - centre[0], at[v][1] - centre[1])), 1);
    const shrink = Math.max(0.35, 1 - inset / reach);
    const small = [];
    for (const [v] of steps) small[v] = [0, 1].map((axis) => centre[axis] + shrink * (at[v][axis] - centre[axis]));
    let d = `M${spot(small[steps[0][0]])}`;
    let area = 0;
    steps.forEach(([u, bend], i) => {
      const v = steps[(i + 1) % steps.length][0];
      d += leg(small, u, v, bend);
      area += (at[u][0] * at[v][1] - at[v][0] * at[u][1]) / 2;
    });
    return { d: `${d}Z`, area: Math.abs(area), centre };
  }

  function drawPanel(run, p, { at: all, radius, stroke }) {
    const panel = run.panels[p];
    const at = all[p];
    const figure = panels[p];
    figure.querySelector("h2").textContent = panel.name;
    figure.querySelector("p").textContent = panel.about;
    const svg = figure.querySelector("svg");
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    svg.setAttribute("aria-label", `${panel.name}: ${panel.about}`);
    const shapes = [[], [], []];
    const numbers = [[], [], []];

    const faces = panel.cells.map((steps, i) => ({ i, ...outline(at, steps, stroke + 0.45 * radius) }));
    const xs = at.map((q) => q[0]);
    const ys = at.map((q) => q[1]);
    const box = Math.max(1, (Math.max(...xs) - Math.min(...xs)) * (Math.max(...ys) - Math.min(...ys)));
    // How many cells lie over a typical point. The more, the thinner the paint of each.
    const depth = Math.max(1, (1.4 * faces.reduce((sum, face) => sum + face.area, 0)) / box);
    svg.style.setProperty("--face", (1 - 0.64 ** (1 / depth)).toFixed(4));
    svg.style.setProperty("--face-on", clamp(0.42 / depth ** 0.45, 0.1, 0.42).toFixed(3));
    svg.classList.toggle("crowded", faces.length > CROWD);
    for (const { i, d } of [...faces].sort((a, b) => b.area - a.area)) {
      shapes[2][i] = make("path", { d, "stroke-width": (0.7 * radius).toFixed(1) }, svg);
    }
    panel.edges.forEach(([u, v, bend], i) => {
      const d = `M${spot(at[u])}${leg(at, u, v, bend)}`;
      const group = (shapes[1][i] = make("g", {}, svg));
      make("path", { d, class: "seen", "stroke-width": stroke.toFixed(1) }, group);
      make("path", { d, class: "hit", "stroke-width": Math.max(14, stroke).toFixed(1) }, group);
    });
    at.forEach(([x, y], i) => {
      const group = (shapes[0][i] = make("g", {}, svg));
      make("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: radius.toFixed(1), "stroke-width": clamp(radius * 0.16, 1, 3).toFixed(1) }, group);
      const size = Math.min(1.05 * radius, 19);
      numbers[0][i] = make("text", { x: x.toFixed(1), y: (y + 0.36 * size).toFixed(1), "font-size": size.toFixed(1) }, group);
    });
    const small = clamp(0.8 * radius, 7, 15);
    const mark = ([x, y], className) =>
      make("text", { x: x.toFixed(1), y: (y + 0.36 * small).toFixed(1), "font-size": small.toFixed(1), "stroke-width": 4, class: className }, svg);
    panel.edges.forEach(([u, v, bend], i) => (numbers[1][i] = mark(middle(at, u, v, bend), "number")));
    if (depth < 3) for (const { i, centre } of faces) numbers[2][i] = mark(centre, "number of-face");

    shapes.forEach((row, d) =>
      row.forEach((shape, i) => {
        shape.dataset.d = d;
        shape.dataset.i = i;
        shape.setAttribute("role", "img");
        shape.setAttribute("tabindex", "-1");
      }),
    );
    (shapes[0][0] ?? svg).setAttribute("tabindex", "0");
    Object.assign(svg.dataset, { vertices: at.length, edges: panel.edges.length, cells: faces.length });
    return { svg, shapes, numbers };
  }

  function drawRun() {
    const run = runs[state.run];
    const size = fit(run);
    scene = { run, rows: new Map(), groups: [], drawn: [0, 1].map((p) => drawPanel(run, p, size)) };
    const shapes = scene.drawn.reduce((sum, { shapes }) => sum + shapes.flat().length, 0);
    page.classList.toggle("heavy", shapes > HEAVY);
    byId("histograms").replaceChildren();
    // Rows are as thick as the fullest round allows, and so as thick in every round.
    const fullest = Math.max(...run.panels[0].rounds.map((_, t) => rowsOf(tally(run, t))));
    page.classList.toggle("medium", fullest > 9);
    page.classList.toggle("dense", fullest > 14);
    byId("looks-at").textContent = run.looksAt;
    const last = run.panels[0].rounds.length - 1;
    byId("slider").max = last;
    byId("ticks").replaceChildren(
      ...Array.from({ length: last + 1 }, (_, t) => t)
        .filter((t) => last <= 24 || t % Math.ceil(last / 24) === 0 || t === run.decidedAt)
        .map((t) => {
          const tick = node("span", t === run.decidedAt ? "decides" : "", t);
          tick.style.left = `${last ? (100 * t) / last : 0}%`;
          tick.dataset.t = t;
          return tick;
        }),
    );
    [...byId("runs").children].forEach((button, r) => button.setAttribute("aria-pressed", r === state.run));
    Object.assign(page.dataset, { run: state.run, test: run.test });
  }

  // Showing a round

  function showRound() {
    const { run, drawn } = scene;
    const t = state.round;
    const last = run.panels[0].rounds.length - 1;
    scene.count = tally(run, t);
    drawn.forEach(({ shapes, numbers }, p) => {
      const panel = run.panels[p];
      const colours = panel.rounds[t];
      shapes.forEach((row, d) =>
        row.forEach((shape, i) => {
          const k = colours[d][i];
          shape.dataset.k = k;
          shape.setAttribute("class", `cell ${["vertex", "edge", "face"][d]} k${k}`);
          shape.setAttribute("aria-label", `${title(p, d, i)}, colour ${k + 1}`);
          if (d === 0) numbers[0][i].textContent = state.numbers ? k + 1 : (panel.labels?.[i] ?? "");
          else if (numbers[d][i]) numbers[d][i].textContent = state.numbers ? k + 1 : "";
        }),
      );
    });
    showHistograms();
    showVerdict(last);
    byId("round").replaceChildren(`Round ${t} `, node("small", "", `of ${last}`));
    const slider = byId("slider");
    slider.value = t;
    slider.style.setProperty("--done", `${last ? (100 * t) / last : 0}%`);
    slider.setAttribute("aria-valuetext", `Round ${t} of ${last}`);
    for (const tick of byId("ticks").children) {
      tick.classList.toggle("now", Number(tick.dataset.t) === t);
      tick.classList.toggle("reached", Number(tick.dataset.t) <= t);
    }
    byId("previous").disabled = t === 0;
    byId("next").disabled = t === last;
    page.dataset.round = t;
    pointAt(state.held);
  }

  function sameCounts({ panels: [a, b] }) {
    const longest = a.rounds[0].length > b.rounds[0].length ? a : b;
    return longest.rounds[0].every((_, d) => (a.rounds[0][d]?.length ?? 0) === (b.rounds[0][d]?.length ?? 0));
  }

  function showVerdict(last) {
    const { run, count } = scene;
    const t = state.round;
    const { decidedAt } = run;
    const apart = decidedAt !== null && t >= decidedAt;
    const now = classes(count).size;
    const before = t ? classes(tally(run, t - 1)).size : null;
    const ended = decidedAt === null && t === last;
    let line = t === 0 ? "Initial colours: not told apart yet" : `Round ${t}: not told apart yet`;
    if (apart) line = `Told apart in round ${decidedAt}`;
    if (apart && decidedAt === 0) line += `: the ${sameCounts(run) ? "initial colours" : "numbers of cells"} differ`;
    // The last round shows that nothing changes any more: the colours were stable in the one before.
    if (ended) line = before === now ? `Not told apart: stable after round ${t - 1}` : `Not told apart after round ${t}`;
    const colours = (n) => `${n} ${n === 1 ? "colour" : "colours"}`;
    let detail = colours(now);
    if (before !== null) detail = before === now ? `${colours(now)}, as before` : `${before} → ${colours(now)}`;
    byId("verdict").dataset.state = apart ? "apart" : ended ? "alike" : "open";
    byId("sign").textContent = apart ? "≠" : ended ? "=" : "?";
    byId("line").textContent = line;
    byId("detail").textContent = detail;
  }

  function group(d) {
    if (!scene.groups[d]) {
      const box = node("section", "group");
      const heading = node("h3");
      heading.append(node("span"), node("b", "", capital(kind(d, true))), node("span"));
      const rows = node("div", "rows");
      box.append(heading, rows);
      if (d > 2) box.append(node("p", "note", `${kind(d, true)} are counted, not drawn`));
      if (d === 2 && scene.run.panels.some((panel) => panel.cells.length > CROWD)) {
        box.append(node("p", "note", "there are many: only those of the colour you point at are drawn"));
      }
      byId("histograms").append(box);
      const more = node("p", "note");
      rows.after(more);
      scene.groups[d] = { rows, more, totals: heading.querySelectorAll("span") };
    }
    return scene.groups[d];
  }

  function row(d, k) {
    const key = `${d} ${k}`;
    if (!scene.rows.has(key)) {
      const element = node("button", "row");
      element.type = "button";
      element.dataset.k = k;
      const side = (name) => {
        const box = node("span", `side ${name}`);
        const bar = node("span", "bar");
        bar.style.width = "0";
        const number = node("output");
        box.append(bar, number);
        return { box, bar, number };
      };
      const sides = [side("left"), side("right")];
      element.append(node("span"), sides[0].box, node("span", `swatch k${k}`, k + 1), sides[1].box, node("span", "unequal", "≠"));
      element.classList.add(`k${k}`);
      scene.rows.set(key, { element, sides });
    }
    return scene.rows.get(key);
  }

  function showHistograms() {
    const { count, run } = scene;
    const dims = Math.max(...count.map((c) => c.length));
    const used = new Set();
    const grown = [];
    const total = { rows: 0, differing: 0 };
    for (let d = 0; d < dims; d++) {
      const [a, b] = [0, 1].map((p) => count[p][d] ?? new Map());
      const colours = [...new Set([...a.keys(), ...b.keys()])];
      if (!colours.length) continue;
      const differs = (k) => (a.get(k) ?? 0) !== (b.get(k) ?? 0);
      // Rows that differ come first: in a long list they are the ones to see.
      colours.sort((j, k) => differs(k) - differs(j) || j - k);
      const { rows, more, totals } = group(d);
      const differing = colours.filter(differs).length;
      total.rows += colours.length;
      total.differing += differing;
      const unseen = colours.splice(ROWS);
      const unequal = Math.max(0, differing - ROWS);
      more.textContent = unseen.length ? `and ${unseen.length} more colours${unequal ? `, of which ${unequal} differ` : ""}` : "";
      more.hidden = !unseen.length;
      [0, 1].forEach((p) => (totals[p].textContent = run.panels[p].rounds[0][d]?.length ?? 0));
      const top = Math.max(...a.values(), ...b.values());
      let place = rows.firstElementChild;
      for (const k of colours) {
        const { element, sides } = row(d, k);
        used.add(`${d} ${k}`);
        element.classList.toggle("differs", differs(k));
        const ns = [a.get(k) ?? 0, b.get(k) ?? 0];
        ns.forEach((n, p) => {
          sides[p].number.textContent = n;
          // The number beside the bar needs room as well.
          grown.push(() => (sides[p].bar.style.width = `calc((100% - 2em) * ${(n / top).toFixed(4)})`));
        });
        element.setAttribute(
          "aria-label",
          `Colour ${k + 1}: ${counted(ns[0], d)} in ${run.panels[0].name}, ${counted(ns[1], d)} in ${run.panels[1].name}${differs(k) ? ": they differ" : ""}`,
        );
        // A moved element does not fade, so those that are in place stay untouched.
        if (element === place) place = place.nextElementSibling;
        else rows.insertBefore(element, place);
      }
    }
    for (const [key, { element }] of scene.rows) {
      if (used.has(key)) continue;
      element.remove();
      scene.rows.delete(key);
    }
    void byId("histograms").offsetWidth; // new bars start at 0 and grow from there
    for (const grow of grown) grow();
    Object.assign(page.dataset, total);
  }

  // Pointing at a colour

  function title(p, d, i) {
    const panel = scene.run.panels[p];
    const label = d === 0 && panel.labels?.[i] ? ` (${panel.labels[i]})` : "";
    if (d === 0) return `Vertex ${i}${label}`;
    if (d === 1) return `Edge ${panel.edges[i][0]} – ${panel.edges[i][1]}`;
    return `2-cell ${i} with ${panel.cells[i].length} edges`;
  }

  function pointAt(k) {
    page.classList.toggle("pointing", k !== null);
    for (const element of page.querySelectorAll(".on")) element.classList.remove("on");
    if (k !== null) for (const element of page.querySelectorAll(`[data-k="${k}"]`)) element.classList.add("on");
    if (k === null) delete page.dataset.pointed;
    else page.dataset.pointed = k;
  }

  function fillTip(k, heading) {
    const tip = byId("tip");
    const total = scene.count.flatMap((dims) => sizeOf(dims, k)).reduce((sum, [, n]) => sum + n, 0);
    const first = node("span", "", "");
    first.append(node("i", `k${k}`), `Colour ${k + 1}: ${total} ${total === 1 ? "cell" : "cells"}`);
    const lines = scene.run.panels.map((panel, p) => {
      const parts = sizeOf(scene.count[p], k).map(([d, n]) => counted(n, d));
      return node("span", "", `${panel.name}: ${parts.join(", ") || "none"}`);
    });
    tip.replaceChildren(...(heading ? [node("b", "", heading)] : []), first, ...lines);
    tip.hidden = false;
    return tip;
  }

  function placeTip(x, y) {
    const tip = byId("tip");
    const { width, height } = tip.getBoundingClientRect();
    const left = x + 18 + width > innerWidth - 8 ? x - 18 - width : x + 18;
    const top = y + 18 + height > innerHeight - 8 ? y - 14 - height : y + 18;
    tip.style.transform = `translate(${clamp(left, 8, Math.max(8, innerWidth - width - 8))}px, ${Math.max(8, top)}px)`;
  }

  function enter(element, x, y) {
    const k = Number(element.dataset.k);
    const p = panels.findIndex((figure) => figure.contains(element));
    pointAt(k);
    fillTip(k, p < 0 ? "" : title(p, Number(element.dataset.d), Number(element.dataset.i)));
    placeTip(x, y);
  }

  function leave() {
    byId("tip").hidden = true;
    pointAt(state.held);
  }

  const target = (event) => event.target.closest?.("[data-k]");
  const stage = document.querySelector(".stage");
  stage.addEventListener("pointerover", (event) => {
    const element = target(event);
    if (element) enter(element, event.clientX, event.clientY);
    else leave();
  });
  stage.addEventListener("pointermove", (event) => {
    if (target(event)) placeTip(event.clientX, event.clientY);
  });
  stage.addEventListener("pointerleave", leave);
  stage.addEventListener("focusin", (event) => {
    const element = target(event);
    if (!element?.matches(":focus-visible")) return;
    const box = element.getBoundingClientRect();
    enter(element, box.left + box.width / 2, box.top + box.height / 2);
  });
  stage.addEventListener("focusout", leave);
  stage.addEventListener("click", (event) => {
    const element = target(event);
    const k = element ? Number(element.dataset.k) : null;
    hold(k === state.held ? null : k);
  });

  // Stepping

  function goTo(run, round) {
    const changed = run !== state.run || !scene;
    if (changed && scene) state.held = null;
    state.run = clamp(run, 0, runs.length - 1);
    state.round = clamp(round, 0, runs[state.run].panels[0].rounds.length - 1);
    byId("tip").hidden = true;
    // What is new on the page appears at once; only what was there before fades.
    page.classList.toggle("still", changed);
    if (changed) drawRun();
    showRound();
    void page.offsetWidth;
    page.classList.remove("still");
    writeAddress();
  }

  function writeAddress() {
    const { run, round, numbers, held } = state;
    const hash = `#run=${run}&round=${round}${numbers ? "&numbers=1" : ""}${held === null ? "" : `&colour=${held + 1}`}`;
    try {
      if (location.hash !== hash) history.replaceState(null, "", hash);
    } catch {
      // A page inside a notebook has no address of its own, and needs none.
    }
  }

  function hold(k) {
    state.held = k;
    pointAt(k);
    writeAddress();
  }

  const last = () => scene.run.panels[0].rounds.length - 1;
  const step = (by) => goTo(state.run, state.round + by);

  function stop() {
    clearInterval(state.timer);
    state.timer = null;
    byId("play").classList.remove("playing");
    byId("play").setAttribute("aria-label", "Play");
  }

  function play() {
    if (state.timer !== null) return stop();
    byId("play").classList.add("playing");
    byId("play").setAttribute("aria-label", "Pause");
    if (state.round === last()) goTo(state.run, 0);
    else step(1);
    state.timer = setInterval(() => {
      if (state.round < last()) step(1);
      if (state.round === last()) stop();
    }, 1600);
  }

  const byHand = (action) => () => {
    stop();
    action();
  };
  byId("previous").addEventListener("click", byHand(() => step(-1)));
  byId("next").addEventListener("click", byHand(() => step(1)));
  byId("play").addEventListener("click", play);
  byId("slider").addEventListener("input", byHand(() => goTo(state.run, Number(byId("slider").value))));
  byId("numbers").addEventListener("change", () => {
    state.numbers = byId("numbers").checked;
    goTo(state.run, state.round);
  });

  function walk(cell, by) {
    const { svg } = scene.drawn.find((drawn) => drawn.svg.contains(cell));
    const kinds = svg.classList.contains("crowded") ? [".vertex", ".edge"] : [".vertex", ".edge", ".face"];
    const cells = kinds.flatMap((name) => [...svg.querySelectorAll(name)]);
    const next = cells[(cells.indexOf(cell) + by + cells.length) % cells.length];
    cell.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = document.activeElement;
    const cell = at?.closest?.("svg .cell");
    const keys = {
      ArrowLeft: byHand(() => step(-1)),
      ArrowRight: byHand(() => step(1)),
      Home: byHand(() => goTo(state.run, 0)),
      End: byHand(() => goTo(state.run, last())),
      Escape: () => {
        leave();
        hold(null);
      },
    };
    if (cell) Object.assign(keys, { ArrowUp: () => walk(cell, -1), ArrowDown: () => walk(cell, 1) });
    if (cell) keys.Enter = () => cell.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    if (!at?.matches("button, input")) keys[" "] = play;
    if (at?.id === "slider" && event.key !== "Escape") return; // it steps by itself
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  function fromAddress() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const number = (name) => Number.parseInt(wanted.get(name) ?? "0", 10) || 0;
    state.numbers = wanted.get("numbers") === "1";
    byId("numbers").checked = state.numbers;
    goTo(number("run"), number("round"));
    hold(number("colour") > 0 ? number("colour") - 1 : null);
  }

  runs.forEach((run, r) => {
    const button = node("button", "", run.test);
    button.type = "button";
    button.addEventListener("click", byHand(() => goTo(r, 0)));
    byId("runs").append(button);
  });
  addEventListener("hashchange", fromAddress);
  fromAddress();
})();
