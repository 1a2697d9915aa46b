/* The open head in numbers, and its mean score against distance. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const weights = lmscope.weights;
  const { place, named, headOf, nameOf, fixed, file, there } = weights;
  const { tools } = lmscope.panelParts;
  const head = weights.asking("weights-head");
  let drawn = null;
  const POSITIONS = { rotary: "rotary: scores of W_QK depend on distance", learned: "learned: added to the tokens", bias: "a number added to scores of W_QK by distance", none: "none act on queries and keys", unknown: "not known" };

  function ask(view) {
    if (weights.isKnown(view)) head.send(named(view));
  }

  function start() {
    head.start();
    drawn = null;
    const called = () => file(nameOf(headOf(lmscope.view.get())), "head");
    place("weights-head-tools").replaceChildren(...tools("the head", () => [
      ["PNG of the curve", () => there(head.answer()) && lmscope.download.plot("weights-head-figure", "png", called())], ["SVG of the curve", () => there(head.answer()) && lmscope.download.plot("weights-head-figure", "svg", called())],
      ["CSV of the curve", () => there(head.answer()) && lmscope.download.csv(called() + ".csv", [["distance", "mean score"], ...head.answer().curve.map((point) => [point.distance, point.score])])], ["JSON of the answer", () => there(head.answer()) && lmscope.download.json(called() + ".json", head.answer())],
    ], () => weights.code([["head", head.form() || named(lmscope.view.get())]]), about));
  }

  function about() {
    const answer = head.last();
    return {
      title: "One head in numbers", unit: "the copying score and singular values have none; the curve: attention logits (folded), a dot product (raw)", source: "Copying score: Elhage et al. 2021, “A mathematical framework for transformer circuits”.", conditions: answer && answer.conditions,
      definition: ["Copying score: Σ λ / Σ |λ| over the eigenvalues of the whole matrix, tokens × tokens: 1 where it maps tokens to themselves, −1 where it does the opposite.", "The curve: the mean score of W_QK over all pairs of tokens, by how far the key stands behind the query.", ...(answer ? [answer.about] : [])],
    };
  }

  function draw(view) {
    const { h } = lmscope.dom;
    place("weights-head-title").textContent = "Head " + nameOf(headOf(view));
    const answer = head.answer();
    place("weights-facts").classList.toggle("stale", !answer && Boolean(place("weights-facts").children.length));
    if (!answer || answer === drawn) return;
    drawn = answer;
    const row = (term, text) => [h("dt", {}, term), h("dd", {}, text)];
    const of = (name, label) => {
      const one = answer[name];
      if (!one) return [row(label, "n/a: " + answer.why[name])];
      return [row(label + ", copying score", one.copying === null ? "n/a" : fixed(one.copying, answer)), ...(one.why ? [row(label + ", singular values", one.why)] : [row(label + ", singular values", fixed(one.singular[0], answer) + " … " + fixed(one.singular[one.singular.length - 1], answer)), row(label + ", norm", fixed(one.norm, answer))])];
    };
    const list = h("dl.facts", {}, row("key/value head", answer.group + " of " + answer.groups), ...of("vo", "W_VO"), ...of("qk", "W_QK"), row("positions", POSITIONS[answer.positions]));
    place("weights-facts").replaceChildren(list, ...answer.notices.map((notice) => h("p.note", {}, notice)));
    lmscope.panelParts.folded(place("weights-curve-table"), "The curve as a table", () => lmscope.panelParts.table("Mean score by distance", ["distance", "mean score"], answer.curve.map((point) => [String(point.distance), fixed(point.score, answer)]), ["number", "number"]));
  }

  weights.head = { answer: head.answer };
  weights.join({ start, ask, draw, retry: head.retry, after: true });
})();
