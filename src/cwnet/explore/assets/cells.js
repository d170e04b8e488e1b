"use strict";
// What follows from boundaries and colours alone. Nothing here touches the page.
const Cells = (() => {
  const range = (n) => Array.from({ length: n }, (_, i) => i);

  /** The complex of an exhibit under a lifting: boundaries and coboundaries of the cells of every dimension. */
  function complexOf(exhibit, lifting) {
    const { boundaries, vertices } = exhibit.complexes[lifting];
    const boundary = [exhibit.points.map(() => []), exhibit.edges, ...boundaries];
    const counts = boundary.map((cells) => cells.length);
    const coboundary = counts.map((n) => range(n).map(() => []));
    boundary.forEach((cells, d) => cells.forEach((faces, i) => faces.forEach((f) => coboundary[d - 1][f].push(i))));
    const members = [range(counts[0]).map((i) => [i]), exhibit.edges, ...vertices];
    return { counts, boundary, coboundary, members };
  }

  /** The cells around a cell, as [dimension, number]; neighbours once each, however many cells they share. */
  function around(complex, d, i) {
    const { boundary, coboundary } = complex;
    const across = (shared, back) => [...new Set(shared.flatMap((s) => back[s]))].filter((j) => j !== i).sort((a, b) => a - b);
    const cofaces = coboundary[d][i];
    const faces = boundary[d][i];
    return {
      boundary: faces.map((f) => [d - 1, f]),
      coboundary: cofaces.map((c) => [d + 1, c]),
      upper: across(cofaces, boundary[d + 1]).map((j) => [d, j]),
      lower: across(faces, coboundary[d - 1]).map((j) => [d, j]),
    };
  }

  function histogram(colours) {
    const count = new Map();
    for (const k of colours) count.set(k, (count.get(k) ?? 0) + 1);
    return count;
  }

  const same = (a, b) => a.size === b.size && [...a].every(([k, n]) => b.get(k) === n);

  /**
   * The refinement of one or two exhibits, until it is stable and one round more.
   *
   * The library has refined all exhibits together, so colours can be compared as they are; what is found here is where
   * these two come apart and when they are stable. Colours are numbered anew, as few are left: a class keeps its number
   * from round to round, and when it splits, its largest piece does.
   */
  function colouring(exhibits, lifting, start, counts) {
    const tables = exhibits.map((exhibit) => exhibit.colours[lifting][start]);
    const at = (t) =>
      tables.map(({ classes, rounds }) => {
        const row = rounds[Math.min(t, rounds.length - 1)];
        return classes.map((c) => row[c]);
      });
    const raw = [at(0)];
    const classes = (panels) => new Set(panels.flat()).size;
    do raw.push(at(raw.length));
    while (classes(raw.at(-1)) !== classes(raw.at(-2)));
    const apart = raw.findIndex(([a, b]) => b && !same(histogram(a), histogram(b)));
    const rounds = lasting(raw).map((panels) => panels.map((flat, p) => byDimension(flat, counts[p])));
    return { rounds, decidedAt: apart < 0 ? null : apart, stable: raw.length - 2 };
  }

  function byDimension(flat, counts) {
    let end = 0;
    return counts.map((n) => flat.slice(end, (end += n)));
  }

  function lasting(rounds) {
    let before = null;
    let fresh = 0;
    return rounds.map((panels) => {
      const flat = panels.flat();
      const members = new Map();
      flat.forEach((k, i) => (members.has(k) ? members.get(k).push(i) : members.set(k, [i])));
      const number = new Map();
      const taken = new Set();
      for (const [k, cells] of [...members].sort((a, b) => b[1].length - a[1].length)) {
        let old = before?.[cells[0]];
        if (old === undefined || taken.has(old)) old = fresh++;
        taken.add(old);
        number.set(k, old);
      }
      before = flat.map((k) => number.get(k));
      return panels.map((colours) => colours.map((k) => number.get(k)));
    });
  }

  return { complexOf, around, colouring, histogram };
})();
