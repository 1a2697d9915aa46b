/* Around the head grid: its controls, legend, hover card, explanation and downloads. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const place = (id) => document.getElementById(id);
  const focus = (patch) => lmscope.panel.focus(patch);

  const fileName = (...words) => lmscope.download.named("lmscope", lmscope.view.get().model, ...words);

  function controls(fields) {
    const { grid } = lmscope.attention.page;
    const { h } = lmscope.dom;
    const jump = h("input", { type: "text", id: "grid-jump", size: "5", placeholder: "5.3", autocomplete: "off", "aria-describedby": "grid-jump-problem" });
    jump.addEventListener("keydown", (event) => event.key === "Enter" && jumpTo(jump));
    jump.addEventListener("input", () => jumped(jump, ""));
    jump.addEventListener("blur", () => jumped(jump, ""));
    const zoom = (label, text, step) => h("button.quiet", { type: "button", "aria-label": label, title: label, onclick: () => grid.zoom(step) }, text);
    place("grid-controls").replaceChildren(
      fields.colour.element, fields.sort.element,
      h("fieldset.range", {}, h("legend", {}, "Range"), bound("low", "from"), h("span", { "aria-hidden": "true" }, "–"), bound("high", "to")),
      h("span.jump", {}, h("label.field", {}, h("span", {}, "Go to"), jump), h("span.problem", { id: "grid-jump-problem", role: "alert" })),
      h("span.zoom", { role: "group", "aria-label": "Size of the pictures" }, zoom("Smaller", "−", -1), zoom("Fit the width", "fit", 0), zoom("Larger", "+", 1)));
    place("grid-tools").replaceChildren(
      lmscope.info.menu(lmscope.dom.icon("download"), "Download the grid", () => [["PNG", () => file("png")], ["CSV of all statistics", () => file("csv")], ["JSON of the answer", () => file("json")]]),
      lmscope.info.button("the grid", about));
  }

  const bounds = {};

  function bound(name, label) {
    const { h } = lmscope.dom;
    const input = h("input", { type: "number", step: "any", "aria-label": "Range " + label, onchange: () => focus({ [name]: input.value.trim() === "" || !Number.isFinite(Number(input.value)) ? null : Number(input.value) }) });
    bounds[name] = input;
    return input;
  }

  function jumped(input, wrong) {
    place("grid-jump-problem").textContent = wrong;
    input.setAttribute("aria-invalid", String(Boolean(wrong)));
  }

  function jumpTo(input) {
    const { grid, overview } = lmscope.attention.page;
    const match = /^\s*L?(\d+)\s*[.,:H ]\s*(\d+)\s*$/i.exec(input.value);
    const layers = overview ? overview.layers : [];
    let wrong = "";
    if (!match) wrong = "Type layer.head, such as 5.3.";
    else if (!overview) wrong = "The grid is not here yet.";
    else if (!layers.includes(Number(match[1]))) wrong = "This model has layers " + layers[0] + "–" + layers[layers.length - 1] + ".";
    else if (Number(match[2]) >= overview.heads) wrong = "This model has heads 0–" + (overview.heads - 1) + ".";
    jumped(input, wrong);
    if (wrong) return;
    focus({ heads: [{ layer: Number(match[1]), head: Number(match[2]) }] });
    grid.scroller.focus();
  }

  /** The two numbers of the range show what the view says. */
  function syncRange(now) {
    for (const name of ["low", "high"]) if (document.activeElement !== bounds[name]) bounds[name].value = now[name] === null ? "" : String(now[name]);
  }

  function legend(view) {
    const { grid, overview } = lmscope.attention.page;
    const { h } = lmscope.dom;
    const { numbers, colours } = lmscope;
    if (!overview || !grid.place) return;
    const side = grid.side();
    const signed = side === "difference";
    const statistic = grid.statistic();
    const extent = lmscope.grid.extentOf(overview, side, view.focus.colour);
    const most = signed ? Math.max(127 * overview.sides.difference.step, overview.noise) : 1;
    const scale = signed ? [numbers.exact(-most, overview.conditions), "0", numbers.exact(most, overview.conditions, true)] : view.focus.scale === "log" ? ["≤ 0.0001", "0.001", "0.01", "0.1", "1"] : ["0", "0.25", "0.5", "0.75", "1"];
    const number = (value) => numbers.fixed(value, statistic.unit, overview.conditions, signed);
    const uniform = lmscope.head.meanOver(grid, signed ? "edited" : side, view.focus.colour, allHeads(overview), "uniform");
    const inside = overview.layers.length * overview.heads;
    const shown = grid.focus.low === null && grid.focus.high === null ? inside : Array.from({ length: inside }, (_, i) => i).filter((i) => grid.inRange(i)).length;
    const notes = [
      overview.rows_used + " of " + overview.tokens + " rows averaged" + (overview.rows_left_out ? " (" + overview.rows_left_out + " left out)" : ""),
      overview.pooled ? "pictures show the " + overview.reading.pool + " of several pairs a cell" : "one cell is one pair of tokens",
      overview.reading.without_first ? "without the first token, rows renormalised, baseline ln(n−1)" : null,
      overview.reading.definitions === "clark" ? "definitions of Clark et al. 2019" : null,
      overview.kv_heads < overview.heads ? "brackets: query heads that share keys and values" : null,
      ...lmscope.panel.notices(overview),
    ];
    place("grid-title").textContent = inside + " heads";
    place("attention-page").dataset.wide = overview.heads > 16 ? "yes" : "no";
    place("grid-legend").replaceChildren(
      h("div.scale", {}, h("span.scale-name", {}, signed ? "edited − unedited" : "attention"), h("span.scale-bar", { style: "background:" + colours.gradient(signed) }), h("span.scale-ticks", {}, scale.map((tick) => h("span", {}, tick)))),
      h("div.scale", {}, h("span.scale-name", {}, statistic.label + (statistic.unit === "share" ? "" : ", " + statistic.unit)), h("span.scale-bar", { style: "background:" + colours.gradient(signed) }),
        h("span.scale-ticks", {}, extent ? [h("span", {}, number(extent.low)), h("span", {}, signed ? "" : "uniform " + numbers.fixed(uniform, statistic.unit, overview.conditions)), h("span", {}, number(extent.high))] : h("span", {}, "n/a"))),
      h("p.note", { role: "status" }, shown < inside ? h("strong", {}, shown + " of " + inside + " heads in range" + (view.focus.sort ? ", the others are hidden. " : ", the others are dimmed. ")) : "", notes.filter(Boolean).join(" · ").replace(/\.*$/, ".")));
    for (const [name, value] of [["low", extent && extent.low], ["high", extent && extent.high]]) bounds[name].placeholder = value === null ? "" : number(value);
  }

  const allHeads = (overview) => overview.layers.flatMap((layer) => Array.from({ length: overview.heads }, (_, head) => ({ layer, head })));

  /** All statistics of the head under the pointer, beside their uniform values. */
  function card(index, box) {
    const { grid, overview } = lmscope.attention.page;
    const { h } = lmscope.dom;
    const old = place("head-card");
    if (index === null || index === undefined) return void (old && old.remove());
    const side = grid.side();
    const at = grid.headAt(index);
    const signed = side === "difference";
    const touched = grid.touched.get(lmscope.grid.named(at));
    const rows = Object.values(overview.sides[side].statistics).map((each) => h("tr", {}, h("th", { scope: "row" }, each.label), h("td", {}, lmscope.numbers.fixed(each.value[index], each.unit, overview.conditions, signed)), signed ? null : h("td", {}, lmscope.numbers.fixed(each.uniform[index], each.unit, overview.conditions)), h("td.unit", {}, each.unit)));
    const group = overview.kv_heads < overview.heads ? " · key/value head " + Math.floor(at.head / (overview.heads / overview.kv_heads)) : "";
    const made = h("div.head-card", { id: "head-card", role: "tooltip" }, h("strong", {}, lmscope.head.title([at]) + group), touched ? h("span.off-word", {}, " " + touched) : null,
      h("table", {}, h("thead", {}, h("tr", {}, h("td", {}), h("th", { scope: "col" }, signed ? "change" : "value"), signed ? null : h("th", { scope: "col" }, "uniform"), h("td", {}))), h("tbody", {}, rows)));
    if (old) old.replaceWith(made);
    else document.body.append(made);
    const own = made.getBoundingClientRect();
    const left = box.right + 10 + own.width < innerWidth ? box.right + 10 : Math.max(4, box.left - own.width - 10);
    made.style.left = left + "px";
    made.style.top = Math.max(4, Math.min(box.top - 10, innerHeight - own.height - 8)) + "px";
  }

  function about() {
    const { grid, overview } = lmscope.attention.page;
    const statistic = overview && grid.statistic();
    return {
      title: "The grid",
      definition: [
        "Every head of the model on this text: layers down, heads across, counted from 0. In each picture queries go down and keys across; all pictures share one colour scale. Bytes round(255·√p) travel; exact values come with the single head.",
        ...(statistic ? [statistic.label + ": " + statistic.definition] : []),
        "Rows: " + (overview && overview.reading.rows === "all" ? "all." : "only the text's own tokens; template, special tokens and row 0 are left out."),
        "Keys: arrows move, Enter opens, Shift+Enter or Space adds to the selection, + and − change the size, 0 fits it.",
        "The bar under a picture shows the chosen statistic, its notch the value under uniform attention over the same visible keys. n/a: not defined.",
      ],
      unit: statistic ? statistic.unit : "", source: lmscope.panel.SOURCE, conditions: overview && overview.conditions,
    };
  }

  function file(kind) {
    const { grid, overview, raw } = lmscope.attention.page;
    if (!overview) return lmscope.dom.announce("The grid is not here yet");
    const side = grid.side();
    if (kind === "png") return lmscope.download.canvas(fileName("heads", side) + ".png", grid.whole());
    if (kind === "json") return lmscope.download.json(fileName("heads") + ".json", raw);
    lmscope.download.csv(fileName("heads", side) + ".csv", lmscope.download.statisticRows(overview, Object.values(overview.sides[side].statistics)));
  }

  lmscope.gridPanel = { controls, syncRange, legend, card };
})();
