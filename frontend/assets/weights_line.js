/* One row or column of a head's tables, as four questions about a word; it is the first thing that the page can say. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const weights = lmscope.weights;
  const { place, focus, named, headOf, nameOf, fixed, file, there } = weights;
  const { word, tools } = lmscope.panelParts;
  const { wordOf } = lmscope.panelWords;
  const WORDS = 12; // of each end
  const SPELLINGS = 3; // that are shown: Paris, ·Paris, paris
  const EXAMPLES = ["Paris", "Monday", "she", "not", "("];
  const QUESTIONS = {
    reads: { of: { circuit: "vo", line: "row" }, text: "What does the head write when it reads this word?", most: (w) => "It writes after " + w, least: (w) => "It takes away after " + w },
    writes: { of: { circuit: "vo", line: "column" }, text: "What must the head read to write this word?", most: (w) => "These make it write " + w, least: (w) => "These make it take away " + w },
    looks: { of: { circuit: "qk", line: "row" }, text: "What does this word look for?", most: (w) => w + " looks for", least: (w) => w + " looks away from" },
    seen: { of: { circuit: "qk", line: "column" }, text: "Who looks for this word?", most: (w) => w + " is looked for by", least: (w) => w + " is avoided by" },
  };
  const line = weights.asking("weights-line");
  let fields = {};
  let drawn = null;

  /** The word asked about: the view's, or the longest of its text, or one that most vocabularies have. */
  function wordFor(view) {
    if (view.focus.word) return view.focus.word;
    const found = (view.text || "").match(/\p{L}{3,}/gu) || [];
    return found.reduce((long, each) => (each.length >= long.length ? each : long), "") || "the";
  }

  const lineOf = (view) => {
    const { of } = QUESTIONS[view.focus.line];
    return { ...named(view), ...of, word: wordFor(view), top: WORDS, distance: of.circuit === "qk" ? view.focus.distance : 0 };
  };

  function ask(view) {
    if (weights.isKnown(view)) line.send(lineOf(view));
  }

  function start() {
    const { h } = lmscope.dom;
    line.start();
    drawn = null;
    const input = h("input", { type: "text", id: "weights-word", maxlength: 200, spellcheck: "false", autocomplete: "off" });
    const choice = h("select", { id: "weights-line", "aria-label": "Question", onchange: () => focus({ line: choice.value }) }, Object.entries(QUESTIONS).map(([value, { text }]) => h("option", { value }, text)));
    const submit = (event) => {
      event.preventDefault();
      focus({ word: input.value });
    };
    const examples = h("span.weights-examples", {}, "Try ", EXAMPLES.map((each) => h("button.link", { type: "button", onclick: () => focus({ word: each }) }, each)));
    place("weights-line-form").replaceChildren(h("form.value-form", { onsubmit: submit }, choice, h("label", { for: "weights-word" }, "Word"), input, h("button.link", { type: "submit" }, "Ask"), examples));
    fields = { input, choice };
    place("weights-line-tools").replaceChildren(...tools("the answer", away, () => line.form() && weights.code([["line", line.form()]]), about));
  }

  function away() {
    const called = file(nameOf(headOf(lmscope.view.get())), lmscope.view.get().focus.line);
    return [["CSV", () => csv(called)], ["JSON of the answer", () => there(line.answer()) && lmscope.download.json(called + ".json", line.answer())]];
  }

  function csv(called) {
    const answer = there(line.answer());
    if (!answer) return undefined;
    const read = (id) => answer.words[String(id)];
    const rows = (one, end) => one.ends[end].map((id, i) => [one.token, read(one.token), end, id, read(id), one.ends[end + "_logit"][i]]);
    return lmscope.download.csv(called + ".csv", [["of id", "of", "end", "id", "word", "score"], ...answer.lines.flatMap((one) => [...rows(one, "highest"), ...rows(one, "lowest")])]);
  }

  function about() {
    const answer = line.last();
    return {
      title: "Ask a head", unit: "folded: logits of the prediction (what it writes) or of attention (what is looked for); raw: a dot product", source: weights.SOURCE, conditions: answer && answer.conditions,
      definition: ["One row or one column of the head’s table, tokens × tokens. A row of W_VO is what the head writes when it reads the word, a column what it must read to write it; a row of W_QK is what the word looks for, a column who looks for it. Every spelling of the word that is one token is asked about.", ...(answer ? [answer.about] : [])],
    };
  }

  function draw(view) {
    const isOwn = Boolean(view.focus.word);
    if (document.activeElement !== fields.input) fields.input.value = wordFor(view);
    fields.choice.value = view.focus.line;
    place("weights-line-title").textContent = "Ask head " + nameOf(headOf(view));
    // nobody has asked for the first word: where it is no token there is no notice, but where the head cannot be read there is
    const isQuiet = !isOwn && !weights.pairs.refused();
    place("weights-line-notice").hidden = isQuiet;
    const answer = line.answer();
    const target = place("weights-line-place");
    target.classList.toggle("stale", !answer && Boolean(target.children.length));
    if (line.refused() && !isOwn && !answer) return target.replaceChildren(...(isQuiet ? [lmscope.dom.h("p.note", {}, "Ask about a word that this model’s tokenizer writes as one token.")] : []));
    if (!answer || answer === drawn) return undefined;
    drawn = answer;
    return target.replaceChildren(...spelled(answer, QUESTIONS[view.focus.line]));
  }

  function spelled(answer, question) {
    const { h } = lmscope.dom;
    const most = Math.max(1e-12, ...answer.lines.flatMap((one) => [...one.ends.highest_logit, ...one.ends.lowest_logit].map(Math.abs)));
    const bar = (score) => {
      const made = h("span.amount." + (score < 0 ? "down" : "up"));
      made.style.width = (100 * Math.abs(score)) / most + "%";
      return made;
    };
    const list = (ids, scores, title) => h("table.weights-pairs", {}, h("caption", {}, title), h("tbody", {}, ids.map((id, i) => h("tr", {}, h("td", {}, word(id)), h("td.lens-share", {}, bar(scores[i])), h("td", {}, fixed(scores[i], answer))))));
    const one = (told) => {
      const name = "“" + wordOf(told.token) + "”";
      return h("div.weights-line", {}, list(told.ends.highest, told.ends.highest_logit, question.most(name)), list(told.ends.lowest, told.ends.lowest_logit, question.least(name)), h("p.note", {}, "Over the whole vocabulary: mean " + fixed(told.mean, answer) + ", standard deviation " + fixed(told.deviation, answer) + "."));
    };
    const left = answer.lines.length - SPELLINGS;
    return [...answer.lines.slice(0, SPELLINGS).map(one), ...(left > 0 ? [h("p.note", {}, left + " more spellings are in the download.")] : []), ...answer.notices.map((notice) => h("p.note", {}, notice))];
  }

  weights.line = { answer: line.answer };
  weights.join({ start, ask, draw, retry: line.retry, settled: line.settled });
})();
