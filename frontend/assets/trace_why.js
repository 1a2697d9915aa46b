/* Why this word: what every part writes towards it, directly, and beside that what the part's removal does. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const trace = lmscope.trace;
  const { place, wordOf } = trace;
  const focus = (patch) => lmscope.panel.focus(patch);
  const VALUES = 20, SHOWN = 24;
  const KINDS = { layers: ["attention", "feed_forward"], heads: ["heads"], values: ["units"] };
  const SOURCE = "Direct contributions: Elhage et al. 2021; nostalgebraist 2020. Removing by zero and by mean are different experiments: Li & Janson 2024.";
  let asked = null;
  let have = null; // {answer, rows, all, jobs, turn, key}
  let current = null; // key of what is measured now
  let order = "direct";
  let whole = false; // all rows instead of the largest
  let ticks = 0;
  let picked = null; // name of the part that was pointed at
  let drawn = null;
  let pair = null;
  let fields = {};
  const measuring = trace.jobs.measurer({ start: "why-effects-ask", stop: "why-stop", fetch: () => { ticks += 1; trace.again(); }, now: () => current });

  // ------------------------------------------------------------------ questions

  const data = (view) => ({ view: lmscope.panel.question(view), explain: trace.explain.ask(view), values: VALUES });
  const fresh = () => (have && have.turn === trace.turn() ? have : null);

  /** Why the model does not offer contributions, or effects; null where it does. */
  function refusal(view, instrument = "contributions") {
    const ability = trace.abilityOf(view, instrument);
    return ability && !ability.can ? ability.why : null;
  }

  /** What would be measured: it names the jobs. */
  function effects(view) {
    const base = { view: lmscope.panel.question(view), explain: trace.explain.ask(view), removal: view.focus.removal, set: view.focus.removal === "mean" ? view.focus.set : null };
    const units = view.focus.parts === "values" && fresh() ? fresh().answer.edited.units : [];
    return KINDS[view.focus.parts].map((parts) => ({ ...base, parts, units: parts === "units" ? units : [] }));
  }

  const keyOf = (view) => JSON.stringify(effects(view).map(({ view: _, ...rest }) => [trace.question(), rest]));

  function ask(view) {
    if (!trace.lens.fresh() || refusal(view)) return;
    const key = keyOf(view);
    if (key !== current) {
      if (current !== null) measuring.leave(current);
      current = key;
      order = measuring.isDone(key) ? order : "direct";
    }
    const mine = measuring.of(key);
    const side = trace.compared(view) && view.focus.side === "unedited" ? "unedited" : "edited";
    const next = { ask: data(view), drawn: { parts: view.focus.parts, order, most: whole ? null : SHOWN, side, jobs: mine ? mine.jobs : {} }, ticks };
    const text = JSON.stringify(next);
    if (text === asked) return;
    asked = text;
    trace.setProps("why-ask", { data: { ...next, turn: trace.turn(), key } });
  }

  function receive(given) {
    if (!given || !trace.isOpen() || given.turn !== trace.turn()) return;
    have = given;
    trace.learn(given.answer.words);
    measuring.told(given.key, given.jobs);
    trace.again();
  }

  // ------------------------------------------------------------------ drawing

  function draw(view) {
    fields.parts.show(view.focus.parts);
    fields.removal.show(view.focus.removal);
    place("why-set").hidden = view.focus.removal !== "mean";
    place("why-set-choice").value = view.focus.set || "";
    if (!trace.lens.fresh()) return;
    pair.show(view);
    const why = refusal(view);
    place("why-body").hidden = Boolean(why);
    place("why-refused").textContent = why ? lmscope.dom.sentence(why) : "";
    if (why || !fresh()) return;
    const state = JSON.stringify([have.key, have.rows, have.jobs, current, order, whole, picked, view.edits, measuring.isLive(current), trace.explain.pair(view)]);
    if (state === drawn) return;
    drawn = state;
    place("why-title").textContent = "Why " + trace.explain.words(have.answer.explained) + "?";
    place("why-sum").replaceChildren(...sums());
    controls(view);
    table();
    chosen(view);
  }

  function sums() {
    const { h } = lmscope.dom;
    const { explained, edited, unedited, conditions } = have.answer;
    const said = (value) => trace.signed(value, conditions);
    const rest = explained.against === "rest";
    const facts = [
      [rest ? "logit over the mean of the rest" : "logit difference", said(explained.logits) + (unedited ? " edited, " + said(unedited.logits) + " unedited" : "")],
      ["probability", "“" + wordOf(explained.target) + "” " + trace.share(explained.probability, conditions) + (explained.foil === null ? "" : ", “" + wordOf(explained.foil) + "” " + trace.share(explained.foil_probability, conditions))],
      ["sum of all parts", said(edited.logits) + " · off by " + lmscope.numbers.exact(edited.sum_error, conditions)],
    ];
    return [lmscope.info.facts(facts), ...trace.notices(have.answer).map((text) => h("p.note", {}, text))];
  }

  function controls(view) {
    const { h } = lmscope.dom;
    const [live, done] = [measuring.isLive(current), measuring.isDone(current)];
    const measured = have.key === current ? have.all.filter((row) => row.effect !== null).length : 0;
    const parts = [];
    if (live) parts.push(trace.jobs.progress(measuring, current, () => measuring.end(current)));
    else if (refusal(view, "effects")) parts.push(h("span.note", {}, "Effects cannot be measured here: " + refusal(view, "effects")));
    else if (!done) parts.push(h("button.why-measure", { type: "button", onclick: () => (measuring.begin(current, effects(view)), trace.again()) }, "Measure the effect of each"));
    if (done || (!live && measured)) parts.push(h("button", { type: "button", id: "why-sort", onclick: () => { order = order === "direct" ? "effect" : "direct"; trace.again(); } }, order === "direct" ? "Sort by measured effect" : "Sort by direct contribution"));
    if (have.all.length > SHOWN) parts.push(h("button.link", { type: "button", onclick: () => { whole = !whole; trace.again(); } }, whole ? "Show the " + SHOWN + " largest" : "Show all " + have.all.length));
    for (const text of trace.jobs.endings(measuring, current)) parts.push(h("span.note", {}, text));
    const signs = have.all.filter((row) => row.effect !== null && row.direct !== null);
    const apart = signs.filter((row) => row.disagrees).length;
    if (measured && signs.length) parts.push(h("span.note", {}, apart ? apart + " of " + signs.length + " measured parts do the opposite of what they write directly (hatched)." : "No measured part does the opposite of what it writes directly."));
    const had = place("why-tools-row").contains(document.activeElement);
    place("why-tools-row").replaceChildren(...parts);
    if (had) place("why-tools-row").querySelector("button")?.focus();
  }

  function table() {
    const { h } = lmscope.dom;
    const number = (value) => h("td.number", {}, value === null ? "–" : trace.signed(value, have.answer.conditions));
    const line = (row) => h("tr", { "data-focus": row.name === picked ? "yes" : null },
      h("th", { scope: "row" }, h("button.link", { type: "button", onclick: () => choose(row.name) }, row.name)), number(row.direct), number(row.effect), h("td", {}, row.disagrees ? h("strong", {}, "opposite") : row.effect === null ? "" : row.disagrees === false ? "same" : ""));
    const head = [["part"], ["direct", "number"], ["measured", "number"], ["signs"]].map(([name, kind]) => h("th" + (kind ? "." + kind : ""), { scope: "col" }, name));
    const body = place("why-table");
    const [at, had] = [body.scrollTop, body.contains(document.activeElement) ? document.activeElement.textContent : null];
    body.replaceChildren(h("table.numbers", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, have.rows.map(line))));
    body.scrollTop = at;
    if (had) [...body.querySelectorAll("button")].find((each) => each.textContent === had)?.focus({ preventScroll: true });
  }

  const choose = (name) => { picked = picked === name ? null : name; trace.again(); };

  /** The part that was pointed at, and what can be done with it. */
  function chosen() {
    const { h } = lmscope.dom;
    const row = have.rows.find((each) => each.name === picked);
    if (!row) return place("why-chosen").replaceChildren(h("p.hint", {}, "Click a bar or a name to open the part or to switch it off."));
    const acts = [];
    const act = (label, run) => acts.push(h("button", { type: "button", onclick: run }, label));
    const off = (edit) => act("Switch off", () => lmscope.edits.add({ at: "all", on: true, layer: row.layer, ...edit }));
    if (row.kind === "heads") {
      off({ kind: "head.scale", head: row.index, by: 0 });
      act("Open its attention", () => lmscope.view.go("attention", { focus: { heads: [{ layer: row.layer, head: row.index }] } }));
    } else if (row.kind === "units") {
      off({ kind: "ffn.set", unit: row.index, to: 0 });
      act("Open the value", () => trace.values.open(row.layer, row.index));
    } else if (row.layer !== null) {
      if (row.kind === "feed_forward") off({ kind: "ffn_out.set", to: 0 });
      act("Open the cell after it", () => trace.lens.open(have.answer.explained.token, row.layer + 1));
    }
    return place("why-chosen").replaceChildren(h("strong", {}, row.name), ...acts);
  }

  // ------------------------------------------------------------------ controls, taking away

  function start() {
    const { h, icon } = lmscope.dom;
    pair = trace.explain.selects();
    fields = {
      parts: lmscope.panel.segmented("why-parts", "Parts", [["layers", "Layers"], ["heads", "Heads"], ["values", "Values"]], (parts) => { picked = null; whole = false; focus({ parts }); }),
      removal: lmscope.panel.segmented("why-removal", "Remove by", [["zero", "Zero", "The part’s output becomes 0"], ["mean", "Mean", "The part’s output becomes its mean over a prompt set: another experiment than zero"]], (removal) => focus({ removal })),
    };
    const set = h("select", { id: "why-set-choice", onchange: () => focus({ set: set.value || null }) }, h("option", { value: "" }, "the set that comes with LMScope"));
    place("why-controls").replaceChildren(...pair.elements, fields.parts.element, fields.removal.element, h("label.field", { id: "why-set", hidden: true }, h("span", {}, "over"), set));
    place("why-tools").replaceChildren(
      lmscope.info.menu(icon("download"), "Download the contributions", () => [["PNG", () => lmscope.download.plot("why-figure", "png", trace.fileName("why"))], ["SVG", () => lmscope.download.plot("why-figure", "svg", trace.fileName("why"))], ["CSV of all parts", csv], ["JSON of the answer", () => fresh() && lmscope.download.json(trace.fileName("why") + ".json", { contributions: have.answer, effects: Object.fromEntries(Object.entries(have.jobs).map(([kind, job]) => [kind, job.result || job.partial])) })]]),
      h("button.quiet", { type: "button", title: "Copy as Python: the client’s calls", "aria-label": "Copy the contributions as Python", onclick: () => fresh() && trace.code({ contributions: [data(lmscope.view.get())], effects: effects(lmscope.view.get()) }) }, icon("copy")),
      lmscope.info.button("why this word", about));
    trace.setProps("why-sets-ask", { data: Date.now() });
  }

  /** The prompt sets of this server. They may come before a link is opened: draw() chooses among them. */
  function sets(given) {
    const { h } = lmscope.dom;
    const choice = place("why-set-choice");
    if (!given || !choice) return;
    const chosen = lmscope.view.get()?.focus.set || "";
    const named = given.map((set) => h("option", { value: set.ours ? "" : set.id }, set.name + " (" + set.texts + " texts)"));
    choice.replaceChildren(...(given.some((set) => set.ours) ? [] : [h("option", { value: "" }, "the set that comes with LMScope")]), ...named);
    choice.value = chosen;
  }

  function csv() {
    if (!fresh()) return;
    lmscope.download.csv(trace.fileName("why") + ".csv", [["part", "kind", "layer", "index", "direct (logits)", "effect (logits)", "opposite signs"], ...have.all.map((row) => [row.name, row.kind, row.layer, row.index, row.direct, row.effect, row.disagrees === null ? "" : String(row.disagrees)])]);
  }

  const about = () => ({
    title: "Why this word", unit: "logits", source: SOURCE, conditions: fresh() && have.answer.conditions,
    definition: [
      fresh() ? have.answer.about : "What each part writes towards target minus foil.",
      "Direct: what the part itself adds to the logit difference, the final norm frozen at this run and its gain folded in. It leaves out what later parts make of it. In middle layers it may have the wrong sign.",
      "Measured: the logit difference with the part minus without it, one run each, all in batches. " + (lmscope.view.get().focus.removal === "zero" ? "Without means that the part’s output is 0." : "Without means that the part’s output is its mean over the prompt set."),
      "A hatched bar: the two have different signs, and neither is within the noise. Rows keep their places while they are measured.",
    ],
  });

  trace.why = { answer: () => fresh() && have.answer, rows: () => fresh() && have.rows, isDone: () => measuring.isDone(current) };
  trace.join({
    start, ask, draw,
    anew: () => { asked = drawn = null; },
    retry: () => {
      if (place("why-notice").firstElementChild && !lmscope.busy.isOut("why-answer.")) asked = null;
      if (place("why-effects-notice").firstElementChild && !lmscope.busy.isOut("why-began.")) measuring.refused();
    },
    leave: () => {
      if (current !== null) measuring.leave(current);
      have = current = picked = null;
    },
  });

  Object.assign(window.dash_clientside.trace, {
    why: receive, began: (data) => measuring.began(data), sets,
    whyPicked: (event) => { const point = event && event.points && event.points[0]; if (point) choose(point.y.replace(/\u200b/g, "")); },
  });
})();
