/* The heads page: what the view says becomes a question, its answer a table; a dot or a name opens its head. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const place = (id) => document.getElementById(id);
  let printed = { statistics: {} };
  let unsubscribe = null;
  let asked = null;
  let answer = null; // as it came
  let tabled = null; // what the table shows, so that a change of colour does not fill it again
  const { set_props: setProps } = { set_props: (id, props) => window.dash_clientside.set_props(id, props) };

  function start(_page, given) {
    if (unsubscribe) unsubscribe();
    printed = given;
    asked = answer = tabled = null;
    controls();
    lmscope.headsWeights.start(fill);
    lmscope.panel.measure();
    unsubscribe = lmscope.view.subscribe((view) => (lmscope.view.isAt("heads-page") ? look(view) : leave()));
    return true;
  }

  function leave() {
    if (unsubscribe) unsubscribe();
    unsubscribe = null;
  }

  function look(view) {
    sync(view);
    lmscope.headsWeights.look();
    if (lmscope.view.isHeld()) return;
    const data = {
      view: lmscope.panel.question(view), heads: view.focus.heads, statistic: view.focus.colour, normalised: view.focus.normalised, side: view.compare ? view.focus.side : "edited",
    };
    const text = JSON.stringify(data);
    if (text === asked) return;
    asked = text;
    setProps("heads-ask", { data });
  }

  // ------------------------------------------------------------------ controls

  let fields = {};

  function controls() {
    const { h } = lmscope.dom;
    const { segmented, select, check, focus, reading } = lmscope.panel;
    fields = {
      statistic: select("heads-statistic", "Statistic", Object.entries(printed.statistics), (colour) => focus({ colour, low: null, high: null })),
      normalised: segmented("heads-normalised", "Entropy", [["no", "Nats", "Raw entropy: for a causal model the rows have different maxima"], ["yes", "Normalised", "Each row's entropy divided by ln n of the keys it may see"]], (value) => focus({ normalised: value === "yes" })),
      rows: segmented("heads-rows", "Rows", lmscope.panel.ROWS, (rows) => reading({ rows })),
      first: check("Without the first token", lmscope.panel.FIRST, lmscope.panel.withoutFirst),
      definitions: segmented("heads-definitions", "Definitions", lmscope.panel.DEFINITIONS, lmscope.panel.definitions),
    };
    place("heads-reading").replaceChildren(h("span.side-place", { id: "heads-side" }), ...Object.values(fields).map((field) => field.element));
    place("heads-tools").replaceChildren(
      lmscope.info.menu(lmscope.dom.icon("download"), "Download the figure", () => [["PNG", () => picture("png")], ["SVG", () => picture("svg")], ["CSV of all statistics", all], ["JSON of the answer", () => answer && lmscope.download.json(fileName() + ".json", answer)]]),
      h("button.quiet", { type: "button", title: "Copy as Python: the client's call, and a script with plain transformers", "aria-label": "Copy as Python", onclick: askCode }, lmscope.dom.icon("copy")),
      lmscope.info.button("the heads", about));
    place("table-tools").replaceChildren(lmscope.info.menu(lmscope.dom.icon("download"), "Download the table", () => [["CSV as shown", () => setProps("heads-table", { csvExportParams: { fileName: fileName() + "-shown.csv" }, exportDataAsCsv: true })], ["CSV of everything", all], ...(lmscope.headsWeights.found() ? [["JSON of the weights' columns", () => lmscope.download.json(fileName() + "-weights.json", lmscope.headsWeights.found())]] : [])]));
  }

  function sync(view) {
    fields.statistic.show(view.focus.colour);
    fields.normalised.show(view.focus.normalised ? "yes" : "no");
    fields.normalised.element.disabled = view.focus.colour !== "entropy";
    fields.rows.show(view.reading.rows);
    fields.first.show(view.reading.without_first);
    fields.definitions.show(view.reading.definitions);
    lmscope.panel.sidesOfAttention(place("heads-side"), view);
  }

  // ------------------------------------------------------------------ the answer

  function receive(data) {
    if (!data || !unsubscribe) return;
    answer = data;
    const count = data.layers.length * data.heads;
    const chosen = data.edited.find((each) => each.name === lmscope.view.get().focus.colour);
    place("heads-title").textContent = (chosen ? chosen.label : "Statistic") + " of " + count + " heads by layer";
    place("heads-note").textContent = [
      chosen ? chosen.definition : "", data.rows_used + " of " + data.tokens + " rows averaged, " + data.rows_left_out + " left out.",
      data.reading.without_first ? "Without the first token: rows renormalised, baseline ln(n−1)." : "", data.reading.definitions === "clark" ? "Definitions of Clark et al. 2019." : "", ...lmscope.panel.notices(data),
    ].filter(Boolean).join(" ");
    const text = JSON.stringify(data.edited.map((each) => each.value.bdata)) + Boolean(data.difference);
    if (text === tabled) return;
    tabled = text;
    place("heads-count").textContent = count + " heads, every statistic";
    fill();
  }

  /** The table from what is there: the text's statistics, and what is known of the weights. */
  function fill() {
    if (answer) setProps("heads-table", { columnDefs: columns(answer), rowData: rows(answer) });
  }

  /** A statistic is a group of columns: value beside uniform, and the comparison where there is one. */
  function columns(data) {
    const number = (field, name, unit, signed, describe) => ({
      field, headerName: name, headerTooltip: describe, type: "rightAligned", width: 104, filter: "agNumberColumnFilter",
      valueFormatter: { function: "lmscopeHeads.printed(params.value, '" + unit + "', " + Boolean(signed) + ")" },
    });
    const named = [
      { field: "name", headerName: "head", pinned: "left", width: 84, cellClass: "head-link", comparator: { function: "lmscopeHeads.byName" }, filter: "agTextColumnFilter" },
      { field: "layer", headerName: "layer", type: "rightAligned", width: 78, filter: "agNumberColumnFilter" },
    ];
    const groups = data.edited.map(({ name, label, unit, definition }) => ({
      headerName: label + (unit === "share" ? "" : ", " + unit), headerTooltip: definition, marryChildren: true,
      children: [
        number(name, data.unedited ? "edited" : "value", unit, false, definition), number(name + " uniform", "uniform", unit, false, "Under uniform attention over the same visible keys"),
        ...(data.unedited ? [number(name + " unedited", "unedited", unit)] : []), ...(data.difference ? [number(name + " change", "change", unit, true)] : []),
      ],
    }));
    return [...named, ...groups, ...lmscope.headsWeights.columns()];
  }

  const plain = (value) => (Number.isFinite(value) ? value : null);

  function rows(data) {
    const { numbers } = lmscope.dom;
    const opened = (list) => new Map((list || []).map((each) => [each.name, numbers(each.value)]));
    const sides = { " unedited": opened(data.unedited), " change": opened(data.difference) };
    const edited = data.edited.map((each) => ({ name: each.name, value: numbers(each.value), uniform: numbers(each.uniform) }));
    const weights = lmscope.headsWeights.values();
    return data.layers.flatMap((layer, row) => Array.from({ length: data.heads }, (_, head) => {
      const index = row * data.heads + head;
      const made = { name: layer + "." + head, layer, head, ...weights(layer, head) };
      for (const each of edited) {
        made[each.name] = plain(each.value[index]);
        made[each.name + " uniform"] = plain(each.uniform[index]);
        for (const [ending, side] of Object.entries(sides)) if (side.has(each.name)) made[each.name + ending] = plain(side.get(each.name)[index]);
      }
      return made;
    }));
  }

  const openHead = (layer, head) => lmscope.view.go("attention", { focus: { heads: [{ layer, head }], region: null } });

  /** A dot was clicked. */
  function picked(event) {
    const point = event && event.points && event.points.find((each) => Array.isArray(each.customdata));
    if (point) openHead(point.customdata[0], point.customdata[1]);
  }

  // ------------------------------------------------------------------ taking away

  const fileName = () => lmscope.download.named("lmscope", lmscope.view.get().model, "statistics");
  const picture = (kind) => lmscope.download.plot("heads-figure", kind, lmscope.download.named("lmscope", lmscope.view.get().model, lmscope.view.get().focus.colour, "by-layer"));

  function all() {
    if (!answer) return lmscope.dom.announce("The answer is not here yet");
    const { numbers } = lmscope.dom;
    const each = answer.edited.map((one) => ({ ...one, value: numbers(one.value), uniform: numbers(one.uniform), rows: numbers(one.rows) }));
    lmscope.download.csv(fileName() + ".csv", lmscope.download.statisticRows(answer, each));
  }

  function askCode() {
    if (asked === null) return lmscope.dom.announce("The answer is not here yet");
    setProps("heads-code-ask", { data: { ...JSON.parse(asked), origin: lmscope.info.server(), asked: Date.now() } });
  }

  function about() {
    const name = lmscope.view.get().focus.colour;
    const chosen = answer && answer.edited.find((each) => each.name === name);
    return {
      title: "Heads by layer", unit: chosen ? chosen.unit : "", source: lmscope.panel.SOURCE, conditions: answer && answer.conditions,
      definition: [
        ...(chosen ? [chosen.label + ": " + chosen.definition] : []),
        "Each dot is one head, averaged over the rows used; dots of a layer are spread so that none is hidden. The line is the mean of each layer, the dashed line the value under uniform attention: the mean of ln n over the same rows, which for a causal model is not ln T.",
        "Normalised: H divided by ln n of each row, over rows with n ≥ 2, so that rows of different length can be compared.",
        ...lmscope.headsWeights.abouts(),
      ],
    };
  }

  lmscope.heads = { columns, rows, answer: () => answer };

  // Functions that the table's own options call by name.
  const functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  functions.lmscopeHeads = {
    printed: (value, unit, signed) => lmscope.numbers.fixed(value === null ? NaN : value, unit, answer && answer.conditions, signed),
    weight: (value) => lmscope.headsWeights.printed(value),
    byName: (a, b) => {
      const [x, y] = [a, b].map((name) => name.split(".").map(Number));
      return x[0] - y[0] || x[1] - y[1];
    },
    clicked: (params) => params.column.getColId() === "name" && openHead(params.data.layer, params.data.head),
    keyed: (params) => params.event.key === "Enter" && openHead(params.data.layer, params.data.head),
    counted: (params) => {
      const all = answer ? answer.layers.length * answer.heads : 0;
      const shown = params.api.getDisplayedRowCount();
      place("heads-count").textContent = shown === all ? all + " heads, every statistic" : shown + " of " + all + " heads";
    },
  };

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    heads: { start, answer: receive, code: (texts) => texts && lmscope.info.code(texts), picked },
  });
})();
