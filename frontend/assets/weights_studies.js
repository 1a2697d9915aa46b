/* Studies of Dar et al. 2023 on the open model: keep-k, R_k, similarity; each beside chance, with intervals. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const weights = lmscope.weights;
  const { focus } = weights;
  const { digits, number, table } = lmscope.panelParts;
  const GROUPS = { keys: "feed-forward keys", values: "feed-forward values", attention_values: "W_V", attention_outputs: "W_O" };
  const PAIRINGS = { keys_values: "key and value of a unit", values_outputs: "W_V and W_O of a coordinate", queries_keys: "W_Q and W_K of a coordinate" };
  const VECTORS = { normal: "normal vectors", values: "feed-forward values", states: "hidden states" };
  const INVERSES = { transpose: "Eᵀ", pseudo: "E⁺" };
  const SOURCE = "Dar et al. 2023, “Analyzing transformers in embedding space”, and its notebooks.";

  const named = (view) => ({ model: view.model, revision: view.revision });
  const within = (told) => digits(told.mean, 3) + " (" + digits(told.low, 3) + " to " + digits(told.high, 3) + ")";
  const three = (told) => [told.mean, told.low, told.high];
  const heads = (name) => [name, name + " low", name + " high"];

  /** A number of the view. */
  const field = (key, label, limits, hint) => () => {
    const made = number("weights-study-" + key, label, limits, (value) => focus({ [key]: value }), hint);
    return { element: made.element, show: (view) => made.show(view.focus[key]) };
  };

  const kinds = {
    keep: {
      text: "Keep k words", hint: "What is left of a product when only the k largest words of each vector are kept", go: "Measure",
      what: "If two vectors are written in the vocabulary and only the k words with the largest numbers are kept, how much of their products is left? With the transpose Eᵀ as inverse, and with the pseudo-inverse E⁺.",
      controls: [field("keep_count", "Vectors of each kind", { min: 2, max: 2000, step: 1 })],
      height: () => 380,
      ask: (view) => ({ ...named(view), count: view.focus.keep_count }),
      table: (answer) => table("What is left", ["vectors", "inverse", "k", "cosine (95 %)", "without a vector with itself"], answer.curves.flatMap((curve) => curve.points.map((point) => [VECTORS[curve.vectors], INVERSES[curve.inverse], point.k.toLocaleString("en"), within(point.cosine), within(point.apart)])), ["", "", "number", "number", "number"]),
      csv: (answer) => [["vectors", "inverse", "k", ...heads("cosine"), ...heads("apart")], ...answer.curves.flatMap((curve) => curve.points.map((point) => [curve.vectors, curve.inverse, point.k, ...three(point.cosine), ...three(point.apart)]))],
      about: { unit: "a cosine, from −1 to 1", source: SOURCE, definition: ["The k entries of largest absolute value are kept, with their sign; the cosine is that of all products of n vectors as one matrix with those of what was kept. Intervals are 95 %, by bootstrap over vectors, whatever their number: of fewer than about 30 they are too narrow."] },
    },
    active: {
      text: "Active vectors (R_k)", hint: "Do the most active parameters of a layer say what its state says?", go: "Measure",
      what: "Of the words that a layer’s state says, how many stand among the words of the layer’s most active parameters at that token? Beside it the same with the states of other tokens.",
      controls: [field("active_k", "k words", { min: 1, max: 1000, step: 1 }), field("active_most", "most active", { min: 1, max: 100, step: 1 }), field("active_tokens", "Tokens", { min: 2, max: 20000, step: 1 })],
      height: (answer) => 90 + 250 * Math.ceil(new Set(answer.points.map((point) => point.group)).size / 2),
      ask: (view) => ({ ...named(view), reading: view.focus.reads, k: view.focus.active_k, active: view.focus.active_most, tokens: view.focus.active_tokens }),
      table: (answer) => table("R_k by layer", ["vectors", "layer", "against", "R_k (95 %)", "shuffled", "difference"], answer.points.map((point) => [GROUPS[point.group], String(point.layer), point.against === "layer" ? "the layer’s state" : "the final state", within(point.own), within(point.shuffled), within(point.more)]), ["", "number", "", "number", "number", "number"]),
      csv: (answer) => [["vectors", "layer", "against", ...heads("R_k"), ...heads("shuffled"), ...heads("difference")], ...answer.points.map((point) => [point.group, point.layer, point.against, ...three(point.own), ...three(point.shuffled), ...three(point.more)])],
      about: { unit: "a share, from 0 to 1", source: SOURCE, definition: ["R_k: of the state’s k likeliest words, the share that is among the k words of one of the m most active vectors. Shuffled: the same with the states of other tokens. Intervals are 95 %, by bootstrap over texts; of fewer than 30, Student’s t, widened for skew."] },
    },
    similarity: {
      text: "What belongs together", hint: "Do vectors that belong together share more words than chance?", go: "Measure",
      what: "How many words do two vectors share that belong together (key and value of a unit, W_V and W_O, W_Q and W_K of a coordinate), against vectors of the same layer that do not, and against random directions?",
      controls: [field("similarity_k", "k words", { min: 1, max: 1000, step: 1 }), field("similarity_count", "Pairs of a layer", { min: 2, max: 100000, step: 1 })],
      height: (answer) => 90 + 250 * Math.ceil(new Set(answer.points.map((point) => point.pairing)).size / 2),
      ask: (view) => ({ ...named(view), reading: view.focus.reads, k: view.focus.similarity_k, count: view.focus.similarity_count }),
      table: (answer) => table("Overlap by layer", ["pairs", "layer", "overlap (95 %)", "random pairs", "random directions", "more than random pairs"], answer.points.map((point) => [PAIRINGS[point.pairing], point.layer === null ? "all" : String(point.layer), within(point.own), within(point.random), within(point.twin), within(point.more)]), ["", "number", "number", "number", "number", "number"]),
      csv: (answer) => [["pairs", "layer", ...heads("overlap"), ...heads("random pairs"), ...heads("random directions"), ...heads("difference")], ...answer.points.map((point) => [point.pairing, point.layer ?? "all", ...three(point.own), ...three(point.random), ...three(point.twin), ...three(point.more)])],
      about: { unit: "a share, from 0 to 1", source: SOURCE, definition: ["Jaccard overlap: |both| / |either| of the two sets of k words. Intervals are 95 %, by bootstrap over pairs; of fewer than 30, Student’s t, widened for skew."] },
    },
  };

  const studies = weights.experiments({ name: "studies", label: "Study", open: (view) => view.focus.study, choose: (study) => focus({ study }), kinds });
  weights.studies = studies;
})();
