"use strict";
// A complex as a picture that can be moved. What the colours mean is the business of the page.
const UNIT = 60; // one edge, in the units of the picture
const CROWD = 60; // more 2-cells than this are drawn only when they are pointed at
// The parser knows the namespace of SVG; spelling it out would put an address into a page that has none.
const SVG = new DOMParser().parseFromString("<svg></svg>", "text/html").body.firstChild.namespaceURI;

const clamp = (x, low, high) => Math.max(low, Math.min(high, x));
const make = (tag, attributes = {}, parent = null) => {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent?.append(element);
  return element;
};
const node = (tag, className = "", text = "") => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== "") element.textContent = text;
  return element;
};

const onScreen = (points) => points.map(([x, y]) => [x * UNIT, -y * UNIT]);
const path = (points, close = true) => `M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}${close ? "Z" : ""}`;
const middle = (points) => [0, 1].map((axis) => points.reduce((sum, p) => sum + p[axis], 0) / points.length);

/** The box around an exhibit, as x, y, width and height. */
function boxOf(points, margin = 40) {
  const [xs, ys] = [0, 1].map((axis) => points.map((p) => p[axis]));
  const [left, top] = [Math.min(...xs) - margin, Math.min(...ys) - margin];
  return [left, top, Math.max(...xs) + margin - left, Math.max(...ys) + margin - top];
}

/** The distance that nine in ten points keep from all others: a single close pair must not shrink the rest. */
function typicalGap(points) {
  const gaps = points.map((p) => Math.min(...points.map((q) => (p === q ? Infinity : Math.hypot(p[0] - q[0], p[1] - q[1])))));
  return Math.min(gaps.sort((a, b) => a - b)[Math.floor(gaps.length / 10)] ?? UNIT, UNIT);
}

/** The direction in the middle of the widest gap between the neighbours of a point. */
function freeDirection([x, y], around) {
  if (!around.length) return [1, 0];
  const angles = around.map(([u, v]) => Math.atan2(v - y, u - x)).sort((a, b) => a - b);
  const gaps = angles.map((angle, k) => (angles[k + 1] ?? angles[0] + 2 * Math.PI) - angle);
  const widest = gaps.indexOf(Math.max(...gaps));
  const middle = angles[widest] + gaps[widest] / 2;
  return [Math.cos(middle), Math.sin(middle)];
}

/** Cells are drawn a little smaller than they are, so that neighbours do not touch. */
function shrunk(points, inset) {
  const centre = middle(points);
  const reach = Math.max(...points.map((p) => Math.hypot(p[0] - centre[0], p[1] - centre[1])), 1);
  const by = Math.max(0.35, 1 - inset / reach);
  return points.map((p) => [0, 1].map((axis) => centre[axis] + by * (p[axis] - centre[axis])));
}

function area(points) {
  const twice = points.reduce((sum, [x, y], i) => {
    const [u, v] = points[(i + 1) % points.length];
    return sum + x * v - u * y;
  }, 0);
  return Math.abs(twice) / 2;
}

/** A small still picture. */
function thumbnail(exhibit) {
  const at = onScreen(exhibit.points);
  const svg = make("svg", { viewBox: boxOf(at, 14).join(" "), class: "thumbnail", "aria-hidden": "true" });
  const rings = exhibit.complexes["rings:18"].vertices?.[0] ?? [];
  if (rings.length <= 12) for (const walk of rings) make("path", { d: path(walk.map((v) => at[v])), class: "ring" }, svg);
  for (const [u, v] of exhibit.edges) make("path", { d: path([at[u], at[v]], false), class: "bond" }, svg);
  at.forEach(([x, y], i) => {
    const element = exhibit.smiles === null ? "" : exhibit.labels[i];
    if (element !== "C" || at.length === 1) make("circle", { cx: x, cy: y, r: 13, class: element && `e-${element}` }, svg);
  });
  return svg;
}

class Drawing {
  constructor(svg) {
    this.svg = svg;
    this.svg.setAttribute("preserveAspectRatio", "xMidYMid meet");
    this.#listen();
  }

  /** Draw the cells; their colours come later, with `paint`. */
  show(exhibit, complex) {
    this.complex = complex;
    const at = onScreen(exhibit.points);
    const molecule = exhibit.lines !== null;
    const degree = (2 * exhibit.edges.length) / Math.max(1, at.length);
    const radius = molecule ? 16 : clamp(0.28 * typicalGap(at), 5, 17);
    const stroke = molecule ? 13 : clamp(0.36 * radius * Math.min(1, Math.sqrt(3.2 / degree)), 0.8, 6);
    this.shapes = complex.counts.map(() => []);
    this.texts = complex.counts.map(() => []);
    this.svg.replaceChildren();
    const faces = (complex.members[2] ?? []).map((walk, i) => ({ i, points: walk.map((v) => at[v]) }));
    this.#faces(faces, at, radius, stroke);
    exhibit.edges.forEach(([u, v], i) => this.#edge(i, path([at[u], at[v]], false), stroke, exhibit.lines?.[i]));
    at.forEach((place, i) => {
      const around = complex.coboundary[0][i].map((e) => at[exhibit.edges[e].find((v) => v !== i)]);
      this.#vertex(i, place, radius, molecule ? exhibit.labels[i] : "", around);
    });
    const layer = make("g", { class: "texts" }, this.svg);
    const size = molecule ? 12 : clamp(0.8 * radius, 7, 12);
    const text = ([x, y], className) =>
      make("text", { x: x.toFixed(1), y: (y + 0.36 * size).toFixed(1), "font-size": size, class: className }, layer);
    if (exhibit.edges.length <= 40) {
      exhibit.edges.forEach(([u, v], i) => (this.texts[1][i] = text(middle([at[u], at[v]]), "number")));
    }
    if (this.depth < 2.5 && faces.length <= 24) {
      for (const { i, points } of faces) this.texts[2][i] = text(middle(points), "number of-face");
    }
    this.shapes.flat()[0]?.setAttribute("tabindex", "0");
    return boxOf(at);
  }

  #faces(faces, at, radius, stroke) {
    const [, , width, height] = boxOf(at, 0);
    const total = faces.reduce((sum, { points }) => sum + area(points), 0);
    // How many cells lie over a typical point. The more, the thinner the paint of each.
    this.depth = Math.max(1, (1.3 * total) / Math.max(1, width * height));
    this.svg.style.setProperty("--face", (1 - 0.45 ** (1 / this.depth)).toFixed(3));
    this.svg.classList.toggle("crowded", faces.length > CROWD);
    for (const { i, points } of [...faces].sort((a, b) => area(b.points) - area(a.points))) {
      const inset = 0.5 * stroke + 4 + (this.depth > 2.5 ? 0.5 * radius : 0);
      this.#cell(2, i, make("path", { d: path(shrunk(points, inset)), class: "cell face" }, this.svg));
    }
  }

  #edge(i, d, width, lines) {
    const group = make("g", { class: lines ? "cell edge bond" : "cell edge" }, this.svg);
    make("path", { d, class: "hit", "stroke-width": Math.max(14, width) }, group);
    make("path", { d, class: "rim", "stroke-width": (width + 5).toFixed(1) }, group);
    make("path", { d, class: "seen", "stroke-width": width.toFixed(1) }, group);
    make("path", { d, class: "dash", "stroke-width": width.toFixed(1) }, group);
    for (const [a, b, c, e] of lines ?? []) make("path", { d: path(onScreen([[a, b], [c, e]]), false), class: "ink" }, group);
    this.#cell(1, i, group);
  }

  #vertex(i, [x, y], radius, label, around) {
    const group = make("g", { class: "cell vertex" }, this.svg);
    make("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: radius.toFixed(1) }, group);
    const size = Math.min(radius, 14);
    this.texts[0][i] = make("text", { x: x.toFixed(1), y: (y + 0.36 * size).toFixed(1), "font-size": size.toFixed(1) }, group);
    if (label && label !== "C") {
      const [dx, dy] = freeDirection([x, y], around);
      const away = radius + 8 + 3 * (label.length - 1) * Math.abs(dx);
      const at = { x: (x + away * dx).toFixed(1), y: (y + away * dy + 5).toFixed(1) };
      make("text", { ...at, "font-size": 14, class: `element e-${label}` }, group).textContent = label;
    }
    this.#cell(0, i, group);
  }

  #cell(d, i, shape) {
    Object.assign(shape.dataset, { d, i });
    shape.setAttribute("role", "img");
    shape.setAttribute("tabindex", "-1");
    this.shapes[d][i] = shape;
  }

  /** Colour, text and name of every cell: `look(d, i)` gives {colour, ink, text, name}. */
  paint(look) {
    this.shapes.forEach((row, d) =>
      row.forEach((shape, i) => {
        const { colour, ink, text, name } = look(d, i);
        shape.style.setProperty("--colour", colour);
        shape.style.setProperty("--on", ink);
        shape.setAttribute("aria-label", name);
        if (this.texts[d][i]) this.texts[d][i].textContent = text;
      }),
    );
  }

  /** Hold up a cell and what is around it; null lets go. */
  point(cell) {
    this.svg.classList.toggle("pointing", cell !== null);
    const roles = ["near", "self", "boundary", "coboundary", "upper", "lower"];
    for (const shape of this.svg.querySelectorAll(".near")) shape.classList.remove(...roles);
    if (!cell) return;
    const mark = ([d, i], role) => this.shapes[d][i]?.classList.add("near", role);
    mark(cell, "self");
    for (const [role, cells] of Object.entries(Cells.around(this.complex, ...cell))) for (const other of cells) mark(other, role);
  }

  /** Hold up the cells that pass a test; null lets go. */
  pick(test) {
    this.svg.classList.toggle("picking", test !== null);
    this.shapes.forEach((row, d) => row.forEach((shape, i) => shape.classList.toggle("alike", test !== null && test(d, i))));
  }

  // Moving: the view box is the window through which the picture is seen.

  fit(box) {
    this.home = box;
    this.#look(box);
  }

  #look(box) {
    this.view = box;
    this.svg.setAttribute("viewBox", box.map((v) => v.toFixed(2)).join(" "));
  }

  zoom(factor, about = null) {
    const [x, y, w, h] = this.view;
    const width = clamp(w / factor, this.home[2] / 12, this.home[2] * 3);
    const by = width / w;
    const [cx, cy] = about ?? [x + w / 2, y + h / 2];
    this.#look([cx - (cx - x) * by, cy - (cy - y) * by, width, h * by]);
  }

  move(dx, dy) {
    const [x, y, w, h] = this.view;
    this.#look([x + dx, y + dy, w, h]);
  }

  #listen() {
    const here = ({ clientX, clientY }) => {
      const p = new DOMPoint(clientX, clientY).matrixTransform(this.svg.getScreenCTM().inverse());
      return [p.x, p.y];
    };
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-clamp(event.deltaY, -200, 200) / 400), here(event));
    }, { passive: false });
    let grip = null;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button === 0) grip = { at: here(event), x: event.clientX, y: event.clientY };
      this.dragged = false;
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!grip || !(event.buttons & 1)) return;
      if (!this.dragged && Math.hypot(event.clientX - grip.x, event.clientY - grip.y) < 4) return;
      if (!this.dragged) this.svg.setPointerCapture(event.pointerId);
      this.dragged = true;
      const [x, y] = here(event);
      this.move(grip.at[0] - x, grip.at[1] - y);
    });
    for (const end of ["pointerup", "pointercancel"]) this.svg.addEventListener(end, () => (grip = null));
  }

  key(event) {
    const step = 0.08 * this.view[2];
    const keys = { "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8), 0: () => this.#look(this.home) };
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (event.shiftKey && moves[event.key]) keys[event.key] = () => this.move(...moves[event.key]);
    keys[event.key]?.();
    return event.key in keys;
  }
}
