/* Values found by words or by a concept on the trace page, over all layers; and the notes of the team. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const { place, setProps, wordOf } = lmscope.trace;
  const { open, nameOf, noteOf } = lmscope.values;
  const ENDS = [["promoted", "promote"], ["suppressed", "suppress"], ["both", "either"]];
  const RANKS = [["logit", "logit"], ["z", "z", "The logit less the value's mean over the vocabulary, over its standard deviation"], ["concept", "concept", "Dar et al. 2023: the dot product with the mean embedding of the words, less that of all tokens"]];
  const AMONG = [["values", "values"], ["keys", "keys", "What a unit reads instead of what it writes"]];
  const EXAMPLES = ["London", "king, queen", "Monday", "not"];
  const LIMIT = 20;
  let refused = ""; // why the last file was not taken in
  let choice = { words: "", end: "promoted", ranked: "z", of: "values" };
  let asked = null;
  let found = null; // {answer, key}
  let drawn = null;
  let controls = null;

  const wordsOf = (text) => text.split(",").map((word) => word.trim()).filter(Boolean);

  function search(patch) {
    choice = { ...choice, ...patch };
    const words = wordsOf(choice.words);
    if (!words.length) return says(choice.words ? "Write a word, or several with commas between them." : "Write a word first.");
    says("");
    const view = lmscope.view.get();
    const named = { model: view.model, revision: view.revision, words, limit: LIMIT };
    const lookup = choice.ranked === "concept";
    const question = lookup ? { ...named, of: choice.of } : { ...named, end: choice.end, ranked: choice.ranked, reading: view.focus.reads };
    asked = JSON.stringify(question);
    setProps("search-ask", { data: { ask: question, lookup, key: asked } });
    return undefined;
  }

  /** A concept has no end and no reading, but it can be looked up among keys, too. */
  function shown() {
    const lookup = choice.ranked === "concept";
    controls.end.element.hidden = lookup;
    controls.of.element.hidden = !lookup;
  }

  function says(text) {
    place("search-says").textContent = text;
    if (text) place("search-words").setAttribute("aria-invalid", "true");
    else place("search-words").removeAttribute("aria-invalid");
  }

  function receive(data) {
    if (!data || data.key !== asked) return;
    found = data;
    lmscope.trace.learn(data.answer.words);
    if (lmscope.trace.isOpen()) draw(lmscope.view.get());
  }

  // ------------------------------------------------------------------ the form

  function start() {
    const { h } = lmscope.dom;
    asked = found = drawn = null;
    const again = (patch) => {
      choice = { ...choice, ...patch };
      shown();
      if (choice.words) search({});
    };
    const input = h("input", { type: "text", id: "search-words", maxlength: 2000, value: choice.words, placeholder: "London, Paris", spellcheck: "false", autocomplete: "off", "aria-describedby": "search-says" });
    input.addEventListener("input", () => says(""));
    controls = { end: lmscope.panel.segmented("search-end", "Values that", ENDS, (end) => again({ end })), ranked: lmscope.panel.segmented("search-ranked", "Ranked by", RANKS, (ranked) => again({ ranked })), of: lmscope.panel.segmented("search-of", "Among", AMONG, (of) => again({ of })) };
    for (const [name, control] of Object.entries(controls)) control.show(choice[name]);
    shown();
    const submit = (event) => (event.preventDefault(), search({ words: input.value }));
    place("search-form").replaceChildren(h("form.value-form", { onsubmit: submit }, h("label", { for: "search-words" }, "Words"), input, h("button.link", { type: "submit" }, "Search"), h("span.says", { id: "search-says", role: "alert" })), h("div.search-choices", {}, controls.end.element, controls.of.element, controls.ranked.element));
    place("search-tools").replaceChildren(lmscope.info.button("the search", about));
  }

  function about() {
    const definition = ["Every value of every layer is held against each way in which the tokenizer writes a word as one token; a value is listed once, with the word that it moves most. Nothing is indexed."];
    return { title: "Search values", definition: [...definition, ...(found ? [found.answer.about] : [])], unit: found && found.answer.found ? "the dot product has none that means something" : "logits per unit of the coefficient; z has none; rank counts from 0", source: "Concepts: Dar et al. 2023, §4 (the mean is taken away in their code). Words: Geva et al. 2022, “LM-Debugger”, whose keyword search ranks by BM25 over the 50 promoted words of each value.", conditions: found && found.answer.conditions };
  }

  // ------------------------------------------------------------------ what was found

  /** What was found belongs to one model and one reading: another one asks again. */
  function ask(view) {
    if (!found || !asked || lmscope.values.cannot(view)) return;
    const { model, revision, reading } = JSON.parse(asked);
    if (model !== view.model || revision !== view.revision || (reading && reading !== view.focus.reads)) search({});
  }

  function draw(view) {
    if (!place("search-found")) return;
    const why = lmscope.values.cannot(view);
    place("search-form").hidden = Boolean(why);
    const state = JSON.stringify([why, found && found.key, view.focus.unit, lmscope.values.notes(), view.model]);
    if (state === drawn) return;
    drawn = state;
    place("search-found").replaceChildren(...(why ? [lmscope.dom.h("p.note", {}, "The values of this model cannot be read: " + why)] : found ? results(found.answer, view) : examples()));
    place("value-library").replaceChildren(...(why ? [] : library()));
  }

  function examples() {
    const { h } = lmscope.dom;
    const one = (words) => h("button.link", { type: "button", onclick: () => ((place("search-words").value = words), search({ words })) }, words);
    return [h("p.note", {}, "Words in, values out: over all layers, without an index. Try ", EXAMPLES.flatMap((words, i) => [i ? " · " : "", one(words)]))];
  }

  function results(answer, view) {
    const { h } = lmscope.dom;
    const spelled = answer.spellings.map(({ id, text }) => h("span.value-word", { title: "token " + id }, printed(text)));
    const ranked = JSON.parse(found.key).ranked;
    const head = (text, extra) => h("th", { scope: "col", class: extra || null, "aria-sort": text === ranked ? "descending" : null }, text);
    if (answer.found) return concept(answer, view, spelled);
    return [
      h("p.note.search-spellings", {}, "Searched as ", spelled, " among " + answer.values.toLocaleString("en") + " values."),
      h("div.search-place", { tabindex: "0", role: "region", "aria-label": "Values found" }, h("table.search-table", {}, h("thead", {}, h("tr", {}, head("value"), head("word"), head("logit"), head("z"), head("rank"), head("its words at that end"))), h("tbody", {}, answer.hits.map((hit) => line(answer, hit, view))))),
    ];
  }

  /** What lies nearest to a concept, with its words at both ends. */
  function concept(answer, view, spelled) {
    const { h } = lmscope.dom;
    const of = JSON.parse(found.key).of;
    const figures = lmscope.numbers.digits(answer.conditions);
    const few = (ids) => h("td.search-ends", {}, h("span.value-few", {}, ids.map((id) => h("span.value-word", {}, wordOf(id)))));
    const line = (one) => h("tr", openMark(one.unit, view), unitHead(one.unit, view), h("td", {}, lmscope.dom.digits(one.score, figures)), few(one.ends.highest), few(one.ends.lowest));
    const head = (text, sorted) => h("th", { scope: "col", "aria-sort": sorted ? "descending" : null }, text);
    return [
      h("p.note.search-spellings", {}, "The mean of ", spelled, " among " + answer.searched.toLocaleString("en") + " " + of + "."),
      h("div.search-place", { tabindex: "0", role: "region", "aria-label": "Nearest to the concept" }, h("table.search-table", {}, h("thead", {}, h("tr", {}, head(of === "keys" ? "key of" : "value"), head("dot product", true), head("highest words"), head("lowest words"))), h("tbody", {}, answer.found.map(line)))),
    ];
  }

  const isOpen = (unit, view) => Boolean(view.focus.unit) && nameOf(view.focus.unit) === nameOf(unit);
  const openMark = (unit, view) => ({ "data-open": isOpen(unit, view) ? "yes" : null });

  function unitHead(unit, view) {
    const { h } = lmscope.dom;
    const note = noteOf(unit);
    return h("th", { scope: "row" }, h("button.link", { type: "button", "aria-current": isOpen(unit, view) ? "true" : null, onclick: () => open(unit.layer, unit.unit) }, nameOf(unit)), note && note.name ? h("span.value-called", {}, note.name) : null);
  }

  function line(answer, hit, view) {
    const { h } = lmscope.dom;
    const figures = lmscope.numbers.digits(answer.conditions);
    const ids = hit.end === "promoted" ? hit.ends.highest : hit.ends.lowest;
    return h("tr", openMark(hit.unit, view), unitHead(hit.unit, view),
      h("td.search-word", {}, h("span.search-way", { title: hit.end, "aria-label": hit.end }, hit.end === "promoted" ? "▲" : "▼"), h("span.value-word", {}, wordOf(hit.id))),
      h("td", {}, lmscope.dom.digits(hit.logit, figures)), h("td", {}, hit.z === null ? "n/a" : hit.z.toFixed(2).replace("-", "−")), h("td", {}, String(hit.rank)),
      h("td.search-ends", {}, h("span.value-few", {}, ids.map((id) => h("span.value-word", {}, wordOf(id))))));
  }

  const printed = (text) => lmscope.strip.printed({ piece: text, part: 0 }, true);

  // ------------------------------------------------------------------ notes of the team

  let filter = "";

  function library() {
    const { h } = lmscope.dom;
    const { digest, notes } = lmscope.values.notes();
    const list = h("ul.value-notes");
    const fill = () => {
      const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
      const fits = (note) => words.every((word) => (note.name + "\n" + note.text + "\n" + nameOf({ layer: note.layer, unit: note.index })).toLowerCase().includes(word));
      list.replaceChildren(...notes.filter((note) => note.part === "value" && fits(note)).map((note) => h("li", {}, h("button.link", { type: "button", onclick: () => open(note.layer, note.index) }, nameOf({ layer: note.layer, unit: note.index })), h("span.value-called", {}, note.name), h("span.hint", {}, note.text.slice(0, 160)))));
    };
    const typed = h("input", { type: "text", id: "value-filter", value: filter, placeholder: "Find a note", "aria-label": "Find a note", autocomplete: "off" });
    typed.addEventListener("input", () => { filter = typed.value; fill(); });
    fill();
    const file = h("input", { type: "file", accept: "application/json,.json", hidden: true, "aria-label": "Notes to take in", onchange: () => { take(file.files[0], digest); file.value = ""; } }); // emptied: the same file, mended, is a change again
    const own = digestOf();
    return [h("details", { open: place("value-library").querySelector("details")?.open || null, ontoggle: (event) => event.target.open && digest === null && own && lmscope.values.askNotes({ digest: own }) },
      h("summary", {}, "Notes" + (digest === null ? "" : " (" + notes.length + ")")),
      h("div.value-form", {}, typed, h("button.link", { type: "button", disabled: !own, onclick: () => lmscope.values.askNotes({ digest: own, export: true }) }, "Export JSON"), h("button.link", { type: "button", disabled: !own, onclick: () => file.click() }, "Import"), file, h("span.says", { id: "value-import-says", role: "alert" }, refused)),
      notes.length ? list : h("p.note", {}, "No value of this model has a name yet: open one and write what it is."))];
  }

  /** The weights that notes are about: what the card says, or the answers. */
  function digestOf() {
    const card = lmscope.shelf.card(lmscope.view.get());
    const known = [found && found.answer.conditions.digest, lmscope.values.notes().digest, card && card.digest];
    return known.find((digest) => /^[0-9a-f]{64}$/.test(digest || "")) || null;
  }

  async function take(file, digest) {
    const bad = (why) => (place("value-import-says").textContent = refused = why); // stays when the list is drawn anew
    refused = "";
    try {
      const given = JSON.parse(await file.text());
      if (!given || !Array.isArray(given.notes)) return bad("This file holds no notes: LMScope exports them as {“notes”: […]}.");
      lmscope.values.askNotes({ digest: digest || digestOf(), take: { notes: given.notes } });
    } catch {
      bad("This file is no JSON.");
    }
    return undefined;
  }

  const redraw = () => lmscope.trace.isOpen() && draw(lmscope.view.get());
  lmscope.values.onNotes(redraw);
  Object.assign(lmscope.values, { search, found: () => found && found.answer });
  Object.assign(window.dash_clientside.values, { found: receive });
  lmscope.trace.join({ start, ask, draw });
})();
