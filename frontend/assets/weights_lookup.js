/* A concept looked up by its words: what of the model lies nearest to their mean embedding. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const weights = lmscope.weights;
  const { place, focus, fixed, file, there, wordsOf } = weights;
  const { few, tools } = lmscope.panelParts;
  const AMONG = [["values", "values", "What feed-forward units write"], ["keys", "keys", "What feed-forward units read"], ["v", "W_V", "What single coordinates of heads read"], ["o", "W_O", "What single coordinates of heads write"], ["q", "W_Q", "What single coordinates of heads look with"], ["k", "W_K", "What single coordinates of heads are looked at by"]];
  const EXAMPLES = ["rain, snow, wind, storm", "three, five, seven, nine", "mother, father, sister, brother", "she, her, woman"]; // benchmarks/README.md: each finds readable groups
  const LIMIT = 30; // of each kind
  const lookup = weights.asking("weights-lookup");
  let fields = {};
  let drawn = null;

  function ask(view) {
    const words = wordsOf(view.focus.concept);
    if (words.length) lookup.send({ model: view.model, revision: view.revision, words, leave_out: view.focus.leave_out, reading: view.focus.reads, limit: LIMIT });
  }

  function start() {
    const { h } = lmscope.dom;
    lookup.start();
    drawn = null;
    const input = h("input", { type: "text", id: "weights-concept", maxlength: 2000, placeholder: EXAMPLES[0], spellcheck: "false", autocomplete: "off" });
    const among = lmscope.panel.segmented("weights-among", "Shown", AMONG, (value) => focus({ among: value }));
    const leaveOut = lmscope.panel.check("Leave out words of several tokens", "A concept is made of single tokens: another word refuses the question, or is left out and named", (leave_out) => focus({ leave_out }));
    const submit = (event) => {
      event.preventDefault();
      focus({ concept: input.value });
    };
    const examples = h("span.weights-examples", {}, "Try ", EXAMPLES.map((each) => h("button.link", { type: "button", onclick: () => focus({ concept: each }) }, each)));
    place("weights-lookup-form").replaceChildren(h("form.value-form", { onsubmit: submit }, h("label", { for: "weights-concept" }, "Words, with commas between them"), input, among.element, leaveOut.element, h("button.link", { type: "submit" }, "Look up"), examples));
    // The style sheet shows it where a refusal can be answered so (weights.css).
    place("weights-lookup-offer").replaceChildren(h("button", { type: "button", onclick: () => focus({ leave_out: true }) }, "Leave it out"));
    fields = { input, among, leaveOut };
    place("weights-lookup-tools").replaceChildren(...tools("what was found", () => [["CSV", csv], ["JSON of the answer", () => there(lookup.answer()) && lmscope.download.json(file("lookup") + ".json", lookup.answer())]], () => lookup.form() && weights.code([["concept", lookup.form()]]), about));
  }

  function about() {
    const answer = lookup.last();
    return { title: "Look up a concept", unit: "a dot product, without a unit", source: "Dar et al. 2023, §4; that the mean of all embeddings is taken away stands in their code.", conditions: answer && answer.conditions, definition: ["The concept is the mean embedding of its words, less the mean of all tokens. Feed-forward values and keys and the single vectors of every head, of all layers, are ranked by their dot product with it, each kind by itself.", ...(answer ? [answer.about] : [])] };
  }

  const nameOf = (one) => (one.unit === null ? one.layer + "." + one.head + " coordinate " + one.index : "L" + one.layer + "U" + one.unit);
  const groupOf = (answer, among) => answer.groups.find((group) => group.among === among);

  /** A unit opens among keys and values; a coordinate among the single vectors of its head. */
  function open(one, among) {
    if (one.unit !== null) return focus({ unit: { layer: one.layer, unit: one.unit } });
    const sizes = weights.shape(lmscope.view.get());
    const head = among === "k" || among === "v" ? one.head * Math.round(sizes.heads / sizes.kv_heads) : one.head;
    return focus({ heads: [{ layer: one.layer, head }], part: among });
  }

  function csv() {
    const answer = there(lookup.answer());
    if (!answer) return;
    const read = (ids) => ids.map((id) => answer.words[String(id)]).join(" | ");
    lmscope.download.csv(file("lookup") + ".csv", [["among", "what", "dot product", "cosine", "highest", "lowest"], ...answer.groups.flatMap((group) => group.found.map((one) => [group.among, nameOf(one), one.score, one.cosine, read(one.ends.highest), read(one.ends.lowest)]))]);
  }

  function draw(view) {
    const { h } = lmscope.dom;
    if (document.activeElement !== fields.input) fields.input.value = view.focus.concept;
    fields.among.show(view.focus.among);
    fields.leaveOut.show(view.focus.leave_out);
    const answer = view.focus.concept ? lookup.answer() : null;
    const target = place("weights-lookup-place");
    target.classList.toggle("stale", !answer && Boolean(target.children.length));
    if (!answer || JSON.stringify([lookup.form(), view.focus.among]) === drawn) return;
    drawn = JSON.stringify([lookup.form(), view.focus.among]);
    const group = groupOf(answer, view.focus.among);
    const spelled = answer.spellings.map(({ text }) => "“" + text + "”").join(", ");
    const searched = group.why ? "Not searched: " + group.why : "The mean of " + spelled + " among " + group.searched.toLocaleString("en") + " " + AMONG.find(([value]) => value === group.among)[1] + (group.among === "values" || group.among === "keys" ? "." : " vectors.");
    place("weights-lookup-note").textContent = [searched, ...answer.notices.map(lmscope.dom.sentence)].join(" ");
    const row = (one) => h("tr", {}, h("th", { scope: "row" }, h("button.link", { type: "button", onclick: () => open(one, group.among) }, nameOf(one))), h("td", {}, few(one.ends.highest)), h("td", {}, few(one.ends.lowest)), h("td", {}, fixed(one.score, answer)), h("td", {}, one.cosine.toFixed(3).replace("-", "−")));
    target.replaceChildren(h("table.weights-pairs.of-words", {}, h("thead", {}, h("tr", {}, ["where", "highest words", "lowest words", "dot product", "cosine"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, group.found.map(row))));
  }

  weights.lookup = { answer: lookup.answer };
  weights.join({ start, ask, draw, retry: lookup.retry });
})();
