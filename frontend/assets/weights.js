/* The weights page: which head, which matrix, which reading; its panels stand in files of their own. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const { place, setProps, fileName } = lmscope.panelWords;
  const { number } = lmscope.panelParts;
  const CIRCUITS = [["vo", "W_VO", "W_V W_O: the token that is read, and the token that is then written"], ["qk", "W_QK", "W_Q W_Kᵀ: the token that looks, and the token that it looks at"]];
  const READINGS = [["folded", "Folded", "With the gains of the norms that the model applies"], ["raw", "Raw", "As published by Dar et al. 2023: no norm"]];
  const INVERSES = [["transpose", "Eᵀ", "A token stands for a vector that is read by its embedding, as published"], ["pseudo", "E⁺", "By its column of the embedding’s pseudo-inverse: products over all tokens are then those of the stream"]];
  const PANELS = [["Heads", "weights-map-title"], ["Ask a head", "weights-line-title"], ["Top pairs", "weights-pairs-title"], ["Head in numbers", "weights-head-title"], ["Single vectors", "weights-vectors-title"], ["Keys and values", "weights-units-title"], ["Look up a concept", "weights-lookup-title"], ["Studies", "weights-studies-title"], ["Two models", "weights-two-title"]];
  const SOURCE = "Dar et al. 2023, “Analyzing transformers in embedding space”; folding: Elhage et al. 2021.";
  const FIRST = 0.7; // of the depth: where heads have the words that a newcomer can read

  const page = lmscope.panels.page({
    id: "weights-page", instrument: "weights", cannot: "weights-cannot", sized: "weights-page",
    refusal: { what: "No head of this model can be read in its vocabulary", instead: "Choose a model whose embedding is as wide as its stream; attention can be looked at in this one." },
  });
  const focus = (patch) => lmscope.view.update({ focus: patch });
  let fields = {};

  // ------------------------------------------------------------------ what the view says

  const shape = (view) => (lmscope.shelf.card(view) || {}).shape || null;

  /** The open head; where none was chosen, one of a later layer. */
  function headOf(view) {
    if (view.focus.heads.length) return view.focus.heads[0];
    const layers = (shape(view) || { attention_layers: [0] }).attention_layers;
    return { layer: layers[Math.floor(layers.length * FIRST)] || 0, head: 0 };
  }

  /** How the vocabulary is read. */
  const read = (view) => ({ reading: view.focus.reads, inverse: view.focus.inverse });
  const named = (view) => ({ model: view.model, revision: view.revision, ...headOf(view), ...read(view) });
  const choose = (patch) => focus({ heads: [{ ...headOf(lmscope.view.get()), ...patch }] });
  const nameOf = ({ layer, head }) => layer + "." + head;
  /** While nobody knows the model's sizes there is no head to ask about. */
  const isKnown = (view) => Boolean(view.focus.heads.length || shape(view));

  // ------------------------------------------------------------------ controls

  function start() {
    const { segmented } = lmscope.panel;
    const whole = { min: 0, step: 1 };
    fields = {
      layer: number("weights-layer", "Layer", whole, (layer) => choose({ layer })), head: number("weights-head-number", "Head", whole, (head) => choose({ head })),
      circuit: segmented("weights-circuit", "Matrix", CIRCUITS, (circuit) => focus({ circuit })), reads: segmented("weights-reads", "Reading", READINGS, (reads) => focus({ reads })), inverse: segmented("weights-inverse", "Embedding", INVERSES, (inverse) => focus({ inverse })),
      distance: number("weights-distance", "Distance", { ...whole, max: 1e6 }, (distance) => focus({ distance }), "How many tokens before the query the key stands, where positions are rotary; 0 turns nothing"),
    };
    place("weights-choice").replaceChildren(...Object.values(fields).map((field) => field.element), lmscope.dom.h("p.note.weights-hint", { id: "weights-hint", hidden: true }), lmscope.panels.jumps(PANELS));
  }

  function draw(view) {
    const now = headOf(view);
    const sizes = shape(view);
    fields.layer.show(now.layer);
    fields.head.show(now.head);
    if (sizes) {
      fields.layer.input.max = sizes.layers - 1;
      fields.head.input.max = sizes.heads - 1;
    }
    fields.distance.element.hidden = view.focus.circuit !== "qk";
    for (const name of ["circuit", "reads", "inverse", "distance"]) fields[name].show(view.focus[name]);
    hint(view);
  }

  /** Where there is no lens, what is written can be read raw, and what is looked at as it is. */
  function hint(view) {
    const { h } = lmscope.dom;
    const lens = lmscope.panelWords.abilityOf(view, "trace");
    const isMeant = Boolean(lens && !lens.can && view.focus.reads === "folded");
    const state = isMeant ? lens.why : "";
    const target = place("weights-hint");
    target.hidden = !isMeant;
    if (target.dataset.state === state) return;
    target.dataset.state = state;
    const button = (text, patch) => h("button.link", { type: "button", onclick: () => focus(patch) }, text);
    target.replaceChildren(...(isMeant ? ["No lens: " + lmscope.dom.sentence(state) + " What a head writes may be refused when folded; ", button("read it raw", { reads: "raw" }), " or ", button("look at W_QK", { circuit: "qk" }), "."] : []));
  }

  // ------------------------------------------------------------------ what the panels share

  /** The same as Python: [[name of the form, ask], …]. */
  const code = (asks) => setProps("weights-code-ask", { data: { asks, origin: lmscope.info.server(), asked: Date.now() } });
  const fixed = (value, answer) => lmscope.dom.digits(value, lmscope.numbers.digits(answer.conditions));
  const file = (...words) => fileName("weights", ...words);
  /** An answer that is asked to be taken away before it is here says so. */
  const there = (answer) => answer || void lmscope.dom.announce("The answer is not here yet");
  const wordsOf = (text) => text.split(",").map((word) => word.trim()).filter(Boolean);

  Object.assign(page, { place, focus, shape, headOf, named, read, choose, nameOf, isKnown, code, fixed, file, there, wordsOf, SOURCE });
  lmscope.weights = page;
  page.join({ start, draw });

  window.dash_clientside = Object.assign({}, window.dash_clientside, { weights: { start: page.start, code: (texts) => texts && lmscope.info.code(texts) } });
})();
