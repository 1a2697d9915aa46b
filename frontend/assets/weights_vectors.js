/* Single vectors of the open head: what each of its coordinates reads or writes. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const weights = lmscope.weights;
  const { place, focus, named, headOf, nameOf, fixed, file, there } = weights;
  const { few, notes, tools } = lmscope.panelParts;
  const PARTS = [["v", "W_V", "Columns: what a coordinate reads"], ["o", "W_O", "Rows: what a coordinate writes"], ["q", "W_Q", "Columns: what a coordinate looks with"], ["k", "W_K", "Columns: what a coordinate is looked at by"]];
  const SAYS = { v: "Each column of W_V: the words that fill this coordinate of the head when they are read.", o: "Each row of W_O: the words that this coordinate of the head writes.", q: "Each column of W_Q: the words that look with this coordinate.", k: "Each column of W_K: the words that are looked at by this coordinate." };
  const UNIT = { o: "what a unit of the coordinate adds to a token’s logit (folded); a dot product (raw)", reads: "what the coordinate takes of a token, the divisor of the norm taken as 1 (folded); a dot product (raw)" };
  const COUNT = 512; // at most
  const WORDS = 8;
  const vectors = weights.asking("weights-vectors");
  let parts = null;
  let drawn = null;

  function ask(view) {
    if (weights.isKnown(view)) vectors.send({ ...named(view), part: view.focus.part, count: COUNT, top: WORDS });
  }

  function start() {
    vectors.start();
    drawn = null;
    parts = lmscope.panel.segmented("weights-part", "Vectors of", PARTS, (part) => focus({ part }));
    place("weights-vectors-form").replaceChildren(parts.element);
    const called = () => file(lmscope.view.get().focus.part, nameOf(headOf(lmscope.view.get())));
    place("weights-vectors-tools").replaceChildren(...tools("the vectors", () => [["CSV", () => csv(called())], ["JSON of the answer", () => there(vectors.answer()) && lmscope.download.json(called() + ".json", vectors.answer())]], () => vectors.form() && weights.code([["subheads", vectors.form()]]), about));
  }

  function about() {
    const answer = vectors.last();
    return { title: "Single vectors of a head", unit: UNIT[lmscope.view.get().focus.part] || UNIT.reads, source: weights.SOURCE, conditions: answer && answer.conditions, definition: ["A head of width K has K coordinates. Each has a column of W_V, W_Q and W_K, which reads, and a row of W_O, which writes. W_V and W_O are fixed only up to a change of basis of the head: what the whole head does is in its tables, and single coordinates are often hard to read.", ...(answer ? [answer.about] : [])] };
  }

  function csv(called) {
    const answer = there(vectors.answer());
    if (!answer) return;
    const read = (ids) => ids.map((id) => answer.words[String(id)]).join(" | ");
    lmscope.download.csv(called + ".csv", [["coordinate", "norm", "highest", "lowest"], ...answer.subheads.map((one) => [one.index, one.norm, read(one.ends.highest), read(one.ends.lowest)])]);
  }

  function draw(view) {
    const { h } = lmscope.dom;
    parts.show(view.focus.part);
    const answer = vectors.answer();
    const target = place("weights-vectors-place");
    target.classList.toggle("stale", !answer && Boolean(target.children.length));
    if (!answer || answer === drawn) return;
    drawn = answer;
    place("weights-vectors-note").replaceChildren(SAYS[answer.part] + " " + answer.subheads.length + " of " + answer.of + " coordinates. ", ...notes(answer.notices).map((note) => note.textContent + " "));
    const row = (one) => h("tr", {}, h("th", { scope: "row" }, String(one.index)), h("td", {}, few(one.ends.highest)), h("td", {}, few(one.ends.lowest)), h("td", {}, fixed(one.norm, answer)));
    target.replaceChildren(h("table.weights-pairs.of-words", {}, h("thead", {}, h("tr", {}, ["#", "highest words", "lowest words", "norm"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, answer.subheads.map(row))));
  }

  weights.vectors = { answer: vectors.answer };
  weights.join({ start, ask, draw, retry: vectors.retry, after: true });
})();
