/* The lens of the trace page: it comes in two steps, the last row and the focused column, then all of it. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const trace = lmscope.trace;
  const { place, setProps, rowName, tokenName, wordOf } = trace;
  const focus = (patch) => lmscope.panel.focus(patch);
  const TOP = 5;
  const CELLS_MOST = 8192; // cells that are read without being asked for: more take long
  const WINDOW = 128; // as COLUMNS_MOST of figures/trace.py
  const ROW_PX = [15, 21];
  const TABS = [["map", "Grid"], ["table", "Table"]];
  const SOURCE = "The logit lens: nostalgebraist 2020, “interpreting GPT: the logit lens”.";
  let printed = { colours: {} };
  let asked = null; // what decides the grid, as it was last asked for
  let have = null; // {answer, part, turn, sides}
  let forced = null; // the question whose whole grid a person has asked for
  let fields = {};

  const fresh = () => (have && have.turn === trace.turn() ? have : null);
  const count = () => (fresh() ? have.answer.ids.length : null);
  const tokenOf = (view) => (count() === null ? view.focus.token : Math.min(view.focus.token === null ? Infinity : view.focus.token, count() - 1));
  const rowOf = (view) => Math.min(view.focus.row === null ? Infinity : view.focus.row, have.answer.layers);

  /** The side that is drawn: the lens of one model, or the difference of both. */
  const sideOf = (view) => (have && have.answer.unedited === null && fresh() ? "edited" : trace.sideOf(view));
  /** The side whose words are read: a difference has the words of the edited model. */
  const wordsSide = (view) => (sideOf(view) === "unedited" ? "unedited" : "edited");

  const isLong = () => Boolean(fresh()) && (have.answer.layers + 1) * count() > CELLS_MOST && forced !== trace.question();

  // ------------------------------------------------------------------ questions and answers

  function ask(view, part, tracked) {
    const base = lmscope.panel.question(view);
    return { view: part === "focus" ? { ...base, focus: { ...base.focus, token: view.focus.token } } : base, part, top: TOP, tracked };
  }

  /** First the last row and the focused column, then all, unless that is long and nobody wants it. */
  function askGrid(view) {
    const part = fresh() && !isLong() ? "all" : "focus";
    const tracked = trace.tracked.id(view);
    const colour = view.focus.lens === "rank" && tracked === null ? "probability" : view.focus.lens;
    const width = Math.max(300, Math.round(place("trace-place").clientWidth / 20) * 20);
    const data = { ask: ask(view, part, colour === "rank" ? [tracked] : []), drawn: { side: sideOf(view), colour, width } };
    const token = tokenOf(view);
    const text = JSON.stringify([data, token === null ? 0 : Math.floor(token / WINDOW)]);
    if (text === asked) return;
    asked = text;
    setProps("trace-ask", { data: { ...data, drawn: { ...data.drawn, token, row: view.focus.row }, turn: trace.turn() } });
  }

  function receive(data) {
    if (!data || !trace.isOpen() || data.turn !== trace.turn()) return;
    if (fresh() && have.part === "all" && data.part === "focus" && !isLong()) return;
    const { numbers } = lmscope.dom;
    const opened = (grid) => ({ rows: grid.rows, columns: grid.columns, ...Object.fromEntries(["ids", "probability", "logit", "entropy", "final"].map((name) => [name, numbers(grid[name])])) });
    have = { ...data, settled: numbers(data.answer.settled), sides: { edited: data.answer.edited.map(opened), unedited: data.answer.unedited && data.answer.unedited.map(opened) } };
    trace.learn(data.answer.words);
    trace.again();
  }

  /** One cell of a side, or null where nothing was read yet. */
  function cellAt(side, row, token) {
    for (const grid of (have && have.sides[side]) || []) {
      const [r, c] = [grid.rows.indexOf(row), grid.columns.indexOf(token)];
      if (r < 0 || c < 0) continue;
      const at = r * grid.columns.length + c;
      const top = grid.ids.length / (grid.rows.length * grid.columns.length);
      const part = (name) => Array.from(grid[name].subarray(at * top, (at + 1) * top));
      return { ids: part("ids"), probability: part("probability"), logit: part("logit"), entropy: grid.entropy[at], final: grid.final[at] };
    }
    return null;
  }

  const lastOf = (side, token) => cellAt(side, have.answer.layers, token);
  const settledAt = (token) => (have.settled ? have.settled[token] : null);

  // ------------------------------------------------------------------ drawing

  const MEANS = {
    probability: "Colour: probability of the word in the cell.", agreement: "Colour: probability, here, of the word that the last row puts first.",
    rank: "Colour: rank of the tracked token, 1 is the likeliest.", entropy: "Colour: entropy of the whole distribution.",
  };
  const DIFFERENCE = "Colour: what the edits change, edited minus unedited: red is more, blue is less. ";

  function draw(view) {
    fields.colour.show(view.focus.lens);
    lmscope.panel.sides(place("trace-sides"), view);
    size(view);
    const table = view.focus.tab === "table";
    place("trace-place").hidden = table;
    place("trace-table-place").hidden = !table;
    for (const [name] of TABS) {
      const mine = (name === "table") === table;
      place("trace-tab-" + name).setAttribute("aria-selected", String(mine));
      place("trace-tab-" + name).tabIndex = mine ? 0 : -1;
    }
    if (!fresh()) return;
    note(view);
    marks(view);
  }

  function note(view) {
    const { h } = lmscope.dom;
    const cells = (have.answer.layers + 1) * count();
    const grid = view.focus.tab !== "table";
    const means = sideOf(view) === "difference" ? DIFFERENCE : MEANS[view.focus.lens];
    const parts = grid ? [means, "Bold: the same word as the last row, which is the model’s own answer."] : ["A row for each layer and token; the last row of a token is the model’s own answer. A click on a token opens its cell."];
    if (grid && count() > WINDOW) parts.push("Of " + count().toLocaleString("en") + " tokens, those around the focus are shown.");
    const more = isLong() ? h("button.link", { type: "button", onclick: () => { forced = trace.question(); trace.again(); } }, "Read all " + cells.toLocaleString("en") + " cells") : "";
    place("trace-note").replaceChildren([...parts, ...lmscope.panel.notices(have.answer)].join(" ") + " ", more);
  }

  /** The column and the open cell move at once, without asking. */
  function marks(view) {
    const drawn = document.querySelector("#trace-figure .js-plotly-plot");
    if (!drawn || !drawn.on || !drawn.layout || !fresh()) return;
    if (!drawn.lmscopeMarked) {
      drawn.lmscopeMarked = true;
      drawn.on("plotly_afterplot", () => trace.isOpen() && marks(lmscope.view.get()));
    }
    const [token, row] = [tokenOf(view), rowOf(view)];
    const moved = { column: { x0: token - 0.5, x1: token + 0.5 }, cell: { x0: token - 0.5, x1: token + 0.5, y0: row - 0.5, y1: row + 0.5 } };
    const shapes = drawn.layout.shapes || [];
    const wanted = shapes.map((each) => ({ ...each, ...moved[each.name] }));
    if (JSON.stringify(shapes) !== JSON.stringify(wanted)) window.Plotly.relayout(drawn, { shapes: wanted });
  }

  /** The picture's height: all rows in sight where the window allows, never thinner than their words. */
  function size(view) {
    const card = lmscope.shelf.card(view);
    const rows = 1 + (fresh() ? have.answer.layers : card && card.shape ? card.shape.layers : 12);
    const shell = parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--shell")) || 220;
    const wanted = Math.max(rows * ROW_PX[0], Math.min(rows * ROW_PX[1], innerHeight - shell - 290)) + 90;
    place("trace-place").style.height = wanted + "px";
  }

  // ------------------------------------------------------------------ the hand

  /** A cell was clicked. */
  function picked(event) {
    const point = event && event.points && event.points[0];
    if (point && Number.isInteger(point.x) && Number.isInteger(point.y)) open(point.x, point.y);
  }

  const open = (token, row) => fresh() && focus({ token, row: row === have.answer.layers ? null : row });

  function keydown(event) {
    if (!fresh() || event.ctrlKey || event.metaKey || event.altKey) return;
    const view = lmscope.view.get();
    const [token, row, last] = [tokenOf(view), rowOf(view), have.answer.layers];
    const to = { ArrowLeft: [token - 1, row], ArrowRight: [token + 1, row], ArrowUp: [token, row - 1], ArrowDown: [token, row + 1], Home: [0, row], End: [count() - 1, row], PageUp: [token, 0], PageDown: [token, last] }[event.key];
    if (!to) return;
    event.preventDefault();
    open(Math.max(0, Math.min(count() - 1, to[0])), Math.max(0, Math.min(last, to[1])));
  }

  function start(given) {
    const { h, icon } = lmscope.dom;
    printed = given;
    fields = { colour: lmscope.panel.select("trace-colour", "Colour by", Object.entries(printed.colours), (lens) => focus({ lens })) };
    place("trace-reading").replaceChildren(fields.colour.element, h("span.side-place", { id: "trace-sides" }));
    place("trace-tabs").replaceChildren(...TABS.map(([name, label]) => h("button", { type: "button", role: "tab", id: "trace-tab-" + name, "aria-controls": name === "table" ? "trace-table-place" : "trace-place", onclick: () => focus({ tab: name }) }, label)));
    place("trace-tabs").setAttribute("aria-label", "The lens as");
    place("trace-tabs").onkeydown = (event) => {
      if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
      const next = lmscope.view.get().focus.tab === "table" ? "map" : "table";
      focus({ tab: next });
      place("trace-tab-" + next).focus();
    };
    place("trace-place").setAttribute("aria-labelledby", "trace-tab-map");
    place("trace-place").setAttribute("aria-description", "Arrow keys move the open cell, whose words stand beside the picture; the table has all of them.");
    place("trace-table-place").setAttribute("aria-labelledby", "trace-tab-table");
    place("trace-place").onkeydown = keydown;
    place("trace-tools").replaceChildren(
      lmscope.info.menu(icon("download"), "Download the lens", () => [["PNG", () => picture("png")], ["SVG", () => picture("svg")], ["CSV of all cells", () => ready() && trace.table.csv()], ["JSON of the answer", () => ready() && lmscope.download.json(trace.fileName("lens") + ".json", have.answer)]]),
      h("button.quiet", { type: "button", title: "Copy as Python: the client’s call", "aria-label": "Copy as Python", onclick: askCode }, icon("copy")),
      lmscope.info.button("the lens", about));
  }

  // ------------------------------------------------------------------ taking away

  const ready = () => fresh() || void lmscope.dom.announce("The answer is not here yet");

  async function picture(kind) {
    const { tab } = lmscope.view.get().focus;
    if (tab === "table") {
      focus({ tab: "map" });
      await new Promise((resolve) => setTimeout(resolve, 400));
    }
    await lmscope.download.plot("trace-figure", kind, trace.fileName("lens", lmscope.view.get().focus.lens));
    if (tab === "table") focus({ tab });
  }

  function askCode() {
    if (!ready()) return;
    const view = lmscope.view.get();
    const id = trace.tracked.id(view);
    trace.code({ trace: [ask(view, "all", id === null ? [] : [id])] });
  }

  function promise() {
    const card = lmscope.shelf.card(lmscope.view.get());
    const found = card && card.promises.find((each) => each.needed_by.includes("trace"));
    return found ? "Checked when the model was loaded: " + found.name + " (" + found.detail + ")." : "";
  }

  const about = () => ({
    title: "The lens", unit: "probability; entropy in nats; logits as the model gives them", source: SOURCE, conditions: fresh() && have.answer.conditions,
    definition: [
      "The residual stream at every layer and token, read as if it were the last: through the model’s own final norm and output embedding, soft-caps and multipliers included. Row 0 is the embedding, row n the stream after block n−1. Each row is normalised with its own statistics.",
      "The last row is the model’s own answer: the final norm of the last stream is what is read out, so it equals the logits. " + promise(),
      (sideOf(lmscope.view.get()) === "difference" ? DIFFERENCE : MEANS[lmscope.view.get().focus.lens]) + " A bold word is the one that the last row puts first at that token.",
    ].filter(Boolean),
  });

  trace.lens = { TOP, SOURCE, fresh, count, tokenOf, rowOf, sideOf, wordsSide, ask, cellAt, lastOf, settledAt, isWhole: () => Boolean(fresh()) && have.part === "all", open, ready };
  trace.answer = () => have && have.answer;
  trace.part = () => fresh() && have.part;
  trace.join({
    late: true, start, draw, ask: askGrid,
    anew: () => { asked = null; },
    retry: () => { if (place("trace-notice").firstElementChild && !lmscope.busy.isOut("trace-answer.")) asked = null; },
  });

  Object.assign(window.dash_clientside.trace, { answer: receive, picked, code: (texts) => texts && lmscope.info.code(texts) });
})();
