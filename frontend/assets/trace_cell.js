/* The open cell of the trace page: its words at once, then what the feed-forward block before it has moved. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const trace = lmscope.trace;
  const { place, rowName, tokenName, wordOf } = trace;
  const focus = (patch) => lmscope.panel.focus(patch);
  const SOURCE = "Geva et al. 2022, “LM-Debugger”: a feed-forward block’s output is Σ coefficient · value + bias.";
  const VALUES = 10, ENDS = 6, TOP = 5, MOVED = 5;
  let asked = null;
  let have = null; // {answer, turn}
  let drawn = null;

  // ------------------------------------------------------------------ question and answer

  function data(view) {
    return {
      view: lmscope.panel.question(view), layer: trace.lens.rowOf(view) - 1, token: trace.lens.tokenOf(view), explain: trace.explain.ask(view, trace.lens.tokenOf(view)),
      top: TOP, values: VALUES, ends: ENDS, ranked: view.focus.ranked, reading: view.focus.reads,
    };
  }

  function ask(view) {
    if (!trace.lens.fresh() || trace.lens.rowOf(view) === 0 || refusal(view)) return;
    const next = { ask: data(view) };
    const text = JSON.stringify(next);
    if (text === asked) return;
    asked = text;
    trace.setProps("trace-cell-ask", { data: { ...next, turn: trace.turn(), key: text } });
  }

  function receive(given) {
    if (!given || !trace.isOpen() || given.turn !== trace.turn()) return;
    have = given;
    trace.learn(given.answer.words);
    trace.again();
  }

  /** Why this model has no cells, or null. */
  function refusal(view) {
    const ability = trace.abilityOf(view, "cell");
    return ability && !ability.can ? ability.why : null;
  }

  const isHere = (view) => Boolean(have) && have.turn === trace.turn() && have.answer.layer === trace.lens.rowOf(view) - 1 && have.answer.token === trace.lens.tokenOf(view);
  const sideOf = (view) => (trace.lens.wordsSide(view) === "unedited" && have.answer.unedited ? have.answer.unedited : have.answer.edited);

  // ------------------------------------------------------------------ drawing

  function draw(view) {
    if (!trace.lens.fresh()) return;
    const { h } = lmscope.dom;
    const { layers } = trace.answer();
    const [side, token, row] = [trace.lens.wordsSide(view), trace.lens.tokenOf(view), trace.lens.rowOf(view)];
    const found = trace.lens.cellAt(side, row, token);
    place("trace-cell-title").textContent = (row === layers ? "Answer" : row ? "After block " + (row - 1) : "Embedding") + " at “" + tokenName(token) + "”";
    const state = JSON.stringify([trace.turn(), trace.part(), side, token, row, view.focus, view.edits, isHere(view) && have.key, trace.tracked.id(view), trace.explain.pair(view)]);
    if (state === drawn) return;
    drawn = state;
    keepingFocus(place("trace-cell"), () => place("trace-cell").replaceChildren(...(found ? [words(view, found), facts(side, row, token, found)] : [h("p.note", {}, "This cell has not been read yet.")])));
    keepingFocus(place("trace-block"), () => keepingFocus(place("trace-values"), () => block(view, row)));
  }

  /** What is drawn anew keeps the keyboard's place, by the label of what had it. */
  function keepingFocus(within, act) {
    const active = within.contains(document.activeElement) ? document.activeElement : null;
    const [label, text] = active ? [active.getAttribute("aria-label"), active.textContent] : [null, null];
    act();
    if (!active) return;
    const same = [...within.querySelectorAll(active.tagName)].find((each) => each.getAttribute("aria-label") === label && each.textContent === text);
    if (same) same.focus({ preventScroll: true });
  }

  function words(view, found) {
    const { h } = lmscope.dom;
    const { conditions } = trace.answer();
    const tracked = trace.tracked.id(view);
    const line = (id, i) => h("tr", { "data-tracked": id === tracked ? "yes" : null },
      h("th", { scope: "row" }, h("button.link", { type: "button", title: "Track this token", onclick: () => focus({ tracked: id }) }, wordOf(id))),
      h("td.lens-share", {}, h("span.amount", { style: "width:" + 100 * found.probability[i] + "%" })),
      h("td", {}, trace.share(found.probability[i], conditions)), h("td", {}, trace.share(found.logit[i], conditions)), h("td", {}, trace.explain.buttons(view, id)));
    const head = ["probability", "logit", "explain"].map((name) => h("th", { scope: "col" }, name));
    return h("table.lens-words", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "next word"), h("td"), head)), h("tbody", {}, found.ids.map(line)));
  }

  function facts(side, row, token, found) {
    const { layers, conditions } = trace.answer();
    const last = trace.lens.lastOf(side, token);
    const at = side === "edited" ? trace.lens.settledAt(token) : null;
    const settled = at === null ? null : at === layers ? "the last row only" : rowName(at) + " on";
    return lmscope.info.facts([
      ["entropy", lmscope.numbers.fixed(found.entropy, "nats", conditions) + " nats"],
      ["answer’s word", last && wordOf(last.ids[0]) + ": " + trace.share(found.final, conditions) + " here"], ["on top from", settled],
    ]);
  }

  function block(view, row) {
    const { h } = lmscope.dom;
    const target = place("trace-block");
    const values = place("trace-values");
    const why = refusal(view);
    place("trace-values-tools").hidden = row === 0 || Boolean(why) || !have;
    for (const part of [target, values]) part.classList.toggle("stale", row > 0 && !isHere(view) && Boolean(part.children.length));
    if (row === 0 || why) values.replaceChildren();
    if (row === 0) return target.replaceChildren(h("p.note", {}, "The embedding: no block has written here yet. Open a cell of a lower row, and its feed-forward block is shown in words."));
    if (why) return target.replaceChildren(h("p.note", {}, lmscope.dom.sentence(why)));
    if (!isHere(view)) return undefined;
    const side = sideOf(view);
    target.replaceChildren(h("h3.small-title", {}, "Feed-forward block " + have.answer.layer), beforeAndMoved(side), h("h3.small-title", {}, "Values that it wrote"), have.answer.explained ? h("p.note", {}, "Logits: what each adds directly to " + trace.explain.words(have.answer.explained) + " at this token.") : "");
    return values.replaceChildren(trace.values.list(view, have.answer, side), ...trace.notices(have.answer).map((said) => h("p.note", {}, said)));
  }

  function beforeAndMoved(side) {
    const { h } = lmscope.dom;
    const { conditions } = have.answer;
    const p = lmscope.dom.numbers(side.before.probability);
    const before = side.before.ids.slice(0, TOP).map((id, i) => h("tr", {}, h("th", { scope: "row" }, wordOf(id)), h("td", {}, trace.share(p[i], conditions))));
    const moved = side.moved.slice(0, MOVED).map((each) => {
      const up = each.after > each.before;
      const words = trace.share(each.before, conditions) + " → " + trace.share(each.after, conditions);
      return h("tr", { title: "logit " + trace.share(each.logit_before, conditions) + " → " + trace.share(each.logit_after, conditions) },
        h("th", { scope: "row" }, h("span." + (up ? "up" : "down"), { "aria-label": up ? "up" : "down", role: "img" }, up ? "▲" : "▼"), " " + wordOf(each.id)), h("td", {}, words));
    });
    return h("div.before-moved", {},
      h("table.pairs", {}, h("caption", {}, "Before it"), h("tbody", {}, before)),
      h("table.pairs", {}, h("caption", {}, "It moved most"), h("tbody", {}, moved)));
  }

  // ------------------------------------------------------------------ controls, taking away

  let fields = {};

  function start() {
    const { h, icon } = lmscope.dom;
    fields = {
      ranked: lmscope.panel.segmented("cell-ranked", "Rank by", [["magnitude", "Size", "|coefficient| · ‖value‖, as in LM-Debugger"], ["contribution", "Contribution", "Direct contribution to the explained prediction, either way"]], (ranked) => focus({ ranked })),
      reads: lmscope.panel.segmented("cell-reads", "Words", [["folded", "Folded", "Values are read with the final norm’s gain folded in"], ["raw", "Raw", "The bare product with the output embedding, as LM-Debugger published it"]], (reads) => focus({ reads })),
      debugger: lmscope.panel.check("LM-Debugger", "Off and on as the old tool did them: before the activation, on at the layer’s largest score + 0.01", (on) => focus({ debugger: on })),
    };
    place("trace-values-tools").replaceChildren(...Object.values(fields).map((field) => field.element));
    place("trace-cell-tools").replaceChildren(
      lmscope.info.menu(icon("download"), "Download the cell", () => [["CSV of the values", csv], ["JSON of the answer", () => ready() && lmscope.download.json(trace.fileName("cell") + ".json", have.answer)]]),
      h("button.quiet", { type: "button", title: "Copy as Python: the client’s call", "aria-label": "Copy the cell as Python", onclick: () => ready() && trace.code({ cell: [data(lmscope.view.get())] }) }, icon("copy")),
      lmscope.info.button("the cell", about));
  }

  function sync(view) {
    fields.ranked.show(view.focus.ranked);
    fields.reads.show(view.focus.reads);
    fields.debugger.show(view.focus.debugger);
  }

  const ready = () => (have && isHere(lmscope.view.get())) || void lmscope.dom.announce("The answer is not here yet");

  function csv() {
    if (!ready()) return;
    const text = (ids) => ids.map((id) => trace.known(id)).join(" | ");
    const rows = [["side", "layer", "unit", "coefficient", "norm", "magnitude", "contribution (logits)", "promoted end", "suppressed end"]];
    for (const side of ["edited", "unedited"])
      for (const value of (have.answer[side] || { values: [] }).values)
        rows.push([side, have.answer.layer, value.unit, value.coefficient, value.norm, value.magnitude, value.contribution, text(value.ends.highest), text(value.ends.lowest)]);
    lmscope.download.csv(trace.fileName("cell") + ".csv", rows);
  }

  function about() {
    const answer = have && have.turn === trace.turn() ? have.answer : null;
    const side = answer && answer.edited;
    return {
      title: "The cell", unit: "probability; logits; coefficients in the units of the activation", source: SOURCE, conditions: answer && answer.conditions,
      definition: [
        answer ? answer.about : "Before and after a feed-forward block, and the value vectors that it wrote.",
        "Values are ranked by |coefficient| · ‖value‖, or by their direct contribution to the explained prediction: the final norm frozen at this run, its gain folded in. ↑ are the words that the value makes likelier as it was written here, ↓ those that it makes less likely: a negative coefficient turns its ends round.",
        side && "Self-check: Σ coefficient · value + bias differs from what the write matrix gave by " + lmscope.numbers.exact(side.sum_error, answer.conditions) + " of its norm, at most; norm " + trace.share(side.output_norm, answer.conditions) + (side.bias_norm === null ? ", no bias." : ", of the bias " + trace.share(side.bias_norm, answer.conditions) + "."),
        "The mode LM-Debugger does what the published tool did: off sets the unit to 0 before the activation, on to the layer’s largest score + 0.01.",
      ].filter(Boolean),
    };
  }

  trace.cell = { answer: () => have && have.answer };
  trace.join({
    start, ask,
    draw: (view) => (sync(view), draw(view)),
    anew: () => { asked = drawn = null; },
    retry: () => { if (place("trace-cell-notice").firstElementChild && !lmscope.busy.isOut("trace-cell-answer.")) asked = null; },
    leave: () => { have = null; },
  });

  Object.assign(window.dash_clientside.trace, { cell: receive });
})();
