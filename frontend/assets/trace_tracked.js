/* One token of the trace page's focused column, followed through the rows. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const trace = lmscope.trace;
  const { place, rowName, tokenName, wordOf } = trace;
  const focus = (patch) => lmscope.panel.focus(patch);
  let asked = null;
  let column = null; // {answer, turn}

  /** The tracked token's column; the likeliest of the last row come along, so that any of them can be chosen at once. */
  function ask(view) {
    const id = idOf(view);
    const token = trace.lens.tokenOf(view);
    if (!trace.lens.fresh() || id === null || !(trace.lens.isWhole() || trace.answer().edited[1].columns[0] === token)) return;
    const data = { ask: trace.lens.ask({ ...view, focus: { ...view.focus, token } }, "focus", offered(view)), id };
    const text = JSON.stringify(data);
    if (text === asked) return;
    asked = text;
    trace.setProps("trace-column-ask", { data: { ...data, turn: trace.turn() } });
  }

  function receive(data) {
    if (!data || !trace.isOpen() || data.turn !== trace.turn()) return;
    column = data;
    trace.learn(data.answer.words);
    trace.again();
  }

  /** Ids that can be tracked with one click: what both sides say last at the focused column, and the chosen one. */
  function offered(view) {
    const token = trace.lens.tokenOf(view);
    const last = ["edited", "unedited"].flatMap((side) => (trace.lens.lastOf(side, token) || { ids: [] }).ids);
    return [...new Set(view.focus.tracked === null ? last : [...last, view.focus.tracked])];
  }

  function idOf(view) {
    if (view.focus.tracked !== null) return view.focus.tracked;
    const last = trace.lens.fresh() && trace.lens.lastOf(trace.lens.wordsSide(view), trace.lens.tokenOf(view));
    return last ? last.ids[0] : null;
  }

  /** Which token is tracked: one of those that the last row says at this column. */
  function draw(view) {
    if (!trace.lens.fresh()) return;
    const { h } = lmscope.dom;
    const ids = offered(view);
    const id = idOf(view);
    const token = trace.lens.tokenOf(view);
    const last = trace.lens.lastOf(trace.lens.wordsSide(view), token);
    place("tracked-title").textContent = id === null ? "Track a token" : "“" + wordOf(id) + "” at “" + tokenName(token) + "”";
    const state = JSON.stringify([ids, ids.map(wordOf), id, view.focus.tracked]);
    if (place("tracked-choice").dataset.state === state) return;
    const typed = place("tracked-choice").contains(document.activeElement) ? document.activeElement.value : null;
    place("tracked-choice").dataset.state = state;
    const each = (one) => h("label", {}, h("input", { type: "radio", name: "tracked", value: one, checked: one === id, onchange: () => focus({ tracked: last && one === last.ids[0] ? null : one }) }), h("span", {}, wordOf(one)));
    place("tracked-choice").replaceChildren(h("fieldset.choice", {}, h("legend", {}, "Token"), h("div.segments", {}, ids.map(each))));
    if (typed !== null) place("tracked-choice").querySelector('[value="' + typed + '"]')?.focus();
  }

  function start() {
    place("tracked-tools").replaceChildren(
      lmscope.info.menu(lmscope.dom.icon("download"), "Download the tracked token", () => [["PNG", () => curve("png")], ["SVG", () => curve("svg")], ["CSV", csv], ["JSON of the answer", () => column && lmscope.download.json(trace.fileName("tracked") + ".json", column.answer)]]),
      lmscope.info.button("the tracked token", about));
  }

  const curve = (kind) => lmscope.download.plot("trace-tracked-figure", kind, trace.fileName("tracked"));

  function csv() {
    if (!column) return lmscope.dom.announce("The answer is not here yet");
    const { answer } = column;
    const rows = [["side", "row", "stage", "id", "word", "probability", "rank (1 is the likeliest)", "logit"]];
    for (const side of ["edited", "unedited"]) {
      const grid = answer[side] && answer[side][answer[side].length - 1];
      if (!grid) continue;
      const [p, rank, logit] = ["tracked_probability", "rank", "tracked_logit"].map((name) => lmscope.dom.numbers(grid[name]));
      grid.rows.forEach((row, r) => answer.tracked.forEach((id, w) => {
        const at = r * answer.tracked.length + w;
        rows.push([side, row, rowName(row), id, answer.words[id], p[at], rank[at] + 1, logit[at]]);
      }));
    }
    lmscope.download.csv(trace.fileName("tracked") + ".csv", rows);
  }

  const about = () => ({
    title: "A tracked token", unit: "probability; rank, 1 is the likeliest; logit", source: trace.lens.SOURCE, conditions: column && column.answer.conditions,
    definition: ["Probability, rank among the whole vocabulary and logit of one token at every row of the focused column. A logit can rise while the probability falls: others may rise more. Under edits the unedited model stands beside it, dotted."],
  });

  trace.tracked = { id: idOf };
  trace.column = () => column && column.answer;
  trace.join({
    start, ask, draw,
    anew: () => { asked = null; },
    retry: () => { if (place("trace-column-notice").firstElementChild && !lmscope.busy.isOut("trace-column.")) asked = null; },
    leave: () => { column = null; },
  });

  Object.assign(window.dash_clientside.trace, { column: receive });
})();
