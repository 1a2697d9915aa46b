/* The map of heads: layers down, heads across; a job measures W_VO of every head, another finds all their top pairs. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const weights = lmscope.weights;
  const { place, focus, shape, headOf, nameOf, choose, file, there } = weights;
  const { folded, notes, redraw, table, tools, word } = lmscope.panelParts;
  const COLOURS = {
    copying: { text: "copying score", signed: true }, same: { text: "share of same-token pairs" }, first: { text: "share of the first direction" },
    rank: { text: "effective rank" }, largest: { text: "largest singular value" },
  };
  const SHORT = 16; // layers: a lower map than the panel beside it
  const SHOWN = 3; // pairs of a head in the table of all heads
  const asked = (view) => ({ model: view.model, revision: view.revision, reading: view.focus.reads });
  const redo = () => { state = null; weights.again(); };
  const isThere = (view) => (lmscope.shelf.card(view) || {}).state === "loaded";
  const job = weights.asker("weights-heads", { kind: "heads", ask: asked, finds: isThere, changed: redo });
  // millions of pairs may have been found before: they are fetched when somebody asks for them, and then are there at once
  const tables = weights.asker("weights-tables", { kind: "tables", ask: allPairs, finds: () => false, changed: redo });
  let choice = null;
  let built = null; // the sizes that the grid was made for
  let state = null;

  // ------------------------------------------------------------------ the grid

  function build(sizes) {
    const { h } = lmscope.dom;
    const per = Math.max(1, Math.round(sizes.heads / sizes.kv_heads));
    const layers = sizes.attention_layers;
    const mark = (index, every) => (index % every === 0 ? String(index) : "");
    const every = Math.max(1, Math.ceil(sizes.heads / 12));
    const head = h("div.map-row", { role: "row" }, h("span.map-layer", { role: "columnheader" }, h("span.unseen", {}, "layer")), Array.from({ length: sizes.heads }, (_, i) => h("span.map-head", { role: "columnheader", "aria-label": "head " + i }, mark(i, every))));
    const cell = (layer, i) => h("button.map-cell" + (i % per === 0 && i > 0 && per > 1 ? ".group" : ""), { type: "button", role: "gridcell", tabindex: "-1", id: "weights-cell-" + layer + "-" + i, "data-layer": layer, "data-head": i, "aria-label": "Head " + layer + "." + i, title: "Head " + layer + "." + i, onclick: () => choose({ layer, head: i }) });
    const row = (layer) => h("div.map-row", { role: "row" }, h("span.map-layer", { role: "rowheader", "aria-label": "layer " + layer }, String(layer)), Array.from({ length: sizes.heads }, (_, i) => cell(layer, i)));
    const grid = h("div.map-grid", { role: "grid", "aria-label": "Heads of the model" }, head, layers.map(row));
    grid.style.setProperty("--heads", sizes.heads);
    grid.addEventListener("keydown", (event) => move(event, sizes));
    place("weights-map-place").replaceChildren(grid);
    place("weights-map-place").closest(".weights-first").classList.toggle("short", layers.length < SHORT);
  }

  const cellOf = ({ layer, head }) => document.getElementById("weights-cell-" + layer + "-" + head);

  function move(event, { attention_layers: layers, heads }) {
    const at = event.target.dataset;
    if (at.layer === undefined) return;
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -heads], End: [0, heads], PageUp: [-10, 0], PageDown: [10, 0] };
    if (!steps[event.key]) return;
    event.preventDefault();
    const [down, across] = steps[event.key];
    const clamp = (value, most) => Math.max(0, Math.min(most, value));
    const next = cellOf({ layer: layers[clamp(layers.indexOf(Number(at.layer)) + down, layers.length - 1)], head: clamp(Number(at.head) + across, heads - 1) });
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  function show(view) {
    const grid = place("weights-map-place");
    const open = cellOf(headOf(view));
    for (const old of grid.querySelectorAll("[aria-selected]")) old.removeAttribute("aria-selected");
    if (!grid.contains(document.activeElement)) for (const old of grid.querySelectorAll("[tabindex='0']")) old.tabIndex = -1;
    if (!open) return;
    open.setAttribute("aria-selected", "true");
    if (!grid.contains(document.activeElement)) open.tabIndex = 0;
  }

  // ------------------------------------------------------------------ its colours

  function colour(view, answer, sizes) {
    const kind = COLOURS[view.focus.map];
    const values = answer && lmscope.dom.numbers(answer[view.focus.map]);
    const known = values ? Array.from(values).filter(Number.isFinite) : [];
    const [low, high] = known.length === 0 ? [0, 1] : kind.signed ? [-1, 1] : [Math.min(0, ...known), Math.max(...known)];
    sizes.attention_layers.forEach((layer, row) => {
      for (let i = 0; i < sizes.heads; i++) {
        const cell = cellOf({ layer, head: i });
        const value = values && answer.layers[row] === layer ? values[row * sizes.heads + i] : NaN;
        const share = (value - low) / (high - low || 1);
        cell.style.background = !Number.isFinite(value) ? "" : kind.signed ? lmscope.colours.diverging(value) : lmscope.colours.viridis(share);
        cell.title = "Head " + layer + "." + i + (Number.isFinite(value) ? ": " + kind.text + " " + lmscope.dom.digits(value, 3) : "");
        cell.setAttribute("aria-label", cell.title);
      }
    });
    legend(known.length ? [low, high] : null, kind);
  }

  function legend(span, kind) {
    const { h } = lmscope.dom;
    if (!span) return place("weights-map-legend").replaceChildren();
    const bar = h("span.legend-bar", { "aria-hidden": "true" });
    bar.style.background = lmscope.colours.gradient(Boolean(kind.signed));
    return place("weights-map-legend").replaceChildren(h("span", {}, lmscope.dom.plain(Number(span[0].toPrecision(3)))), bar, h("span", {}, lmscope.dom.plain(Number(span[1].toPrecision(3)))), h("span", {}, kind.text));
  }

  // ------------------------------------------------------------------ the panel

  /** Of all heads, with this page's matrix, reading and filters. */
  function allPairs(view) {
    if (!weights.pairs) return null;
    const { layer: _layer, head: _head, ...form } = weights.pairs.form(view);
    return form;
  }

  function start() {
    built = state = null;
    choice = lmscope.panel.select("weights-map-colour", "Colour", Object.entries(COLOURS).map(([value, { text }]) => [value, text]), (map) => focus({ map }));
    place("weights-map-choice").replaceChildren(choice.element);
    const called = () => file("heads");
    place("weights-map-tools").replaceChildren(...tools("the heads", () => [
      ["CSV of every head", csv], ["JSON of every head", () => there(job.answer()) && lmscope.download.json(called() + ".json", job.answer())],
      ["CSV of all top pairs", pairsCsv], ["JSON of all top pairs", () => there(tables.answer()) && lmscope.download.json(called() + "-pairs.json", tables.answer())],
    ], () => weights.code([["heads", asked(lmscope.view.get())], ...(tables.job() ? [["tables", tables.question()]] : [])]), about));
    job.start();
    tables.start();
  }

  function about() {
    const answer = job.answer();
    return {
      title: "Map of heads", unit: "the copying score and shares have none", source: "Copying score: Elhage et al. 2021; pairs: Dar et al. 2023.", conditions: answer && answer.conditions,
      definition: ["Every query head of the model: layers down, heads across; a line parts the groups that share keys and values. “Measure every head” finds W_VO of each in numbers, first singular values and copying, then the share of same-token pairs among its top 50, which takes longer.", ...(answer ? Object.values(answer.abouts) : [])],
    };
  }

  function draw(view) {
    const sizes = shape(view);
    if (!sizes) {
      built = null;
      return place("weights-map-place").replaceChildren(lmscope.dom.h("p.note", {}, "The map is drawn when the model’s shape is known."));
    }
    const made = JSON.stringify([view.model, view.revision, sizes.heads, sizes.attention_layers]);
    if (made !== built) {
      built = made;
      state = null;
      build(sizes);
    }
    show(view);
    choice.show(view.focus.map);
    for (const each of [job, tables]) each.follow();
    const now = JSON.stringify([built, view.focus.map, ...[job, tables].flatMap((each) => [each.question(), each.job(), each.isLive(), Boolean(each.answer())])]);
    if (now === state) return undefined;
    state = now;
    const answer = job.answer();
    colour(view, answer, sizes);
    says(view, answer, sizes);
    return folded(place("weights-map-table"), "Every head as a table", () => [everyHead(view, sizes)]);
  }

  function says(view, answer, sizes) {
    const { h } = lmscope.dom;
    const heads = sizes.attention_layers.length * sizes.heads;
    const parts = [];
    if (job.isLive()) parts.push(job.progress("Heads"));
    else if (!answer) parts.push(h("button", { type: "button", id: "weights-measure", title: "Copying score, singular values and same-token pairs of all " + heads + " heads", onclick: job.begin }, "Measure every head"));
    if (tables.isLive()) parts.push(tables.progress("Tables"));
    else parts.push(h("button", { type: "button", id: "weights-all-pairs", title: "With this page’s matrix, reading and filters; what was searched before is there at once", onclick: tables.begin }, "Find all heads’ top pairs"));
    for (const each of [job, tables]) parts.push(...each.endings().map((text) => h("p.note", {}, text)));
    if (answer) parts.push(...notes([...answer.notices, ...(answer.copying_why ? ["No copying score: " + answer.copying_why] : []), ...Object.entries(answer.why).map(([layer, why]) => "Layer " + layer + ": " + why)]));
    redraw(place("weights-map-state"), parts);
  }

  // ------------------------------------------------------------------ as a table

  function rowsOf(view, sizes) {
    const answer = job.answer();
    const names = Object.keys(COLOURS);
    const values = answer && Object.fromEntries(names.map((name) => [name, lmscope.dom.numbers(answer[name])]));
    return sizes.attention_layers.flatMap((layer, row) => Array.from({ length: sizes.heads }, (_, i) => ({ layer, head: i, ...(values ? Object.fromEntries(names.map((name) => [name, values[name][row * sizes.heads + i]])) : {}) })));
  }

  /** The first pairs of each head that was searched: "layer.head" → [[row, column], …]. */
  function pairsOf(view) {
    const answer = tables.answer();
    if (!answer) return new Map();
    lmscope.panelWords.learn(answer.words);
    const [layers, heads, rows, columns, scores] = ["layer", "head", "row", "column", "score"].map((name) => lmscope.dom.numbers(answer[name]));
    const each = layers.length ? rows.length / layers.length : 0;
    return new Map(Array.from(layers, (layer, n) => [nameOf({ layer, head: heads[n] }), Array.from({ length: each }, (_, i) => [rows[n * each + i], columns[n * each + i], scores[n * each + i]])]));
  }

  function everyHead(view, sizes) {
    const { h } = lmscope.dom;
    const pairs = pairsOf(view);
    const names = Object.keys(COLOURS);
    const open = (one) => h("button.link", { type: "button", onclick: () => choose({ layer: one.layer, head: one.head }) }, nameOf(one));
    const first = (one) => h("span.map-pairs", {}, (pairs.get(nameOf(one)) || []).slice(0, SHOWN).map(([row, column]) => h("span.map-pair", {}, word(row), " → ", word(column))));
    const rows = rowsOf(view, sizes).map((one) => [open(one), ...names.map((name) => (one[name] === undefined ? "" : lmscope.dom.digits(one[name], 3))), ...(pairs.size ? [first(one)] : [])]);
    return table("Every head", ["head", ...names.map((name) => COLOURS[name].text), ...(pairs.size ? ["first pairs"] : [])], rows, ["", ...names.map(() => "number"), ""]);
  }

  function csv() {
    const view = lmscope.view.get();
    if (!there(job.answer())) return;
    const rows = rowsOf(view, shape(view));
    lmscope.download.csv(file("heads") + ".csv", [["layer", "head", ...Object.values(COLOURS).map(({ text }) => text)], ...rows.map((one) => [one.layer, one.head, ...Object.keys(COLOURS).map((name) => one[name])])]);
  }

  function pairsCsv() {
    const view = lmscope.view.get();
    const answer = there(tables.answer());
    if (!answer) return;
    const rows = [...pairsOf(view)].flatMap(([name, pairs]) => pairs.map(([row, column, score]) => [name, row, answer.words[String(row)], column, answer.words[String(column)], score]));
    lmscope.download.csv(file("all-pairs") + ".csv", [["head", "row id", "row", "column id", "column", "score"], ...rows]);
  }

  weights.map = { job, tables };
  weights.join({ start, draw, retry: () => (job.retry(), tables.retry()), anew: () => { state = null; } });
})();
