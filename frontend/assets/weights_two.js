/* Two models: what changed from the open one to another, which of their layers are alike, one stitched onto the other. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const weights = lmscope.weights;
  const { focus } = weights;
  const { digits, few, fill, number, table } = lmscope.panelParts;
  const GROUPS = { q: "W_Q", k: "W_K", v: "W_V", o: "W_O", vo: "W_VO", qk: "W_QK", key: "keys", gate: "gates", up: "up projections", value: "values", bias: "biases", embedding: "embedding", unembedding: "output embedding", classifier: "classifier", pooler: "pooler", norm: "norms", position: "positions", other: "others" };
  const BY = [["norm", "size"], ["relative", "size over what was there"], ["moved", "how far it moves words"]];
  const SCORES = [["mean", "mean |correlation|", "Of all pairs of vectors of two layers, as published"], ["best", "best |correlation|", "The mean of each vector’s best, both ways"]];
  const KERNELS = { stitched: "stitched by the vocabulary", identity: "nothing in between", random: "random kernel" };
  const SOURCE = "Dar et al. 2023, “Analyzing transformers in embedding space”, §5.";
  const EXAMPLES = "Labelled texts that this server keeps, as the Steer page lists them under Make a slider: where the other model names texts, its accuracy on them is measured";
  const LABEL = "Which of the other model’s labels, counted from 0, is right on these texts; empty: the one that is named so";
  let kept = null; // cards of the labelled examples

  // ------------------------------------------------------------------ the other model

  function models(view) {
    const shelf = lmscope.shelf.now();
    const reads = (card) => !card.can || !card.can.weights || card.can.weights.can;
    return shelf ? shelf.models.filter((card) => card.name !== view.model && card.state !== "failed" && reads(card)) : [];
  }

  /** A choice whose options may change while it stands there; the chosen one is always among them. */
  const chosen = (id, label, options, key, hint = null) => () => {
    const { h } = lmscope.dom;
    const select = h("select", { id, onchange: () => focus({ [key]: select.value || null }) });
    const show = (view) => {
      const listed = options(view);
      const open = view.focus[key] || "";
      fill(select, listed.some(([value]) => value === open) ? listed : [...listed, [open, open.slice(0, 12) + " (not on this server)"]], open);
    };
    return { element: h("label.field", { title: hint }, h("span", {}, label), select), show };
  };
  const other = chosen("weights-two-other", "Other model", (view) => {
    const open = view.focus.other;
    const listed = models(view).map((card) => [card.name, card.name + (card.state === "loaded" ? "" : " (is loaded first)")]);
    return [["", "Choose …"], ...listed, ...(open && !listed.some(([name]) => name === open) ? [[open, open]] : [])];
  }, "other");
  const byString = () => {
    const made = lmscope.panel.check("Go by the tokens’ texts", "Where the vocabularies differ: only tokens that both write alike", (by_string) => focus({ by_string }));
    return { element: made.element, show: (view) => made.show(view.focus.by_string) };
  };

  const named = (view) => ({ model: view.model, revision: view.revision, other: view.focus.other, by_string: view.focus.by_string });
  const missing = (view) => {
    if (lmscope.shelf.now() === null) return " ";
    if (!models(view).length && !view.focus.other) return "This server has no other model: load one with the model picker first.";
    return view.focus.other ? (view.focus.other === view.model ? "Choose a model other than the open one." : "") : "Choose the other model.";
  };

  /** What both are compared over, and what was read how. */
  const said = (answer) => [shared(answer), ...measuredOn(answer)];
  const shared = ({ shared, reading }) => (shared.by_string ? "Over " + shared.tokens.toLocaleString("en") + " tokens that both write alike (" + Math.round((100 * shared.tokens) / shared.of) + " % of this model’s, " + Math.round((100 * shared.tokens) / shared.other_of) + " % of the other’s)" : "Over " + shared.tokens.toLocaleString("en") + " shared tokens") + ", " + reading + ".";
  const number3 = (value) => (value === null || value === undefined ? "n/a" : digits(value, 3));
  const within = (told) => (told ? digits(told.mean, 3) + " (" + digits(told.low, 3) + " to " + digits(told.high, 3) + ")" : "n/a");
  const three = (told) => (told ? [told.mean, told.low, told.high] : ["", "", ""]);

  /** What is measured beside the agreement, which is measured always. */
  const measured = ({ measure }) => (measure === "agreement" ? [] : [measure]);

  const chooser = (key, label, options) => () => {
    const made = lmscope.panel.select("weights-two-" + key, label, options, (value) => focus({ [key]: value }));
    return { element: made.element, show: (view) => made.show(view.focus[key]) };
  };

  // ------------------------------------------------------------------ what changed, in words

  function changedWords(answer) {
    const { h } = lmscope.dom;
    if (answer.same) return [h("p.note", {}, "Nothing differs in what was read so far."), ...classifier(answer)];
    const row = (one) => h("tr", {}, h("th", { scope: "row" }, one.name), h("td", {}, GROUPS[one.group]), h("td", {}, few(one.ends.highest)), h("td", {}, few(one.ends.lowest)), h("td", {}, number3(one.norm)));
    const vectors = scroller("What changed most, in words", h("table.weights-pairs.of-words.by-name", {}, h("thead", {}, h("tr", {}, ["vector", "of", "moved towards", "moved away from", "size"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, answer.vectors.map(row))));
    return [...(answer.vectors.length ? [h("h3", {}, "What changed most, in words"), vectors] : []), ...classifier(answer)];
  }

  function classifier(answer) {
    const { h } = lmscope.dom;
    if (!answer.classifier.length) return [];
    const words = (one, ids) => h("span.value-few", {}, ids.map((id) => h("span.value-word", {}, (one.side === "other" && answer.other_words[String(id)]) || answer.words[String(id)] || "id " + id)));
    const row = (one) => h("tr", {}, h("th", { scope: "row" }, one.label), h("td", {}, one.side === "model" ? "this model" : "the other"), h("td", {}, words(one, one.contrast.highest)), h("td", {}, words(one, one.contrast.lowest)), h("td", {}, number3(one.norm)));
    return [h("h3", {}, "The classifier’s labels, each less the mean of all"), scroller("The classifier’s labels", h("table.weights-pairs.of-words.by-name", {}, h("thead", {}, h("tr", {}, ["label", "of", "towards", "away from", "size"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, answer.classifier.map(row))))];
  }

  const scroller = (label, inside) => lmscope.dom.h("div.scrolls", { tabindex: "0", role: "region", "aria-label": label }, inside);

  // ------------------------------------------------------------------ layers

  function aligned(answer, view) {
    const { h } = lmscope.dom;
    if (!answer.groups.length) return [];
    const one = answer.groups.find(({ group }) => group === view.focus.alignment_group) || answer.groups[0];
    const select = h("select", { id: "weights-two-group", onchange: () => focus({ alignment_group: select.value }) });
    fill(select, answer.groups.map(({ group }) => [group, GROUPS[group]]), one.group);
    const chance = ({ same_by_chance: expected }) => (expected === null || expected === undefined ? "" : " (" + lmscope.dom.plain(Number(expected.toPrecision(2))) + " by chance)");
    const tell = (name, side) => side && side.pairs.length ? name + ": " + side.same + " of " + side.pairs.length + " layers meet the layer of the same number" + chance(side) + (side.order === null ? "" : ", rank correlation of the layers " + side.order.toFixed(2).replace("-", "−")) + "." : "";
    return [h("label.field", {}, h("span", {}, "Shown"), select), h("p.note", {}, [tell("In the vocabulary", one.projected), tell("Not projected", one.control), answer.control_why ? "No control: " + answer.control_why : "", "Rings: the layers that the Hungarian algorithm puts together."].filter(Boolean).join(" "))];
  }

  // ------------------------------------------------------------------ labelled examples

  const listed = () => [["", "texts without labels that come with LMScope"], ...(kept || []).map((card) => [card.id, "“" + card.name + "” (" + card.plus + " + " + card.minus + " texts)"])];

  /** A label of the other model, by its number. */
  const label = (pole, sign) => () => {
    const { h } = lmscope.dom;
    const input = h("input.panel-number.wide", { id: "weights-two-" + pole, type: "number", min: 0, max: 10000, step: 1, placeholder: "by name", onchange: () => input.checkValidity() && focus({ ["stitching_" + pole]: input.value === "" ? null : Number(input.value) }) });
    const element = h("label.field", { title: LABEL }, h("span", {}, "Label of " + sign + " texts"), input);
    const show = (view) => {
      element.hidden = !view.focus.stitching_examples;
      if (document.activeElement !== input) input.value = view.focus["stitching_" + pole] ?? "";
    };
    return { element, show };
  };

  /** Without labelled texts no label is right: they are not asked about. */
  function stitched(view) {
    const { stitching_texts: texts, stitching_examples: examples, stitching_positive: positive, stitching_negative: negative } = view.focus;
    return { ...named(view), texts, ...(examples ? { examples, positive, negative } : {}) };
  }

  function receive(cards) {
    if (!cards) return;
    kept = cards;
    two.again();
  }

  const measuredOn = (answer) => {
    if (!answer.named) return [];
    const names = answer.labels || [];
    const labels = answer.positive === null || answer.positive === undefined ? "" : ": “" + names[answer.positive] + "” is right on + texts, “" + names[answer.negative] + "” on − texts (labels from 0: " + names.join(", ") + ")";
    return ["Measured on " + answer.texts + " of " + answer.of + " texts of " + (answer.examples ? "the labelled examples" : "the prompt set") + " “" + answer.named + "”" + labels + "."];
  };

  const kinds = {
    changes: {
      text: "What changed", hint: "The other model less this one, vector by vector, in words", go: "Compare",
      what: "What became of this model’s parameters in the other one (a fine-tune of it, say): the difference of every vector, read as words it moved towards and away from.",
      controls: [chooser("changes_by", "Ranked by", BY)], missing,
      height: (answer) => 120 + Math.max(160, 16 * new Set(answer.sizes.map((one) => one.layer)).size),
      ask: (view) => ({ ...named(view), by: view.focus.changes_by }),
      words: changedWords,
      table: (answer) => table("Sizes of the change", ["layer", "parameters", "size of the change", "size before", "change over before", "numbers that differ"], answer.sizes.map((one) => [one.layer === null ? "none" : String(one.layer), GROUPS[one.group], number3(one.norm), number3(one.before), number3(one.relative), one.changed.toLocaleString("en") + " of " + one.numbers.toLocaleString("en")]), ["number", "", "number", "number", "number", "number"]),
      csv: (answer) => [["vector", "of", "layer", "size", "over before", "moves words by", "towards", "away from"], ...answer.vectors.map((one) => [one.name, one.group, one.layer ?? "", one.norm, one.relative ?? "", one.moved, ...[one.ends.highest, one.ends.lowest].map((ids) => ids.map((id) => answer.words[String(id)]).join(" | "))])],
      about: { unit: "sizes: norms of differences of parameters", source: SOURCE, definition: ["After minus before, by group of parameters and layer; both ends of each vector’s difference in the vocabulary of this model, and the vectors of a classifier where one has it."] },
    },
    alignment: {
      text: "Which layers are alike", hint: "Correlation of their vectors over the vocabulary, and the best matching of layers", go: "Align",
      what: "Two models’ vectors have no common coordinates, but both can be written in words. Layers whose vectors correlate over the vocabulary are alike; beside it the same without going through the vocabulary.",
      controls: [chooser("alignment_score", "Score", SCORES.map(([value, text]) => [value, text]))], missing, drawn: (view) => ({ group: view.focus.alignment_group }),
      height: () => 420,
      ask: (view) => ({ ...named(view), score: view.focus.alignment_score }),
      words: aligned,
      table: (answer) => table("Layers put together", ["parameters", "how", "layer", "layer of the other", "score"], answer.groups.flatMap((one) => [["in the vocabulary", one.projected], ["not projected", one.control]].flatMap(([how, side]) => (side ? side.pairs : []).map((pair) => [GROUPS[one.group], how, String(pair.layer), String(pair.other), number3(pair.score)]))), ["", "", "number", "number", "number"]),
      csv: (answer) => [["parameters", "how", "layer", "layer of the other", "score"], ...answer.groups.flatMap((one) => [["projected", one.projected], ["control", one.control]].flatMap(([how, side]) => (side ? side.pairs : []).map((pair) => [one.group, how, pair.layer, pair.other, pair.score])))],
      about: { unit: "a correlation, from 0 to 1", source: SOURCE, definition: ["Pearson correlation of two vectors’ numbers over the shared vocabulary, from d × d kernels of the embeddings; layers are matched one to one by the Hungarian algorithm."] },
    },
    stitching: {
      text: "Stitching", hint: "Lower layers of this model, upper layers of the other", go: "Stitch",
      what: "The lower blocks of this model are run, its states are carried over by the vocabulary (E E⁺, the pseudo-inverse), and the upper blocks of the other model go on. How well does that work?",
      controls: [() => {
        const made = number("weights-two-texts", "Texts", { min: 2, max: 2000, step: 1 }, (value) => focus({ stitching_texts: value }), "At most; of labelled ones as many of each label");
        return { element: made.element, show: (view) => made.show(view.focus.stitching_texts) };
      }, chosen("weights-two-examples", "Measured on", listed, "stitching_examples", EXAMPLES), label("positive", "+"), label("negative", "−")], missing,
      height: () => 360,
      ask: stitched,
      table: (answer) => table("Stitched models", ["lower blocks", "first upper block", "in between", ...measured(answer), "agreement with the upper model"], answer.points.map((point) => [String(point.lower), String(point.upper), KERNELS[point.kernel], ...measured(answer).map(() => within(point.value)), within(point.agreement)]), ["number", "number", "", "number", "number"]),
      csv: (answer) => [["lower", "upper", "kernel", ...[...measured(answer), "agreement"].flatMap((name) => [name, name + " low", name + " high"])], ...answer.points.map((point) => [point.lower, point.upper, point.kernel, ...measured(answer).flatMap(() => three(point.value)), ...three(point.agreement)])],
      about: { unit: "accuracy: a share; likelihood: nats a token; agreement: a cosine", source: SOURCE, definition: ["Controls: nothing in between (equal widths only), and a random kernel of the same singular values. Intervals are 95 %, by bootstrap over texts; of fewer than 30, Student’s t, widened for skew."] },
    },
  };

  const two = weights.experiments({ name: "two", label: "Comparison", open: (view) => view.focus.comparing, choose: (comparing) => focus({ comparing }), kinds, said, controls: [other, byString] });
  weights.two = two;
  weights.join({ start: () => window.dash_clientside.set_props("weights-kept-ask", { data: Date.now() }) });
  Object.assign(window.dash_clientside.weights, { kept: receive });
})();
