/* Sweep: one slider, or two, over a range of strengths: a job whose points fill in a picture, a table and sample texts. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const steer = lmscope.steer;
  const { place, fileName } = steer;
  const { chooser, digits, signed, fill, folded, table, lines, nats, notes, poles, tools, redraw } = steer.cards;
  const SOURCE = "Li et al. 2016 (distinct-n); paired bootstrap over texts; continuations share their random numbers.";
  const MEASURES = [["plus", "likelihood of the + pole"], ["minus", "likelihood of the − pole"], ["perplexity", "perplexity"], ["kl", "KL from the base"], ["distinct", "distinct 2-grams"]];
  const MOST = 31;
  const form = { low: -3, high: 3, count: 7, other: "", otherLow: -2, otherHigh: 2, otherCount: 5, examples: "", prompts: "", tokens: 20, control: true };
  let measure = "plus";
  let prompt = 0;
  let choice = null;
  let fields = {};
  let drawn = null;
  let poled = null; // the poles that the picture names
  let ranged = null; // the card whose range the form has taken over
  const job = steer.jobs.follower("steer-sweep", { drawn: () => ({ measure, ...(poled = asked()) }), changed: () => { drawn = null; steer.again(); } });

  const cardOf = (id) => steer.fitting().find((card) => card.id === id) || null;
  const chosen = (view) => steer.chosen(view) || steer.fitting()[0] || null;

  /** The poles of what was swept, which may not be what is chosen now. */
  function asked() {
    const ask = job.about() && job.about().ask;
    const card = ask && cardOf(ask.steer);
    return { plus: card ? card.plus : "+", minus: card ? card.minus : "−" };
  }

  /** `count` strengths from low to high; where they reach over 0 it is one of them, for everything is compared with it. */
  function strengths(low, high, count) {
    const even = (from, to, steps) => Array.from({ length: steps + 1 }, (_, i) => Number((from + ((to - from) * i) / Math.max(1, steps)).toPrecision(4)));
    if (low >= 0 || high <= 0 || count < 3) return even(low, high, count - 1);
    const below = Math.min(count - 2, Math.max(1, Math.round(((count - 1) * low) / (low - high))));
    return [...even(low, 0, below), ...even(0, high, count - 1 - below).slice(1)];
  }

  function question(view) {
    const card = chosen(view);
    if (!card) return null;
    const other = form.other ? cardOf(form.other) : null;
    const given = { view: { ...lmscope.panel.question(view), sampling: view.sampling }, steer: card.id, layer: card.layer ?? null, strengths: strengths(form.low, form.high, form.count), examples: form.examples || null, prompts: lines(form.prompts), tokens: form.tokens, control: form.control };
    return other ? { ...given, other: other.id, other_layer: other.layer ?? null, other_strengths: strengths(form.otherLow, form.otherHigh, form.otherCount) } : given;
  }

  function missing(view) {
    const ask = question(view);
    if (steer.shelf() === null) return " ";
    if (!ask) return "No slider fits this model yet: make one above.";
    if (job.isLive()) return "A sweep is running.";
    if (form.low >= form.high || (form.other && form.otherLow >= form.otherHigh)) return "The first strength must lie below the last.";
    if (ask.prompts.length && ask.prompts.length < 8) return "There are " + ask.prompts.length + " prompts, and at least 8 are needed; with none, neutral ones are taken.";
    const wrong = [...place("sweep-form").querySelectorAll("input[type=number]")].find((input) => !input.checkValidity());
    return wrong ? "Correct “" + wrong.closest("label").firstChild.textContent + "”: " + wrong.validationMessage : "";
  }

  // ------------------------------------------------------------------ the form

  function number(key, label, limits) {
    const { h } = lmscope.dom;
    const input = h("input", { type: "number", id: "sweep-" + key, required: true, ...limits, value: form[key], oninput: () => { if (input.checkValidity()) form[key] = Number(input.value); goRow(lmscope.view.get()); } });
    fields[key] = input;
    return h("label.make-field.short", {}, h("span", {}, label), input);
  }

  function build() {
    const { h } = lmscope.dom;
    choice = chooser("sweep-steer", steer.fitting, chosen);
    const strength = { min: -1000, max: 1000, step: "any" };
    const count = { min: 2, max: MOST, step: 1 };
    fields.other = h("select", { id: "sweep-other", onchange: () => { form.other = fields.other.value; steer.again(); } });
    fields.examples = h("select", { id: "sweep-examples", title: "Whose likelihood is measured", onchange: () => (form.examples = fields.examples.value) });
    const prompts = h("textarea", { id: "sweep-prompts", rows: 3, value: form.prompts, spellcheck: "false", placeholder: "Empty: neutral prompts that come with LMScope", oninput: () => { form.prompts = prompts.value; goRow(lmscope.view.get()); } });
    const control = lmscope.panel.check("Random steer beside it", "A random steer of equal norm and rank, at the same strengths", (on) => (form.control = on));
    control.show(form.control);
    place("sweep-form").replaceChildren(
      h("div.make-fields", {}, choice.element, number("low", "From", strength), number("high", "To", strength), number("count", "Strengths", count)),
      h("div.make-fields", {}, h("label.field", {}, h("span", {}, "with"), fields.other), h("span.make-fields", { id: "sweep-second", hidden: true }, number("otherLow", "From", strength), number("otherHigh", "To", strength), number("otherCount", "Strengths", count))),
      h("details.folded", {}, h("summary", {}, "More: labelled texts, prompts, tokens"), h("div.make-fields", {}, h("label.field", {}, h("span", {}, "Labelled texts"), fields.examples), number("tokens", "Tokens written", { min: 1, max: 128, step: 1 }), control.element), h("label.make-area", {}, h("span", {}, "Prompts, one a line, eight or more"), prompts)),
      h("div.steer-row", { id: "sweep-go-row" }));
  }

  function goRow(view) {
    const { h } = lmscope.dom;
    const ask = question(view);
    const why = missing(view);
    const count = ask ? ask.strengths.length * (ask.other_strengths ? ask.other_strengths.length : 1) : 0;
    redraw(place("sweep-go-row"), [h("button.primary", { type: "button", id: "sweep-go", disabled: Boolean(why), onclick: () => { prompt = 0; job.begin("sweep", question(lmscope.view.get())); } }, "Sweep " + count + " settings"), h("span.note", {}, why.trim())]);
  }

  /** A slider is swept over its own range until somebody says otherwise. */
  function overRange(view) {
    const card = chosen(view);
    if (!card || ranged === card.id) return;
    ranged = card.id;
    const round = (value) => Number(value.toPrecision(2));
    [form.low, form.high] = card.range ? [round(card.range.low), round(card.range.high)] : [-3, 3];
    [fields.low.value, fields.high.value] = [form.low, form.high];
  }

  // ------------------------------------------------------------------ drawing

  const isGrid = () => job.answer().points.some((point) => point.other !== null);
  const nameOf = (point) => signed(point.by, 3) + (point.other === null ? "" : " and " + signed(point.other, 3));

  function draw(view) {
    choice.show(view);
    overRange(view);
    const card = chosen(view);
    form.other = fill(fields.other, [["", "no second slider"], ...steer.fitting().filter((each) => !card || each.id !== card.id).map((each) => [each.id, poles(each)])], form.other) || "";
    place("sweep-second").hidden = form.other === "";
    form.examples = fill(fields.examples, [["", "those that the slider was held out from"], ...steer.examples.kept().map((each) => [each.id, each.name + " (" + each.rows + ")"])], form.examples) || "";
    const state = JSON.stringify([job.about(), job.job(), job.isLive(), measure, prompt, steer.shelf() === null, card && card.id, form]);
    if (state === drawn) return;
    drawn = state;
    goRow(view);
    redraw(place("sweep-state"), job.isLive() ? [job.progress("Swept")] : job.endings().map((text) => lmscope.dom.h("p.make-ending", {}, text)));
    const points = job.answer() ? job.answer().points : [];
    place("sweep-picture").hidden = points.length === 0;
    if (points.length) results();
    if (points.length && poled && poled.plus !== asked().plus) job.look(); // the shelf came after the picture
  }

  function results() {
    const { h } = lmscope.dom;
    const answer = job.answer();
    place("sweep-about").replaceChildren(lmscope.dom.sentence(answer.about) + legend(answer), ...notes(answer.notices));
    const select = h("select", { id: "sweep-measure-choice", onchange: () => { measure = select.value; job.look(); } });
    if (isGrid()) {
      fill(select, MEASURES, measure);
      redraw(place("sweep-measure"), [h("label.field", {}, h("span", {}, "Shown"), select)]);
    } else place("sweep-measure").replaceChildren();
    place("sweep-place").style.height = (isGrid() ? 460 : 640) + "px";
    samples(answer);
    folded(place("sweep-table"), "The sweep as a table", numbers);
  }

  /** The marks in words: a narrow screen has no room for a legend, and nothing is said by colour alone. */
  function legend(answer) {
    if (isGrid()) return "";
    const { plus, minus } = asked();
    return " Round marks: texts of “" + plus + "”; diamonds: texts of “" + minus + "”; n-grams: 1 solid, 2 dashed, 3 dotted." + (answer.control.length ? " Dotted with open marks: a random steer of equal norm and rank." : "");
  }

  /** What was written for one prompt, at every strength. */
  function samples(answer) {
    const { h } = lmscope.dom;
    const select = h("select", { id: "sweep-prompt", onchange: () => { prompt = Number(select.value); steer.again(); } });
    fill(select, answer.prompts.map((text, i) => [String(i), (i + 1) + ". " + text.slice(0, 60)]), String(prompt));
    const written = answer.points.filter((point) => point.samples[prompt] !== undefined);
    redraw(place("sweep-samples"), [
      h("label.field", {}, h("span", {}, "Texts after"), select),
      written.length ? h("div.sweep-scroller", { tabindex: "0", role: "region", "aria-label": "Texts at every strength" }, h("dl.sweep-texts", {}, written.map((point) => [h("dt", {}, nameOf(point)), h("dd", {}, point.samples[prompt])]))) : h("p.note", {}, "Nothing has been written yet."),
    ]);
  }

  /** An interval of changes of the NLL as what becomes of the text: likelier is above 0. */
  const likelier = (told) => (told ? nats(-told.mean) + " (" + nats(-told.high) + " to " + nats(-told.low) + ")" : "n/a");
  const within = (told) => digits(told.mean, 4) + " (" + digits(told.low, 4) + " to " + digits(told.high, 4) + ")";

  function numbers() {
    const { plus, minus } = asked();
    const line = (who) => (point) => [nameOf(point), who, likelier(point.plus), likelier(point.minus), within(point.perplexity), within(point.kl), ...(point.distinct || [NaN, NaN, NaN]).map((share) => (Number.isFinite(share) ? share.toFixed(3) : "n/a"))];
    const answer = job.answer();
    return table("What the slider does at every strength", ["strength", "steer", "“" + plus + "” likelier (nats a token)", "“" + minus + "” likelier (nats a token)", "perplexity", "KL (nats)", "distinct-1", "distinct-2", "distinct-3"], [...answer.points.map(line("this one")), ...answer.control.map(line("random"))], ["", "", ...Array(7).fill("number")]);
  }

  // ------------------------------------------------------------------ taking away

  const there = () => (job.answer() && job.answer().points.length ? job.answer() : void lmscope.dom.announce("Sweep a slider first"));

  function csv() {
    const answer = there();
    if (!answer) return;
    const three = (told) => (told ? [told.mean, told.low, told.high] : ["", "", ""]);
    const head = (name) => [name, name + " low", name + " high"];
    const line = (who) => (point) => [who, point.by, point.other ?? "", ...three(point.plus), ...three(point.minus), ...three(point.perplexity), ...three(point.kl), ...(point.distinct || ["", "", ""]), ...point.samples];
    lmscope.download.csv(fileName("sweep") + ".csv", [["steer", "strength", "second strength", ...head("NLL change of + texts (nats a token)"), ...head("NLL change of - texts (nats a token)"), ...head("perplexity"), ...head("KL (nats)"), "distinct-1", "distinct-2", "distinct-3", ...answer.prompts.map((text) => "after: " + text)], ...answer.points.map(line("this one")), ...answer.control.map(line("random"))]);
  }

  const about = () => ({
    title: "Sweep", unit: "nats a token; perplexity and shares have none", source: SOURCE,
    definition: [
      "At every strength: how much likelier held-out texts of each pole become than at 0 (the change of their NLL negated, in nats a token), the perplexity of neutral text, and KL(base ‖ steered) over its tokens. Intervals are 95 %, by bootstrap over texts; of fewer than 30, Student’s t, widened for skew.",
      "Distinct-n: different n-grams of tokens over all of them in what was written; it falls when a model repeats itself.",
      "The same prompts are continued at every strength with the same random numbers, so that only the slider differs.",
      "A random steer of equal norm and rank at the same strengths: what any matrix of this size would do.",
    ],
  });

  function start() {
    drawn = ranged = null;
    build();
    place("sweep-tools").replaceChildren(...tools("the sweep", () => [["PNG", () => there() && lmscope.download.plot("steer-sweep-figure", "png", fileName("sweep"))], ["SVG", () => there() && lmscope.download.plot("steer-sweep-figure", "svg", fileName("sweep"))], ["CSV of every strength", csv], ["JSON of the answer", () => there() && lmscope.download.json(fileName("sweep") + ".json", job.answer())]], () => (question(lmscope.view.get()) ? steer.code({ sweep: [question(lmscope.view.get())] }) : undefined), about));
    job.start();
  }

  steer.sweep = { job };
  steer.join({ start, draw, retry: job.retry, anew: () => { drawn = null; } });
})();
