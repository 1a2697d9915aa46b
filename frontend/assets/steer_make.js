/* Make a slider: a name, two poles, examples that were checked; then a job with its curve, and the evidence in words. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const steer = lmscope.steer;
  const { place, fileName } = steer;
  const { evidence, range, editOf, isOn, table, folded, notes, tools, redraw, fill, digits } = steer.cards;
  const SOURCE = "Han et al. 2024, “LM-Steer”: trunk frozen, low-rank factors on the state after the final norm, Adam, language-model loss. Directions: difference of means (Turner et al. 2023; Rimsky et al. 2024), PCA (Zou et al. 2023).";
  const KINDS = [["make", "Steer", "LM-Steer: a matrix of low rank on what the output embedding receives"], ["direction", "Direction", "A vector added to the residual stream after one block"]];
  const NUMBERS = {
    steps: ["Steps at most", 300, { min: 1, max: 10000, step: 1 }, "It stops before, when held-out text has not become likelier for three checks"],
    rank: ["Rank", 32, { min: 1, max: 1024, step: 1 }, "Of the matrix"],
    batch: ["Batch", 32, { min: 1, max: 256, step: 1 }, "Texts a step"],
    rate: ["Learning rate", 0.01, { min: 0.000001, max: 1, step: "any" }, "Adam’s"],
    tokens: ["Tokens a text", 128, { min: 8, max: 1024, step: 1 }, "Longer texts are cut there"],
    held_out: ["Held out", 0.2, { min: 0.05, max: 0.5, step: "any" }, "Share of each pole’s texts that only judges"],
    seed: ["Seed", 0, { min: 0, max: 2147483647, step: 1 }, "The same seed gives the same slider"],
  };
  const OF = { make: ["steps", "rank", "batch", "rate", "tokens", "held_out", "seed"], direction: ["tokens", "held_out", "seed"] };
  const form = { kind: "make", name: "", plus: "", minus: "", padding: "masked", full: false, method: "means", token: "last", layer: null, owner: "" };
  const numbers = Object.fromEntries(Object.entries(NUMBERS).map(([name, [, start]]) => [name, start]));
  const job = steer.jobs.follower("steer-make", { changed: () => changed() });
  const { examples } = steer;
  let kinds = null;
  let drawn = null;
  let shelved = null; // the card that the shelf was told of

  // ------------------------------------------------------------------ what is asked

  /** A name as files and links may bear it. */
  const slug = (text) => text.normalize("NFKD").toLowerCase().replace(/[^a-z0-9._-]+/g, "-").replace(/^[^a-z0-9]+|-+$/g, "").slice(0, 64);
  const name = () => slug(form.name);

  function question() {
    const view = lmscope.view.get();
    const [plus, minus] = [form.plus.trim(), form.minus.trim()];
    const shared = { model: view.model, revision: view.revision, name: name(), plus, minus, examples: examples.card() ? examples.card().id : "" };
    const given = Object.fromEntries(OF[form.kind].map((each) => [each, numbers[each]]));
    if (form.kind === "direction") return { ...shared, ...given, layer: form.layer, method: form.method, token: form.token };
    return { ...shared, ...given, rank: form.full ? null : given.rank, padding: form.padding, owner: form.owner.trim() };
  }

  /** What is still missing, in words; empty when it can be made. */
  function missing() {
    const ask = question();
    if (job.isLive()) return "One is being made: stop it first, or wait.";
    if (!examples.card()) return "Check the examples first.";
    if (!ask.name) return "Give it a name.";
    if (!ask.plus || !ask.minus) return "Name both poles.";
    if (ask.plus === ask.minus) return "The poles need two names.";
    const wrong = [...place("make-form").querySelectorAll("input[type=number]")].find((input) => !input.disabled && !input.checkValidity());
    return wrong ? "Correct “" + wrong.closest("label").firstChild.textContent + "”: " + wrong.validationMessage : "";
  }

  function make() {
    if (missing()) return redrawForm();
    shelved = null;
    job.begin(form.kind, question());
    return lmscope.dom.announce("It is being made");
  }

  // ------------------------------------------------------------------ the form

  function text(key, label, placeholder, more = {}) {
    const { h } = lmscope.dom;
    const input = h("input", { type: "text", id: "make-" + key + "-field", maxlength: 60, value: form[key], placeholder, spellcheck: "false", autocomplete: "off", oninput: () => { form[key] = input.value; redrawForm(); }, ...more });
    return h("label.make-field", {}, h("span", {}, label), input);
  }

  function number(key) {
    const { h } = lmscope.dom;
    const [label, , limits, title] = NUMBERS[key];
    const input = h("input", { type: "number", id: "make-" + key, required: true, title, ...limits, value: numbers[key], oninput: () => { if (input.checkValidity()) numbers[key] = Number(input.value); redrawForm(); } });
    if (key === "rank") input.disabled = form.full;
    return h("label.make-field", {}, h("span", {}, label), input);
  }

  function choice(key, label, options, title) {
    const { h } = lmscope.dom;
    const input = h("select", { id: "make-" + key, title, onchange: () => { form[key] = key === "layer" ? Number(input.value) : input.value; redrawForm(); } });
    fill(input, options, String(form[key]));
    return h("label.make-field", {}, h("span", {}, label), input);
  }

  function layers() {
    const card = lmscope.shelf.card(lmscope.view.get());
    const count = card && card.shape ? card.shape.layers : 0;
    if (form.layer === null || form.layer >= count) form.layer = Math.floor(count / 2);
    return Array.from({ length: count }, (_, layer) => [String(layer), "block " + layer]);
  }

  /** What belongs to the kind that is made. */
  function settings() {
    const { h } = lmscope.dom;
    if (form.kind === "direction") {
      return [
        h("div.make-fields", {}, choice("layer", "Added after", layers()), choice("method", "Method", [["means", "difference of means"], ["pca", "PCA of pairs, in order"]], "PCA: first principal direction of the differences of pairs; the texts of both poles are paired in their order"), choice("token", "State of", [["last", "the last token"], ["mean", "the mean over tokens"]])),
        h("details.folded", {}, h("summary", {}, "More"), h("div.make-fields", {}, OF.direction.map(number))),
      ];
    }
    const full = lmscope.panel.check("Full matrix", "As many numbers as width × width, instead of two factors", (on) => { form.full = on; place("make-rank").disabled = on; redrawForm(); });
    full.show(form.full);
    return [h("details.folded", { id: "make-more" }, h("summary", {}, "More: rank, steps, padding"), h("div.make-fields", {}, OF.make.map(number), choice("padding", "Padding", [["masked", "left out of the loss"], ["as published", "in the loss, as published"]], "LM-Steer’s code counts padding tokens in its loss"), text("owner", "Owner", "whose it is"), full.element))];
  }

  function redrawForm() {
    if (!place("make-go-row") || !lmscope.view.get()) return;
    const { h } = lmscope.dom;
    examples.labels(form.plus.trim(), form.minus.trim());
    const why = missing();
    redraw(place("make-go-row"), [
      h("button.primary", { type: "button", id: "make-go", disabled: Boolean(why), onclick: make }, form.kind === "make" ? "Make the steer" : "Make the direction"),
      h("span.note", { id: "make-why" }, why || (form.name && name() !== form.name ? "It is kept as " + name() + "." : "")),
    ]);
  }

  function build() {
    const { h } = lmscope.dom;
    kinds = lmscope.panel.segmented("make-kind", "Make", KINDS, (kind) => { form.kind = kind; place("make-settings").replaceChildren(...settings()); redrawForm(); });
    kinds.show(form.kind);
    place("make-form").replaceChildren(
      kinds.element,
      h("div.make-fields", {}, text("name", "Name", "film-mood", { maxlength: 64 }), text("plus", "+ pole", "positive"), text("minus", "− pole", "negative")),
      ...examples.elements(redrawForm),
      h("div", { id: "make-settings" }, settings()),
      h("div.steer-row", { id: "make-go-row", "aria-live": "polite" }));
    examples.draw();
    redrawForm();
  }

  // ------------------------------------------------------------------ the job, and what came of it

  function changed() {
    drawn = null;
    if (steer.isOpen()) {
      redrawForm();
      steer.again();
    }
  }

  const asked = () => (job.about() ? job.about().ask : null);
  const made = () => (job.isDone() && job.answer() ? job.answer() : null);

  function state() {
    const { h } = lmscope.dom;
    if (job.isLive()) {
      const what = job.job() ? job.job().what : "waiting";
      return [h("p.make-what", {}, h("strong", {}, asked() ? asked().name + ": " : ""), what), job.progress("Making")];
    }
    return job.endings("Stopped: nothing was put on the shelf.").map((text) => h("p.make-ending", {}, text));
  }

  function done(view) {
    const { h } = lmscope.dom;
    const answer = made();
    if (!answer || !answer.card) return job.about() || job.isLive() ? [] : [empty()];
    const { card } = answer;
    const here = view.model === asked().model && (view.revision || null) === (asked().revision || null);
    const on = here && isOn(view, card);
    const put = () => {
      const edits = here ? view.edits : [];
      lmscope.view.update({ ...(here ? {} : { model: asked().model, revision: asked().revision || null }), edits: [...edits, editOf(card)] }, { push: true });
      lmscope.dom.announce(card.name + " is on a slider, at +1");
    };
    return [
      h("h3", {}, "“" + card.name + "” is on the shelf"),
      ...evidence(card.evidence, card),
      h("p.note", {}, range(card.range)),
      ...notes([...(answer.cut ? [answer.cut + " texts were longer than allowed and were cut"] : []), ...answer.notices]),
      h("div.steer-row", {},
        h("button.primary", { type: "button", id: "make-put", disabled: on, onclick: put }, on ? "It is on a slider" : here ? "Put it on a slider" : "Open " + asked().model + " with it"),
        h("button", { type: "button", onclick: () => { lmscope.panel.focus({ steer: card.id }); place("sweep-title").closest(".sheet").scrollIntoView(); } }, "Sweep it")),
    ];
  }

  function empty() {
    const { h } = lmscope.dom;
    return h("div.empty", {}, h("p", {}, "Paste at least 20 texts of each pole, such as praise and blame, or formal and casual; a few hundred of each make a better slider. Some are held out: they say whether it works, beside a random steer of equal norm."));
  }

  function picture() {
    const points = job.answer() ? job.answer().curve : [];
    place("make-picture").hidden = points.length === 0;
    if (!points.length) return;
    const { best } = job.answer();
    place("make-legend").textContent = "Solid line, round marks: texts that train. Dashed line, diamonds: held-out texts that decide when to stop.";
    folded(place("make-table"), "The curve as a table", () => table("Loss at every check", ["step", "training texts", "held-out texts"], points.map((point) => [point.step + (point.step === best ? " (kept)" : ""), digits(point.train, 4), digits(point.held_out, 4)]), ["", "number", "number"]));
  }

  function draw(view) {
    const ability = steer.abilityOf(view, "steer");
    const why = ability && !ability.can ? lmscope.dom.sentence(ability.why) : "";
    place("make-refused").textContent = why;
    place("make-body").hidden = Boolean(why);
    const answer = made();
    if (answer && answer.card && shelved !== answer.card.id) {
      shelved = answer.card.id;
      steer.refresh();
      examples.refresh();
    }
    const now = JSON.stringify([job.about(), job.job(), job.isLive(), view.edits, view.model, view.revision]);
    if (now === drawn) return;
    drawn = now;
    redrawForm();
    redraw(place("make-state"), state());
    redraw(place("make-done"), done(view));
    picture();
    if (form.kind === "direction" && place("make-layer")) fill(place("make-layer"), layers(), String(form.layer));
  }

  // ------------------------------------------------------------------ taking away

  const curve = () => (job.answer() && job.answer().curve.length ? job.answer().curve : void lmscope.dom.announce("Make a slider first"));

  function csv() {
    if (curve()) lmscope.download.csv(fileName("making") + ".csv", [["step", "training texts (nats a token)", "held-out texts (nats a token)"], ...curve().map((point) => [point.step, point.train, point.held_out])]);
  }

  const about = () => ({
    title: "Make a slider", unit: "nats a token", source: SOURCE,
    definition: [
      "A steer adds c W to the state c that the output embedding receives, ε = 1/1000 of a step at the published scale; the slider is scaled so that 1 is the step at which its evidence was measured. The model itself is never changed.",
      "Of each pole’s texts a share is held out: half of it decides when to stop, the other half is the evidence, and the making never sees it. Evidence is the mean over these texts of NLL(+1) − NLL(−1) in nats a token, with a 95 % interval (bootstrap over texts; of fewer than 30 Student’s t, widened for skew), beside a random steer of equal norm and rank.",
      "Padding is left out of the loss; “as published” counts it, as LM-Steer’s code does.",
      "A direction is the mean state of the + texts minus that of the − texts, or the first principal direction of the differences of pairs.",
    ],
  });

  function code() {
    const ask = examples.card() ? question() : asked();
    if (!ask || !ask.name) return lmscope.dom.announce("Check examples and name the slider first");
    return steer.code({ [examples.card() ? form.kind : job.about().kind]: [ask] });
  }

  function start() {
    drawn = null;
    build();
    place("make-tools").replaceChildren(...tools("the making", () => [["PNG of the curve", () => curve() && lmscope.download.plot("steer-make-figure", "png", fileName("making"))], ["SVG of the curve", () => curve() && lmscope.download.plot("steer-make-figure", "svg", fileName("making"))], ["CSV of the curve", csv], ["JSON of the answer", () => curve() && lmscope.download.json(fileName("making") + ".json", job.answer())]], code, about));
    examples.refresh();
    job.start();
  }

  steer.make = { name, job, form, question };
  steer.join({ start, draw, retry: job.retry, anew: () => { drawn = null; } });
})();
