/* Feed-forward keys and values: units whose key and value share words, in a layer or layer by layer; one unit's ends. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const weights = lmscope.weights;
  const { place, focus, shape, headOf, read, fixed, file, there } = weights;
  const { few, notes, number, redraw, tools, word } = lmscope.panelParts;
  const ENDS = [["absolute", "moved most, either way"], ["promoted", "moved up most"], ["suppressed", "moved down most"]];
  const READS = { key: "Its key reads", gate: "Its gate reads", up: "Its up map reads" };
  const WORDS = 12; // of each end of the open unit
  const LIMIT = 100;
  const overlaps = weights.asking("weights-overlaps", { changed: () => (gather(), weights.again()) });
  const unit = weights.asking("weights-unit");
  let fields = {};
  let walk = null; // all layers one after the other: {key, left: [layer], answers: [answer], of, stopped}
  let drawn = null;
  let opened = null;

  const unitName = ({ layer, unit: index }) => "L" + layer + "U" + index;
  const blockOf = (view) => (view.focus.block === null ? headOf(view).layer : view.focus.block);
  const common = (view) => ({ model: view.model, revision: view.revision, ...read(view), end: view.focus.overlap_end, k: view.focus.overlap_k, least: view.focus.overlap_least, limit: LIMIT });

  // ------------------------------------------------------------------ questions

  /** A layer takes seconds, so it is compared when somebody has asked for it, and the link says that. */
  function ask(view) {
    if (view.focus.unit) unit.send({ model: view.model, revision: view.revision, layer: view.focus.unit.layer, unit: view.focus.unit.unit, top: WORDS, similar: 0, reading: view.focus.reads });
    if (walk && walk.key !== JSON.stringify(common(view))) walk = null;
    if (walk && walk.left.length) overlaps.send({ ...common(view), layer: walk.left[0] });
    else if (!walk && view.focus.block !== null) overlaps.send({ ...common(view), layer: view.focus.block });
  }

  /** One layer more of all of them. */
  function gather() {
    const answer = overlaps.answer();
    if (!walk || !answer || walk.left[0] !== answer.layer) return;
    walk.left.shift();
    walk.answers.push(answer);
  }

  function every() {
    const view = lmscope.view.get();
    const layers = Array.from({ length: shape(view).layers }, (_, layer) => layer);
    walk = { key: JSON.stringify(common(view)), left: layers, answers: [], of: layers.length, began: Date.now() };
    weights.again();
  }

  function halt() {
    walk.left = [];
    weights.again();
  }

  // ------------------------------------------------------------------ the form

  function start() {
    const { h } = lmscope.dom;
    overlaps.start();
    unit.start();
    walk = drawn = opened = null;
    fields = {
      block: number("weights-block", "Layer", { min: 0, step: 1 }, (block) => focus({ block })),
      overlap_end: lmscope.panel.select("weights-overlap-end", "Words", ENDS, (overlap_end) => focus({ overlap_end })),
      overlap_k: number("weights-overlap-k", "k", { min: 1, max: 1000, step: 1 }, (overlap_k) => focus({ overlap_k }), "How many words of each are compared"),
      overlap_least: number("weights-overlap-least", "at least", { min: 0, max: 1, step: "any" }, (overlap_least) => focus({ overlap_least }), "The smallest overlap (Jaccard) that is listed; the paper has 0.15"),
    };
    const name = h("input", { type: "text", id: "weights-unit-name", size: 9, maxlength: 20, placeholder: "L12U34", spellcheck: "false", autocomplete: "off", "aria-label": "Open a unit by name" });
    const says = h("span.says", { role: "alert" });
    const submit = (event) => {
      event.preventDefault();
      const found = /^L?(\d+)[UD.](\d+)$/i.exec(name.value.trim());
      says.textContent = found ? "" : "Write layer and unit, such as L12U34.";
      if (found) open({ layer: Number(found[1]), unit: Number(found[2]) });
    };
    place("weights-units-form").replaceChildren(...Object.values(fields).map((field) => field.element), h("span", { id: "weights-units-go" }), h("form.value-form", { onsubmit: submit }, name, h("button.link", { type: "submit" }, "Open a unit"), says));
    place("weights-units-tools").replaceChildren(...tools("the overlaps", () => [["CSV", csv], ["JSON of the answer", () => there(answers().length) && lmscope.download.json(file("overlaps") + ".json", answers())]], () => weights.code([["overlaps", { ...common(lmscope.view.get()), layer: blockOf(lmscope.view.get()) }]]), about));
  }

  const open = (one) => focus({ unit: one });

  function about() {
    const answer = answers()[0];
    return { title: "Feed-forward keys and values", unit: "the overlap is a share, from 0 to 1; words of a value: logits per unit of its coefficient (folded); of a key, gate or up projection: what it takes of a token, the divisor of the norm taken as 1 (folded); a dot product (raw)", source: "Dar et al. 2023, §4.2; Geva et al. 2021, “Transformer feed-forward layers are key-value memories”.", conditions: answer && answer.conditions, definition: ["The overlap of a unit is |both| / |either| of the k words of its key and the k words of its value (Jaccard).", ...(answer ? [answer.about] : [])] };
  }

  function csv() {
    if (!there(answers().length)) return;
    const read = (answer, ids) => ids.map((id) => answer.words[String(id)]).join(" | ");
    lmscope.download.csv(file("overlaps") + ".csv", [["unit", "overlap", "shared", "key highest", "key lowest", "value highest", "value lowest"], ...rowsOf().map(({ one, answer }) => [unitName(one.unit), one.jaccard, ...[one.shared, one.key.highest, one.key.lowest, one.value.highest, one.value.lowest].map((ids) => read(answer, ids))])]);
  }

  // ------------------------------------------------------------------ what stands there

  const answers = () => (walk ? walk.answers : overlaps.answer() ? [overlaps.answer()] : []);
  const rowsOf = () => answers().flatMap((answer) => answer.overlaps.map((one) => ({ one, answer }))).sort((a, b) => b.one.jaccard - a.one.jaccard || a.one.unit.layer - b.one.unit.layer).slice(0, 5 * LIMIT);

  function draw(view) {
    const sizes = shape(view);
    if (sizes) fields.block.input.max = sizes.layers - 1;
    fields.block.show(blockOf(view));
    for (const name of ["overlap_end", "overlap_k", "overlap_least"]) fields[name].show(view.focus[name]);
    drawUnit(view);
    const found = answers();
    const state = JSON.stringify([found.length, found[0] && found[0].layer, walk && walk.left.length, view.focus.block, view.focus.unit, view.model, overlaps.form(), Boolean(overlaps.answer()), overlaps.refused(), Boolean(sizes), blockOf(view)]);
    if (state === drawn) return;
    drawn = state;
    actions(view);
    list(view);
  }

  function actions(view) {
    const { h } = lmscope.dom;
    const isWalking = Boolean(walk && walk.left.length);
    const layer = blockOf(view);
    const isAsked = view.focus.block === layer && !walk;
    redraw(place("weights-units-go"), [
      h("button", { type: "button", id: "weights-units-one", disabled: isAsked || isWalking, onclick: () => { walk = null; focus({ block: blockOf(lmscope.view.get()) }); weights.again(); } }, "Compare layer " + layer), " ",
      h("button", { type: "button", id: "weights-units-all", disabled: isWalking || !shape(view), onclick: every }, "All layers"),
    ]);
    if (!isWalking || overlaps.refused()) return place("weights-units-state").replaceChildren();
    const done = walk.answers.length;
    const left = done ? ((Date.now() - walk.began) / done) * walk.left.length / 1000 : null;
    return redraw(place("weights-units-state"), [h("div.measuring", {}, lmscope.status.bar({ what: "Layers", done, total: walk.of, eta_s: left, unit: "" }), h("span.measuring-words", {}, done + " of " + walk.of + " layers" + (left === null ? "" : " · " + lmscope.dom.seconds(left))), h("button", { type: "button", onclick: halt }, "Stop"))]);
  }

  /** Which of those that reach the overlap stand in the table: each layer answers with its largest, so many at most. */
  function listed(found, rows) {
    const got = found.reduce((total, answer) => total + answer.overlaps.length, 0);
    const isCut = found.some((answer) => answer.overlaps.length < answer.reached);
    if (isCut && found.length > 1) return " Of each layer " + LIMIT + " at most are taken, its largest" + (rows < got ? "; of these the " + rows + " largest are listed." : ".");
    return isCut || rows < got ? " The " + rows + " largest are listed." : "";
  }

  function list(view) {
    const { h } = lmscope.dom;
    const found = answers();
    const target = place("weights-units-place");
    target.classList.toggle("stale", !found.length && Boolean(target.children.length));
    if (!found.length) {
      if (view.focus.block === null && !walk) place("weights-units-note").textContent = "Nothing is compared yet: a layer takes some seconds.";
      if (view.focus.block === null && !walk) target.replaceChildren();
      return;
    }
    const sum = (name) => found.reduce((total, answer) => total + answer[name], 0);
    const rows = rowsOf();
    place("weights-units-note").textContent = sum("reached").toLocaleString("en") + " of " + sum("units").toLocaleString("en") + " units of " + (found.length === 1 ? "layer " + found[0].layer : found.length + " layers") + " reach this overlap; two random sets of as many words overlap by " + fixed(found[0].chance, found[0]) + "." + listed(found, rows.length);
    const row = ({ one, answer }) => {
      lmscope.panelWords.learn(answer.words);
      const isOpen = view.focus.unit && unitName(view.focus.unit) === unitName(one.unit);
      return h("tr", { "data-open": isOpen ? "yes" : null }, h("th", { scope: "row" }, h("button.link", { type: "button", "aria-current": isOpen ? "true" : null, onclick: () => open(one.unit) }, unitName(one.unit))), h("td", {}, few(one.shared)), h("td", {}, few(one.key.highest)), h("td", {}, few(one.value.highest)), h("td", {}, one.jaccard.toFixed(3)));
    };
    target.replaceChildren(h("table.weights-pairs.of-words", {}, h("thead", {}, h("tr", {}, ["unit", "words of both", "its key reads", "its value writes", "overlap"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, rows.map(row))), ...notes([...new Set(found.flatMap((answer) => answer.notices))]));
  }

  function drawUnit(view) {
    const { h } = lmscope.dom;
    const answer = view.focus.unit ? unit.answer() : null;
    if (!view.focus.unit && opened) {
      opened = null;
      return place("weights-unit").replaceChildren();
    }
    if (!answer || answer === opened) return undefined;
    opened = answer;
    const end = (title, ids, logits) => h("table.weights-pairs", {}, h("caption", {}, title), h("tbody", {}, ids.map((id, i) => h("tr", {}, h("td", {}, word(id)), h("td", {}, fixed(logits[i], answer))))));
    const both = (name, ends) => h("div.weights-line", {}, end(name + ", highest", ends.highest.slice(0, WORDS), ends.highest_logit), end(name + ", lowest", ends.lowest.slice(0, WORDS), ends.lowest_logit));
    const close = h("button.quiet", { type: "button", "aria-label": "Close the unit", onclick: () => focus({ unit: null }) }, lmscope.dom.icon("close"));
    return place("weights-unit").replaceChildren(h("header.sheet-head", {}, h("h3", {}, "Unit " + unitName(answer.unit)), h("div.sheet-tools", {}, h("button.link", { type: "button", onclick: () => lmscope.view.go("trace") }, "See what it does on the Trace page"), close)), h("div.weights-ends", {}, both("Its value writes", answer.ends), answer.keys.map((key) => both(READS[key.name] || key.name, key.ends))), ...notes(answer.notices));
  }

  weights.units = { answers };
  weights.join({ start, ask, draw, retry: () => (overlaps.retry(), unit.retry()), after: true });
})();
