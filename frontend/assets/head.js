/* One head, or the mean of several: its statistics, its map, lines, text and table. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const ROWS_AT_ONCE = 256;
  const SHORT = { normalised: "Normalised" };

  const place = (id) => document.getElementById(id);
  const title = (heads) =>
    heads.length === 0 ? "One head" : heads.length === 1 ? "Layer " + heads[0].layer + " · head " + heads[0].head : "Mean of " + heads.length + " heads";

  // ------------------------------------------------------------------ what an answer holds

  /** Decode a bundle of the server once. */
  function opened(bundle) {
    const { numbers } = lmscope.dom;
    const { answer, figures } = bundle;
    const sides = {};
    for (const name of ["edited", "unedited", "difference"]) {
      const side = answer[name];
      if (!side) continue;
      const width = Number(side.strongest.shape.split(",")[1]);
      sides[name] = {
        entropy: numbers(side.entropy), strongest: numbers(side.strongest), weights: numbers(side.weights), undrawn: numbers(side.undrawn),
        looksAt: numbers(side.looks_at), lookedAtBy: numbers(side.looked_at_by), n: width, z: figures[name].data[0].z,
      };
    }
    return { ...bundle, sides, uniform: numbers(answer.uniform_entropy), visible: numbers(answer.visible) };
  }

  const wholeMap = (head) => !head.answer.pooled && head.answer.cells[0] === head.answer.ids.length && head.answer.cells[1] === head.answer.ids.length;

  /** The focus token's row or column of one side: from the answer, or cut out of a map that is exact and whole. */
  function through(head, sideName, token, column) {
    const side = head.sides[sideName];
    const count = head.answer.ids.length;
    if (token === null || token >= count) return null;
    if (head.answer.token === token) return column ? side.lookedAtBy : side.looksAt;
    if (!wholeMap(head)) return null;
    side.map = side.map || lmscope.dom.numbers(side.z);
    return Float32Array.from({ length: count }, (_, i) => (column ? side.map[i * count + token] : side.map[token * count + i]));
  }

  // ------------------------------------------------------------------ statistics

  /** Mean of a statistic over the chosen heads that define it. */
  function meanOver(grid, side, name, heads, field) {
    const statistic = grid.data.sides[side] && grid.data.sides[side].statistics[name];
    if (!statistic) return NaN;
    const values = heads.map((head) => statistic[field][grid.indexOf(head)]).filter(Number.isFinite);
    return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : NaN;
  }

  function statistics(grid, view) {
    const { h } = lmscope.dom;
    const target = place("head-statistics");
    const { heads } = view.focus;
    if (!grid.data || !heads.length || heads.some((head) => grid.indexOf(head) < 0)) return target.replaceChildren();
    const side = grid.side();
    const { conditions } = grid.data;
    const signed = side === "difference";
    const tiles = Object.values(grid.data.sides[side].statistics).map((each) => {
      const value = meanOver(grid, side, each.name, heads, "value");
      const beside = signed ? meanOver(grid, "edited", each.name, heads, "value") : meanOver(grid, side, each.name, heads, "uniform");
      return h("button.tile", { type: "button", title: each.definition, "aria-pressed": String(each.name === view.focus.colour), onclick: () => lmscope.view.update({ focus: { colour: each.name, low: null, high: null } }) },
        h("span.tile-name", {}, SHORT[each.name] || each.label),
        h("span.tile-value", {}, lmscope.numbers.fixed(value, each.unit, conditions, signed), h("span.tile-unit", {}, each.unit === "share" || each.unit === "ratio" ? "" : " " + each.unit)),
        h("span.tile-uniform", {}, (signed ? "edited " : "uniform ") + lmscope.numbers.fixed(beside, each.unit, conditions)));
    });
    target.replaceChildren(h("div.tiles", { role: "group", "aria-label": "Statistics of " + title(heads) }, tiles));
  }

  // ------------------------------------------------------------------ map

  function dressed(figure, scale) {
    const theme = lmscope.theme.now();
    const looks = lmscope.attention.looks();
    const [heat, bar] = figure.data;
    const { scales, signed } = figure.layout.meta;
    const used = signed ? "linear" : scale;
    return {
      data: [{ ...heat, colorscale: scales[used], showscale: used === "linear" }, { ...bar, visible: used === "log" }],
      layout: { ...figure.layout, template: looks[theme] },
    };
  }

  function map(head, view) {
    const { h } = lmscope.dom;
    const side = head.sides[view.focus.side] ? view.focus.side : "edited";
    const { answer } = head;
    const [q, k] = answer.cells;
    const { q0, q1, k0, k1 } = answer.region;
    const whole = !view.focus.region;
    const notes = [];
    if (answer.pooled) notes.push("Each cell is the " + answer.reading.pool + " of several pairs (" + (q1 - q0) + " × " + (k1 - k0) + " tokens in " + q + " × " + k + " cells): drag a box to zoom in, exact values come back.");
    if (!whole) notes.push("Queries " + q0 + "–" + (q1 - 1) + ", keys " + k0 + "–" + (k1 - 1) + ".");
    if (answer.reading.without_first) notes.push("Without the first token: each row is renormalised over the other keys.");
    if (answer.heads.length > 1) notes.push("Mean of " + answer.heads.map(lmscope.grid.named).join(", ") + ".");
    for (const said of lmscope.panel.notices(answer)) notes.push(said);
    place("head-map-note").replaceChildren(...notes.map((text) => h("span", {}, text + " ")), !whole || !answer.pooled ? "" : h("button.link", { type: "button", onclick: lmscope.attention.zoomToToken }, "Zoom to the focus token"), whole ? "" : h("button.link", { type: "button", onclick: () => lmscope.view.update({ focus: { region: null } }) }, "Show the whole map"));
    window.dash_clientside.set_props("attention-map", { figure: dressed(head.figures[side], view.focus.scale) });
    window.dash_clientside.set_props("attention-rows", { figure: head.rows[lmscope.theme.now()] });
    place("head-map-read").textContent = "Drag a box to zoom, double-click to go back. Click a cell: its query becomes the focus token.";
  }

  // ------------------------------------------------------------------ lines

  function lines(head, view) {
    const side = head.sides[view.focus.side] || head.sides.edited;
    const signed = Boolean(head.sides[view.focus.side] && view.focus.side === "difference");
    lmscope.lines.draw(place("head-lines"), { names: head.names, strongest: side.strongest, weights: side.weights, undrawn: side.undrawn, n: side.n, signed, conditions: head.answer.conditions, token: view.focus.token }, { token: lmscope.attention.token });
  }

  // ------------------------------------------------------------------ text

  function text(head, view) {
    const { h } = lmscope.dom;
    const { token } = view.focus;
    const target = place("head-text");
    const known = token !== null && token < head.names.length;
    const side = head.sides[view.focus.side] ? view.focus.side : "edited";
    const name = known ? head.names[token] + " (" + token + ")" : "";
    const blocks = [
      [known ? "What " + name + " looks at" : "What a token looks at", known ? through(head, side, token, false) : null],
      [known ? "What looks at " + name : "What looks at a token", known ? through(head, side, token, true) : null],
    ];
    const teach = known ? null : h("p.empty-hint", {}, "Choose a token: click one below or in the strip above, or ", h("button.link", { type: "button", onclick: () => lmscope.attention.token(head.names.length - 1) }, "start with the last one"), ".");
    target.replaceChildren(...[teach, ...blocks.map(([heading, values]) => h("section.shaded", {}, h("h3.small-title", {}, heading), shaded(head, view, values, side), values ? strongestIn(head, values, side) : null))].filter(Boolean));
  }

  function shaded(head, view, values, side) {
    const { h } = lmscope.dom;
    const most = values ? Math.max(1e-12, ...values.map((value) => (Number.isFinite(value) ? Math.abs(value) : 0))) : 1;
    const share = (value) => (view.focus.scale === "log" && side !== "difference" ? Math.max(0, lmscope.colours.placed(value / most, "log")) : Math.abs(value) / most);
    return h("p.shaded-text", {}, head.tokens.map((each, position) => {
      const value = values ? values[position] : 0;
      const strength = Number.isFinite(value) ? share(value) : 0;
      const word = h("span.shaded-token", {
        style: "--strength:" + strength.toFixed(3), "data-sign": side === "difference" ? (value < 0 ? "less" : "more") : null, "data-role": each.role,
        "data-focus": position === view.focus.token ? "yes" : null,
        title: position + " " + head.names[position] + (values ? ": " + lmscope.numbers.exact(value, head.answer.conditions, side === "difference") : ""),
        onclick: () => lmscope.attention.token(position),
      }, each.part > 1 ? "◌" : each.piece === "" ? "∅" : each.piece.replace(/\n/g, "⏎\n"));
      return word;
    }));
  }

  function strongestIn(head, values, side) {
    const { h } = lmscope.dom;
    const order = Array.from(values.keys()).filter((i) => Number.isFinite(values[i]) && values[i] !== 0).sort((a, b) => Math.abs(values[b]) - Math.abs(values[a])).slice(0, 5);
    const say = (i) => head.names[i] + " (" + i + ") " + lmscope.numbers.exact(values[i], head.answer.conditions, side === "difference");
    return h("p.readout", {}, order.length ? "Strongest: " + order.map(say).join(", ") + "." : "Nothing.");
  }

  // ------------------------------------------------------------------ table

  let sorting = { column: "position", down: false };
  let shownRows = ROWS_AT_ONCE;

  /** Columns and rows of the table, as plain values: the table, the CSV and a screen reader get the same. */
  function tableOf(head, view) {
    const sideName = head.sides[view.focus.side] ? view.focus.side : "edited";
    const side = head.sides[sideName];
    const { token } = view.focus;
    const row = through(head, sideName, token, false);
    const column = through(head, sideName, token, true);
    const columns = [{ name: "position", label: "#" }, { name: "token", label: "Token" }];
    if (side.entropy) columns.push({ name: "entropy", label: "Entropy, nats", unit: "nats" });
    columns.push({ name: "uniform", label: "ln n", unit: "nats" }, { name: "keys", label: "n keys" });
    for (let i = 0; i < side.n; i++) columns.push({ name: "key" + i, label: ["Strongest", "Second", "Third"][i] || "No. " + (i + 1), word: true }, { name: "weight" + i, label: "weight", unit: "probability" });
    columns.push({ name: "undrawn", label: "The rest", unit: "probability" });
    if (row) columns.push({ name: "looksAt", label: "Looked at by " + head.names[token] + " (" + token + ")", unit: "probability" });
    if (column) columns.push({ name: "lookedAtBy", label: "Looks at " + head.names[token] + " (" + token + ")", unit: "probability" });
    const rows = head.names.map((name, position) => {
      const made = { position, token: name, uniform: head.uniform[position], keys: head.visible[position], undrawn: side.undrawn[position] };
      if (side.entropy) made.entropy = side.entropy[position];
      for (let i = 0; i < side.n; i++) {
        const key = side.strongest[position * side.n + i];
        made["key" + i] = key < 0 ? "" : head.names[key] + " (" + key + ")";
        made["weight" + i] = key < 0 ? NaN : side.weights[position * side.n + i];
      }
      if (row) made.looksAt = row[position];
      if (column) made.lookedAtBy = column[position];
      return made;
    });
    return { columns, rows, signed: sideName === "difference" };
  }

  function sorted(rows) {
    const { column, down } = sorting;
    const weight = (value) => (typeof value === "number" && !Number.isFinite(value) ? null : value);
    return [...rows].sort((a, b) => {
      const [x, y] = [weight(a[column]), weight(b[column])];
      if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1; // undefined stays last
      const order = typeof x === "string" ? x.localeCompare(y) : x - y;
      return (down ? -order : order) || a.position - b.position;
    });
  }

  function table(head, view) {
    const { h } = lmscope.dom;
    const { columns, rows, signed } = tableOf(head, view);
    if (!columns.some((each) => each.name === sorting.column)) sorting = { column: "position", down: false };
    const again = () => table(head, view);
    const heads = columns.map((each) => {
      const mine = sorting.column === each.name;
      return h("th", { scope: "col", "aria-sort": mine ? (sorting.down ? "descending" : "ascending") : "none", class: each.unit || each.name === "position" || each.name === "keys" ? "number" : null },
        h("button.quiet", { type: "button", onclick: () => { sorting = { column: each.name, down: mine ? !sorting.down : Boolean(each.unit) }; again(); place("head-table").querySelector('th[aria-sort]:not([aria-sort="none"]) button').focus(); } }, each.label, h("span.sort-mark", { "aria-hidden": "true" }, mine ? (sorting.down ? " ▾" : " ▴") : "")));
    });
    const cell = (each, row) => {
      const value = row[each.name];
      if (each.name === "token") return h("th", { scope: "row" }, h("button.link", { type: "button", onclick: () => lmscope.attention.token(row.position) }, value));
      if (each.unit) return h("td.number", {}, lmscope.numbers.fixed(value, each.unit, head.answer.conditions, signed && each.unit === "probability"));
      return h(each.word ? "td" : "td.number", {}, String(value));
    };
    const all = sorted(rows);
    const body = all.slice(0, shownRows).map((row) => h("tr", { "data-focus": row.position === view.focus.token ? "yes" : null }, columns.map((each) => cell(each, row))));
    const more = all.length > shownRows ? h("button", { type: "button", onclick: () => { shownRows += ROWS_AT_ONCE; again(); } }, "Show " + Math.min(ROWS_AT_ONCE, all.length - shownRows) + " more of " + all.length + " tokens") : null;
    place("head-table").replaceChildren(h("div.table-scroller", { tabindex: "0", role: "region", "aria-label": "Table of " + title(head.answer.heads) },
      h("table.numbers", {}, h("caption.unseen", {}, title(head.answer.heads) + ": entropy and strongest keys of every token"), h("thead", {}, h("tr", {}, heads)), h("tbody", {}, body))), more || "");
  }

  lmscope.head = { opened, title, statistics, map, lines, text, table, tableOf, through, meanOver, wholeMap };
})();
