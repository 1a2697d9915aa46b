/* Top pairs of the open head, beside those of its random twin, and held against those of the other reading. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const weights = lmscope.weights;
  const { place, focus, named, headOf, nameOf, fixed, file, there, wordsOf } = weights;
  const { word, tools } = lmscope.panelParts;
  const TOP = 50;
  const SEED = 0; // of the random twin
  const SIGNS = [["highest", "Highest"], ["lowest", "Lowest"]];
  const APART = [["any", "all pairs"], ["tokens", "no token with itself"], ["words", "no spellings of one word"]];
  const ONLY = [["any", "any token"], ["text", "tokens of my text"], ["words", "a word list"]];
  const MATRIX = { vo: "W_VO", qk: "W_QK" };
  const HEADS = { vo: ["it reads", "it writes"], qk: ["looks", "is looked at"] };
  const SAYS = { vo: "When the head reads the word at the left, this is how far it moves the prediction to the word at the right.", qk: "How strongly the word at the left looks at the word at the right, before anything else in the text is known." };
  const pairs = weights.asking("weights-pairs", { changed: () => (askBeside(lmscope.view.get()), weights.again()) });
  const twin = weights.asking("weights-twin");
  const other = weights.asking("weights-other");
  let fields = {};

  // ------------------------------------------------------------------ questions

  const distanceOf = (view) => (view.focus.circuit === "qk" ? view.focus.distance : 0);

  function filtersOf(view) {
    const { letters, ascii, apart, only, words } = view.focus;
    const listed = wordsOf(words);
    return { letters, ascii, apart, text: only === "text" && view.text ? view.text : null, words: only === "words" && listed.length ? listed : null };
  }

  const pairsOf = (view) => ({ ...named(view), circuit: view.focus.circuit, sign: view.focus.lowest ? "lowest" : "highest", top: TOP, filters: filtersOf(view), distance: distanceOf(view) });

  function ask(view) {
    if (!weights.isKnown(view)) return;
    pairs.send(pairsOf(view));
    if (pairs.answer()) askBeside(view);
  }

  /** What the first table is held against comes when it is here: nobody waits for chance. */
  function askBeside(view) {
    const form = pairsOf(view);
    if (!distanceOf(view)) twin.send({ ...form, twin: SEED });
    other.send({ ...form, reading: form.reading === "folded" ? "raw" : "folded" });
  }

  // ------------------------------------------------------------------ controls

  function start() {
    const { h } = lmscope.dom;
    const { select, segmented, check } = lmscope.panel;
    for (const each of [pairs, twin, other]) each.start();
    const words = h("input", { type: "text", id: "weights-words", maxlength: 2000, placeholder: "Paris, London", "aria-label": "Words, with commas between them", onchange: () => focus({ words: words.value }) });
    const shown = {
      lowest: segmented("weights-sign", "Sign", SIGNS, (sign) => focus({ lowest: sign === "lowest" })), letters: check("Letters only", "Only tokens that are letters, a space before them aside", (letters) => focus({ letters })),
      ascii: check("ASCII only", "Only tokens of ASCII characters", (ascii) => focus({ ascii })), apart: select("weights-apart", "Pairs", APART, (apart) => focus({ apart })), only: select("weights-only", "Of", ONLY, (only) => focus({ only })),
    };
    place("weights-filters").replaceChildren(...Object.values(shown).map((field) => field.element), words);
    fields = { ...shown, words: { show: (value) => document.activeElement !== words && (words.value = value), element: words } };
    place("weights-pairs-tools").replaceChildren(...tools("the pairs", () => away(pairs, "pairs"), () => weights.code([["pairs", pairs.form()]]), () => about(pairs, "Top pairs")));
    place("weights-twin-tools").replaceChildren(...tools("the twin", () => away(twin, "twin"), () => twin.form() && weights.code([["pairs", twin.form()]]), () => about(twin, "Random twin")));
  }

  const away = (question, name) => {
    const called = file(lmscope.view.get().focus.circuit, nameOf(headOf(lmscope.view.get())), name);
    return [["CSV", () => csv(question, called)], ["JSON of the answer", () => there(question.answer()) && lmscope.download.json(called + ".json", question.answer())]];
  };

  function csv(question, called) {
    const answer = there(question.answer());
    if (!answer) return undefined;
    const read = (id) => answer.words[String(id)];
    return lmscope.download.csv(called + ".csv", [["row id", "row", "column id", "column", "score"], ...answer.pairs.map((pair) => [pair.row, read(pair.row), pair.column, read(pair.column), pair.score])]);
  }

  function about(question, title) {
    const answer = question.last();
    return { title, definition: ["The top pairs of a head’s matrix, tokens × tokens, exactly, without making that matrix; filters act inside the search, so what is left is exact, too.", ...(answer ? [answer.about] : [])], unit: "folded: logits of the prediction (W_VO) or of attention (W_QK); raw: a dot product", source: weights.SOURCE, conditions: answer && answer.conditions };
  }

  // ------------------------------------------------------------------ what stands there

  function draw(view) {
    const { focus: seen } = view;
    place("weights-other-notice").hidden = true; // nobody has asked for it: that there is none is said with the table
    fields.words.element.hidden = seen.only !== "words";
    for (const name of ["letters", "ascii", "apart", "only", "words"]) fields[name].show(seen[name]);
    fields.lowest.show(seen.lowest ? "lowest" : "highest");
    place("weights-pairs-title").textContent = (seen.lowest ? "Lowest" : "Top") + " pairs of " + MATRIX[seen.circuit] + ", head " + nameOf(headOf(view));
    table(pairs.answer(), place("weights-pairs-place"), view);
    if (distanceOf(view)) noTwin(place("weights-twin-place"));
    else table(pairs.answer() && twin.answer(), place("weights-twin-place"), view); // asked later, so that one of before may seem new
    said(view);
  }

  function noTwin(target) {
    target.drawn = null;
    target.classList.remove("stale");
    target.replaceChildren(lmscope.dom.h("p.note", {}, "At a distance the table is no single matrix, so it has no twin; at distance 0 it has one."));
  }

  function table(answer, target, view) {
    const { h } = lmscope.dom;
    target.classList.toggle("stale", !answer && Boolean(target.children.length));
    if (!answer || target.drawn === answer) return; // an older one stays, and the sheet says that it waits
    target.drawn = answer;
    const most = Math.max(1e-12, ...answer.pairs.map((pair) => Math.abs(pair.score)));
    const bar = (score) => {
      const made = h("span.amount." + (score < 0 ? "down" : "up"));
      made.style.width = (100 * Math.abs(score)) / most + "%";
      return made;
    };
    const rows = answer.pairs.map((pair, i) => h("tr", {}, h("td", {}, String(i + 1)), h("td", {}, word(pair.row)), h("td" + (pair.row === pair.column ? ".same" : ""), {}, word(pair.column)), h("td.lens-share", {}, bar(pair.score)), h("td", {}, fixed(pair.score, answer))));
    target.replaceChildren(h("table.weights-pairs", {}, h("thead", {}, h("tr", {}, ["#", ...HEADS[answer.circuit]].map((text) => h("th", { scope: "col" }, text)), h("td"), h("th", { scope: "col" }, "score"))), h("tbody", {}, rows)));
    if (view) target.scrollTop = 0;
  }

  const many = (count) => count.toLocaleString("en");
  const share = (part, of) => part + " of " + of + (of ? " (" + Math.round((100 * part) / of) + " %)" : "");

  function said(view) {
    const answer = pairs.answer();
    if (!answer) return;
    const key = (pair) => pair.row + " " + pair.column;
    const beside = other.answer() && new Set(other.answer().pairs.map(key));
    const none = !beside && other.refused() ? place("weights-other-notice").querySelector(".notice-why")?.textContent : "";
    const shared = beside ? answer.pairs.filter((pair) => beside.has(key(pair))).length : null;
    place("weights-said").textContent = [
      SAYS[answer.circuit],
      "Exact among " + many(answer.allowed) + " pairs (" + many(answer.rows) + " × " + many(answer.columns) + " tokens).",
      share(answer.same, answer.pairs.length) + " are a token with itself, " + answer.variants + " spellings of one word.",
      none ? "There is no " + (answer.reading === "folded" ? "raw" : "folded") + " table beside it: " + lmscope.dom.sentence(none.charAt(0).toLowerCase() + none.slice(1)) : "",
      shared === null ? "" : share(shared, answer.pairs.length) + " are in the " + (answer.reading === "folded" ? "raw" : "folded") + " table, too.",
      view.focus.only === "text" && !view.text ? "There is no text: any token may stand here." : "", ...answer.notices,
    ].filter(Boolean).join(" ");
  }

  weights.pairs = { answer: pairs.answer, refused: pairs.refused, twin: twin.answer, form: pairsOf };
  weights.join({ start, ask, draw, settled: pairs.settled, retry: () => [pairs, twin, other].forEach((each) => each.retry()) });
})();
