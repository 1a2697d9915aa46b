/* Move a steer to another model that shares tokens with its own, and measure how much of its effect survives. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const steer = lmscope.steer;
  const { place, fileName } = steer;
  const { chooser, chosen, digits, editOf, evidence, fill, notes, tools, redraw, works } = steer.cards;
  const SOURCE = "Han et al. 2024, “LM-Steer”, §4.4: Hᵀ W H with E ≈ H E′; here in closed form over all shared tokens.";
  const form = { model: "", examples: "" };
  let choice = null;
  let fields = {};
  let drawn = null;
  const job = steer.jobs.follower("steer-transfer", { changed: () => { drawn = null; steer.again(); } });

  const keyOf = (card) => JSON.stringify([card.name, card.revision || null]);

  /** Models of this server that predict a next token, but for the steer's own. */
  function models(view) {
    const shelf = lmscope.shelf.now();
    const predicts = (card) => !card.can || !card.can.steer || card.can.steer.can;
    return shelf ? shelf.models.filter((card) => card.name !== view.model && card.state !== "failed" && predicts(card)) : [];
  }

  function question(view) {
    const card = chosen(view);
    const target = models(view).find((each) => keyOf(each) === form.model);
    if (!card || !target) return null;
    const short = target.name.split("/").pop().toLowerCase().replace(/[^a-z0-9._-]+/g, "-").replace(/^[^a-z0-9]+/, "");
    return { steer: card.id, model: target.name, revision: target.revision || null, name: (card.name + "-to-" + short).slice(0, 64), examples: form.examples || null };
  }

  function missing(view) {
    if (steer.shelf() === null || lmscope.shelf.now() === null) return " ";
    if (!chosen(view)) return "No steer fits this model yet: make one above.";
    if (!models(view).length) return "This server has no other model: load one with the model picker first.";
    if (job.isLive()) return "One is being moved.";
    return question(view) ? "" : "Choose the model that it shall fit.";
  }

  // ------------------------------------------------------------------ drawing

  function draw(view) {
    choice.show(view);
    form.model = fill(fields.model, [["", "Choose …"], ...models(view).map((card) => [keyOf(card), card.name + (card.state === "loaded" ? "" : " (is loaded first)")])], form.model) || "";
    form.examples = fill(fields.examples, [["", "those it was held out from"], ...steer.examples.kept().map((each) => [each.id, each.name + " (" + each.rows + ")"])], form.examples) || "";
    const state = JSON.stringify([job.about(), job.job(), job.isLive(), form, missing(view), view.model, view.edits.length]);
    if (state === drawn) return;
    drawn = state;
    const { h } = lmscope.dom;
    const why = missing(view);
    redraw(place("transfer-go-row"), [h("button", { type: "button", id: "transfer-go", disabled: Boolean(why), onclick: () => job.begin("transfer", question(lmscope.view.get())) }, "Move it"), h("span.note", {}, why.trim())]);
    redraw(place("transfer-state"), job.isLive() ? [h("p.make-what", {}, job.job() ? job.job().what : "waiting"), job.progress("Moved")] : job.endings("Stopped: nothing was moved.").map((text) => h("p.make-ending", {}, text)));
    redraw(place("transfer-done"), job.isDone() && job.answer() ? done(job.answer()) : []);
  }

  /** How much survives, in a sentence. */
  function survives(told) {
    if (!told) return "How much of its effect survives was not measured: no labelled texts were at hand.";
    const percent = (share) => (100 * share).toFixed(0).replace("-", "−") + " %";
    const some = told.low > 0 ? "" : " The interval holds 0: it is not shown that anything survives.";
    return percent(told.mean) + " of its effect survives (95 %: " + percent(told.low) + " to " + percent(told.high) + "; " + told.n + " texts)." + some;
  }

  function done(answer) {
    const { h } = lmscope.dom;
    const { card } = answer;
    const { ask } = job.about();
    const open = () => lmscope.view.update({ model: ask.model, revision: ask.revision || null, edits: [editOf(card)] }, { push: true });
    const side = (title, told) => h("div", {}, h("h3", {}, title), ...evidence(told, card));
    return [
      h("p.steer-verdict" + (answer.survives && answer.survives.low > 0 && works(answer.before) ? ".good" : ".doubt"), {}, h("strong", {}, survives(answer.survives))),
      ...notes(answer.notices),
      h("p", {}, answer.shared.toLocaleString("en") + " of " + answer.vocabulary.toLocaleString("en") + " tokens are in both vocabularies; on these the map explains " + digits(100 * answer.fit, 3) + " % of the output embedding."),
      h("div.transfer-sides", {}, side("In its own model", answer.before), side("In " + ask.model, answer.after)),
      h("div.steer-row", {}, h("button.primary", { type: "button", id: "transfer-open", onclick: open }, "Open " + ask.model + " with it")),
    ];
  }

  // ------------------------------------------------------------------ taking away

  const there = () => (job.isDone() && job.answer()) || void lmscope.dom.announce("Move a steer first");

  function csv() {
    const answer = there();
    if (!answer) return;
    const rows = ["before", "after"].flatMap((when) => (answer[when] ? ["plus", "minus", "random_plus", "random_minus"].map((part) => [when, part, answer[when][part].mean, answer[when][part].low, answer[when][part].high, answer[when][part].n]) : []));
    const survived = answer.survives ? [["", "survives (share)", answer.survives.mean, answer.survives.low, answer.survives.high, answer.survives.n]] : [];
    lmscope.download.csv(fileName("transfer") + ".csv", [["when", "what (NLL(+1) − NLL(−1), nats a token)", "mean", "low", "high", "texts"], ...rows, ...survived, ["", "fit", answer.fit, "", "", ""], ["", "shared tokens", answer.shared, "", "", answer.vocabulary]]);
  }

  const about = () => ({
    title: "Move to another model", unit: "shares; evidence in nats a token", source: SOURCE,
    definition: [
      "A linear map H between the output embeddings of both models is fitted by least squares over all tokens that both vocabularies have, in closed form. The steer becomes Hᵀ W H.",
      "Survives: the effect (minus − plus) in the new model over that in its own, on the same texts, with a 95 % interval (bootstrap over the texts of each pole; of fewer than 30 of one, Student’s t, widened for skew). The published method keeps about half.",
    ],
  });

  function start() {
    const { h } = lmscope.dom;
    drawn = null;
    choice = chooser("transfer-steer");
    fields.model = h("select", { id: "transfer-model", onchange: () => { form.model = fields.model.value; steer.again(); } });
    fields.examples = h("select", { id: "transfer-examples", onchange: () => { form.examples = fields.examples.value; } });
    place("transfer-form").replaceChildren(choice.element, h("label.field", {}, h("span", {}, "to"), fields.model), h("label.field", {}, h("span", {}, "measured on"), fields.examples), h("div.steer-row", { id: "transfer-go-row" }));
    place("transfer-tools").replaceChildren(...tools("the transfer", () => [["CSV of the numbers", csv], ["JSON of the answer", () => there() && lmscope.download.json(fileName("transfer") + ".json", job.answer())]], () => (question(lmscope.view.get()) ? steer.code({ transfer: [question(lmscope.view.get())] }) : lmscope.dom.announce("Choose the model that it shall fit")), about));
    job.start();
  }

  steer.transfer = { job };
  steer.join({ start, draw, retry: job.retry, anew: () => { drawn = null; } });
})();
