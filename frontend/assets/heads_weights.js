/* What the weights say of every head, as columns of the heads page's table: a job, for a text does not change it. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const place = (id) => document.getElementById(id);
  const NAMES = { largest: "σ₁", first: "share of σ₁", rank: "effective rank", copying: "copying", same: "same token" };
  const READINGS = [["folded", "Folded"], ["raw", "Raw"]];
  const page = { isOpen: () => lmscope.view.isAt("heads-page"), turn: () => 0, again: () => show() };
  let job = null;
  let reads = null;
  let fill = () => {}; // fills the table again
  let told = null; // what the columns show

  function start(again) {
    fill = again;
    told = null;
    job = job || lmscope.panelJobs.on(page).follower("heads-weights", { changed: show });
    reads = lmscope.panel.select("heads-reads", "W_VO", READINGS, (value) => lmscope.panel.focus({ reads: value }));
    job.start();
  }

  const ask = (view) => ({ model: view.model, revision: view.revision, reading: view.focus.reads });
  const isOf = (view) => Boolean(job && job.about()) && JSON.stringify(job.about().ask) === JSON.stringify(ask(view));
  /** What was found about the view's model under its reading; null: nothing yet. */
  const found = () => (lmscope.view.get() && isOf(lmscope.view.get()) ? job.answer() : null);

  /** The state beside the table, and the table when there are new numbers. */
  function show() {
    const view = lmscope.view.get();
    if (!page.isOpen() || !reads || !view) return;
    const { h } = lmscope.dom;
    const mine = isOf(view);
    const answer = found();
    const parts = [reads.element];
    reads.show(view.focus.reads);
    if (mine && job.isLive()) parts.push(job.progress("Heads"));
    else if (!answer || !job.isDone()) parts.push(h("button", { type: "button", id: "heads-measure", title: "Singular values, copying score and same-token pairs of W_VO of every head; the pairs take longest, and what was measured before is there at once", onclick: () => job.begin("heads", ask(lmscope.view.get())) }, "Add columns from the weights"));
    if (mine) parts.push(...job.endings().map((text) => h("span.note", {}, text)));
    if (answer) parts.push(...absent(answer).map((text) => h("p.note", {}, text)));
    lmscope.panelParts.redraw(place("heads-weights"), parts);
    const now = JSON.stringify(answer && [view.focus.reads, ...Object.keys(NAMES).map((name) => answer[name].bdata)]);
    if (now === told) return;
    told = now;
    fill();
  }

  const absent = (answer) => [...(answer.copying_why ? ["No copying score: " + answer.copying_why] : []), ...Object.entries(answer.why).map(([layer, why]) => "No W_VO in layer " + layer + ": " + why)];

  /** A group of columns; none before anything was measured. */
  function columns() {
    const answer = found();
    if (!answer) return [];
    const one = (name) => ({
      field: "weights " + name, headerName: NAMES[name], headerTooltip: answer.abouts[name], type: "rightAligned", width: 116, filter: "agNumberColumnFilter",
      valueFormatter: { function: "lmscopeHeads.weight(params.value)" },
    });
    return [{ headerName: "W_VO, " + (answer.reading === "raw" ? "raw" : "norms folded in") + " (of the model, not of the text)", headerTooltip: "Whatever the text: what the head's W_V W_O is. " + absent(answer).join(" "), marryChildren: true, children: Object.keys(NAMES).map(one) }];
  }

  /** Of one head, by field: a number, null where there is none, undefined where it was not measured yet. */
  function values() {
    const answer = found();
    if (!answer) return () => ({});
    const { numbers } = lmscope.dom;
    const each = Object.fromEntries(Object.keys(NAMES).map((name) => [name, numbers(answer[name])]));
    const rows = new Map(answer.layers.map((layer, row) => [layer, row]));
    const never = (name, layer) => String(layer) in answer.why || (name === "copying" && answer.copying_why) || job.isDone();
    return (layer, head) => Object.fromEntries(Object.keys(NAMES).map((name) => {
      const value = rows.has(layer) ? each[name][rows.get(layer) * answer.heads + head] : NaN;
      return ["weights " + name, Number.isFinite(value) ? value : never(name, layer) ? null : undefined];
    }));
  }

  const printed = (value) => (value === undefined ? "…" : value === null ? "n/a" : lmscope.dom.digits(value, 3));

  // a refusal stands under the page's notices; then the button comes back
  lmscope.busy.onChange(() => page.isOpen() && job && document.querySelector("#heads-weights-notice > *") && (job.retry(), show()));

  /** The view has changed: what was lost meanwhile is looked at again. */
  function look() {
    if (job) job.retry();
    show();
  }

  lmscope.headsWeights = { start, look, columns, values, printed, found, abouts: () => (found() ? Object.values(found().abouts) : []) };
})();
