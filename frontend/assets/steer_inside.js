/* Look inside a steer: its singular directions, each as the words at both ends, and the plane of the first two. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const steer = lmscope.steer;
  const { place, setProps, wordOf, learn, fileName } = steer;
  const { chooser, chosen, tools } = steer.cards;
  const SOURCE = "Han et al. 2024, “LM-Steer”, §5: right singular vectors times the output embedding.";
  const SIDES = [["writes", "What it adds", "Right singular vectors: what is added to the state"], ["reads", "What it acts on", "Left singular vectors: what the state must hold for it"]];
  const SHOWN = 12; // words of an end
  let choice = null, sides = null;
  let side = "writes";
  let asked = null;
  let have = null; // {answer, key}
  let drawn = null;
  let seen = false; // whether the panel has come into sight: before that nothing is asked
  let watching = null;

  function question(view) {
    const card = chosen(view);
    return card && { model: view.model, revision: view.revision, steer: card.id };
  }

  function ask(view) {
    const next = question(view);
    if (!seen || !next) return;
    const key = JSON.stringify(next);
    if (key === asked) return;
    asked = key;
    setProps("steer-inside-ask", { data: { ask: next, key } });
  }

  function receive(data) {
    if (!data || data.key !== asked) return;
    have = data;
    learn(data.answer.words);
    steer.again();
  }

  const fresh = () => (have && have.key === asked ? have.answer : null);

  // ------------------------------------------------------------------ drawing

  function draw(view) {
    choice.show(view);
    sides.show(side);
    const card = chosen(view);
    const answer = card ? fresh() : null;
    place("inside-body").hidden = !answer;
    const state = JSON.stringify([card && card.id, have && have.key, asked, side, steer.shelf() === null]);
    if (state === drawn) return;
    drawn = state;
    place("inside-note").replaceChildren(...said(card, answer));
    if (answer) place("inside-table").replaceChildren(list(answer));
  }

  function said(card, answer) {
    if (!card) return [steer.shelf() === null ? "" : "No steer fits this model yet: make one above."];
    if (!answer) return [""];
    return ["“" + card.name + "” has rank " + answer.rank + " and norm " + lmscope.dom.digits(answer.norm, 4) + " at 1 of the slider; its strongest " + answer.dimensions.length + " directions are shown. " + answer.about];
  }

  /** Every direction with the words at both ends. */
  function list(answer) {
    const { h } = lmscope.dom;
    const end = (ids, logits) => h("span.inside-words", {}, ids.slice(0, SHOWN).map((id, i) => [h("bdi.value-word", { title: lmscope.dom.digits(logits[i], 4) + " logits" }, wordOf(id)), " "]));
    const line = (dimension, i) => {
      const ends = dimension[side];
      return h("li.inside-one", {},
        h("p.inside-head", {}, h("strong", {}, "Direction " + (i + 1)), h("span.value-fact", {}, "singular value " + lmscope.dom.digits(dimension.singular, 4) + " · " + (100 * dimension.share).toFixed(1) + " % of the squared norm")),
        h("p.inside-end", {}, h("span.up", { role: "img", "aria-label": "plus end" }, "+"), end(ends.highest, ends.highest_logit)),
        h("p.inside-end", {}, h("span.down", { role: "img", "aria-label": "minus end" }, "−"), end(ends.lowest, ends.lowest_logit)));
    };
    return h("div.inside-scroller", { tabindex: "0", role: "region", "aria-label": "Directions as words" }, h("ol.inside-list", {}, answer.dimensions.map(line)));
  }

  // ------------------------------------------------------------------ taking away

  const have_ = () => fresh() || void lmscope.dom.announce("Choose a steer first");

  function csv() {
    const answer = have_();
    if (!answer) return;
    const rows = answer.dimensions.flatMap((dimension, d) => ["writes", "reads"].flatMap((part) => ["highest", "lowest"].flatMap((end) => dimension[part][end].map((id, i) => [d + 1, dimension.singular, dimension.share, part, end === "highest" ? "+" : "-", i + 1, id, answer.words[id], dimension[part][end + "_logit"][i]]))));
    lmscope.download.csv(fileName("inside") + ".csv", [["direction", "singular value", "share of the squared norm", "vector", "end", "place", "token", "reads", "logits"], ...rows]);
  }

  const about = () => ({
    title: "Look inside", unit: "logits for one unit of the direction", source: SOURCE, conditions: fresh() && fresh().conditions,
    definition: [
      "A steer is a matrix W: c becomes c + a c W. Its singular value decomposition takes it apart: along each direction it adds the right singular vector in proportion to what the state holds of the left one.",
      "Each vector is read with the bare output embedding, as LM-Steer published it: the words whose logits it raises most, and those it lowers most. A singular vector has no sign of its own; both are turned so that the word that moves furthest stands at the + end.",
    ],
  });

  function start() {
    drawn = asked = have = null;
    choice = chooser("inside-steer");
    sides = lmscope.panel.segmented("inside-side", "Words of", SIDES, (given) => { side = given; steer.again(); });
    place("inside-form").replaceChildren(choice.element, sides.element);
    place("inside-tools").replaceChildren(...tools("the steer’s inside", () => [["PNG of the plane", () => have_() && lmscope.download.plot("steer-inside-figure", "png", fileName("inside"))], ["SVG of the plane", () => have_() && lmscope.download.plot("steer-inside-figure", "svg", fileName("inside"))], ["CSV of the words", csv], ["JSON of the answer", () => have_() && lmscope.download.json(fileName("inside") + ".json", fresh())]], () => have_() && steer.code({ steer_inside: [question(lmscope.view.get())] }), about));
    watching = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen = true;
      watching.disconnect();
      steer.again();
    }, { rootMargin: "200px" });
    watching.observe(place("inside-title"));
  }

  steer.inside = { answer: fresh };
  steer.join({
    start, ask, draw,
    anew: () => { drawn = null; },
    retry: () => { if (document.querySelector("#steer-inside-notice > *") && !lmscope.busy.isOut("steer-inside-answer.")) asked = null; },
    leave: () => { watching.disconnect(); seen = false; },
  });
  Object.assign(window.dash_clientside.steer, { inside: receive });
})();
