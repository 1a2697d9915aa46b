/* One value of the trace page: its words at both ends, its keys, values like it, its note, and its strength as an edit. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const { place, setProps, abilityOf } = lmscope.trace;
  const NAME = /^\s*L(\d{1,4})\s*[UD](\d{1,7})\s*$/i;
  const TOP = 16, SIMILAR = 8;
  const READINGS = [["folded", "Folded", "The final norm's gain is folded in (and, in a layer norm, its mean taken away)"], ["raw", "Raw", "The bare product with the output embedding, as LM-Debugger published it"]];
  const Z = "z is the logit less the value's mean over the vocabulary, over its standard deviation: it compares values of different size.";
  const SOURCE = "Geva et al. 2022, “LM-Debugger” (raw); Elhage et al. 2021 (folded).";
  let asked = null; // key of the question last asked
  let shown = null; // {answer, key}
  let reading = null; // the choice of the words
  let drawn = null; // what the body was drawn from
  let noted = { digest: null, notes: [] };
  const listeners = new Set(); // of the notes

  const nameOf = ({ layer, unit }) => "L" + layer + "U" + unit;
  const same = (one, other) => Boolean(one && other && one.layer === other.layer && one.unit === other.unit);

  /** `L12U34`, or as LM-Debugger wrote it `L12D34`; null when it names no value. */
  function parse(text) {
    const found = NAME.exec(text);
    return found && { layer: Number(found[1]), unit: Number(found[2]) };
  }

  /** Open a value; it stays in the link. */
  function open(layer, unit) {
    lmscope.view.update({ focus: { unit: { layer, unit } } }, { push: true });
    const title = place("value-title");
    if (!title) return;
    title.scrollIntoView({ block: "nearest" });
    title.tabIndex = -1;
    title.focus({ preventScroll: true });
  }

  // ------------------------------------------------------------------ asking

  function ask(view) {
    const unit = view.focus.unit;
    if (!unit || cannot(view)) return;
    const question = { model: view.model, revision: view.revision, layer: unit.layer, unit: unit.unit, top: TOP, similar: SIMILAR, reading: view.focus.reads };
    const key = JSON.stringify(question);
    if (key === asked) return;
    asked = key;
    setProps("value-ask", { data: { ask: question, key } });
  }

  function receive(data) {
    if (!data || data.key !== asked) return;
    shown = data;
    lmscope.trace.learn(data.answer.words);
    askNotes({ digest: data.answer.conditions.digest });
    again();
  }

  let turn = 0;

  function askNotes(question) {
    turn += 1;
    setProps("value-note-ask", { data: { ...question, turn } });
  }

  function receiveNotes(data) {
    if (!data) return;
    noted = data;
    const { announce } = lmscope.dom;
    if (data.written) announce("Kept");
    if (data.taken) announce(data.taken.written + " notes taken in, " + data.taken.older + " left as they were");
    if (data.exported) lmscope.download.json("lmscope-notes.json", data.exported);
    for (const listener of listeners) listener(noted);
    again();
  }

  const noteOf = (unit) => noted.notes.find((note) => note.part === "value" && note.layer === unit.layer && note.index === unit.unit);
  const again = () => lmscope.trace.isOpen() && draw(lmscope.view.get());

  function cannot(view) {
    const ability = abilityOf(view, "values");
    return ability && !ability.can ? ability.why || "This model does not offer them." : null;
  }

  // ------------------------------------------------------------------ the panel

  function start() {
    const { h } = lmscope.dom;
    asked = shown = drawn = null;
    reading = lmscope.panel.segmented("value-reading", "Words", READINGS, (reads) => lmscope.panel.focus({ reads }));
    place("value-tools").replaceChildren(reading.element, lmscope.info.button("values", about));
    const input = h("input", { type: "text", id: "value-name", size: 9, maxlength: 20, placeholder: "L12U34", spellcheck: "false", autocomplete: "off", "aria-describedby": "value-says" });
    const says = h("span.says", { id: "value-says", role: "alert" });
    input.addEventListener("input", () => { says.textContent = ""; input.removeAttribute("aria-invalid"); });
    const submit = (event) => {
      event.preventDefault();
      const unit = parse(input.value);
      const why = unit ? unfit(unit) : "Write layer and unit, such as L12U34 (or L12D34).";
      says.textContent = why || "";
      if (why) return input.setAttribute("aria-invalid", "true");
      input.value = "";
      return open(unit.layer, unit.unit);
    };
    place("value-open").replaceChildren(h("form.value-form", { onsubmit: submit }, h("label", { for: "value-name" }, "Open by name"), input, h("button.link", { type: "submit" }, "Open"), says));
  }

  function unfit({ layer, unit }) {
    const card = lmscope.shelf.card(lmscope.view.get());
    if (!card || !card.shape) return null;
    if (layer >= card.shape.layers) return "This model has layers 0 to " + (card.shape.layers - 1) + ", and " + nameOf({ layer, unit }) + " is in layer " + layer + ".";
    return null;
  }

  function about() {
    const definition = ["A value is a row of a block's write matrix: what one feed-forward unit adds to the residual stream for a coefficient of 1. The block's output is the sum of coefficient times value over its units, and a bias."];
    return { title: "Values", definition: [...definition, ...(shown ? [shown.answer.about] : [Z])], unit: "logits per unit of the coefficient; z has none", source: SOURCE, conditions: shown && shown.answer.conditions };
  }

  function draw(view) {
    if (!place("value-body")) return;
    reading.show(view.focus.reads);
    const why = cannot(view);
    const unit = view.focus.unit;
    const called = unit && noteOf(unit) && noteOf(unit).name;
    place("value-title").textContent = unit ? "Value " + nameOf(unit) + (called ? " · " + called : "") : "Value";
    if (why || !unit) return empty(view, why);
    const fits = shown && shown.key === asked && same(shown.answer.unit, unit);
    if (!fits) {
      if (!shown || !same(shown.answer.unit, unit)) redraw("nothing " + nameOf(unit), []);
      return undefined;
    }
    redraw(shown.key + JSON.stringify([noteOf(unit), digits()]), () => body(view));
    strength.show(view, unit);
    return undefined;
  }

  function empty(view, why) {
    const { h } = lmscope.dom;
    const card = lmscope.shelf.card(view);
    const example = card && card.shape ? { layer: card.shape.layers - 1, unit: 0 } : { layer: 0, unit: 0 };
    const try_ = h("button.link", { type: "button", onclick: () => open(example.layer, example.unit) }, nameOf(example));
    redraw("empty " + why + nameOf(example), () => (why ? [h("p.note", {}, "The values of this model cannot be read: " + why)] : [h("p.note", {}, "A value is what one feed-forward unit writes. Open one from a cell, from a search, or by its name: ", try_)]));
  }

  function redraw(state, make) {
    if (drawn === state) return;
    const typing = place("value-body").contains(document.activeElement) && document.activeElement.matches(".value-note :is(input, textarea)");
    if (typing && drawn && drawn.split('"layer"')[0] === state.split('"layer"')[0] && shown.key === asked) return; // a note that is being written stays
    drawn = state;
    place("value-body").replaceChildren(...(typeof make === "function" ? make() : make));
    for (const bar of place("value-body").querySelectorAll(".amount")) bar.style.width = 100 * Number(bar.dataset.share) + "%";
  }

  const digits = () => lmscope.numbers.digits(shown.answer.conditions);
  const number = (value) => lmscope.dom.digits(value, digits());
  const decimals = (value, places = 2) => (Number.isFinite(value) ? value.toFixed(places).replace("-", "−") : "n/a");
  const wordOf = (id) => lmscope.trace.wordOf(id);

  function body() {
    const { h } = lmscope.dom;
    const { answer } = shown;
    const most = Math.max(1e-12, ...answer.ends.highest_logit.map(Math.abs), ...answer.ends.lowest_logit.map(Math.abs));
    return [
      ...(answer.notices || []).map((said) => h("p.note", {}, said)),
      h("div.value-columns", {}, end("Promotes", answer.ends.highest, answer.ends.highest_logit, answer.highest_z, most, "up"), end("Suppresses", answer.ends.lowest, answer.ends.lowest_logit, answer.lowest_z, most, "down")),
      h("p.note", {}, "Norm " + number(answer.norm) + ". Over the whole vocabulary its logits have a mean of " + number(answer.mean) + " and a standard deviation of " + number(answer.deviation) + "."),
      h("div.value-columns", {}, h("div", {}, strength.element(), note(answer)), h("div", {}, keys(answer), similar(answer))),
    ];
  }

  function end(title, ids, logits, zs, most, way) {
    const { h } = lmscope.dom;
    const line = (id, i) => h("tr", {}, h("th", { scope: "row", title: "token " + id }, h("span.value-word", {}, wordOf(id))), h("td.lens-share", {}, h("span.amount." + way, { "data-share": Math.abs(logits[i]) / most })), h("td", {}, number(logits[i])), h("td", {}, zs.length ? decimals(zs[i]) : "n/a"));
    return h("table.lens-words.value-words", {}, h("caption", {}, title), h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "word"), h("td"), h("th", { scope: "col" }, "logit"), h("th", { scope: "col" }, "z"))), h("tbody", {}, ids.map(line)));
  }

  function keys(answer) {
    const { h } = lmscope.dom;
    if (!answer.keys.length) return null;
    const says = { key: "Its key reads", gate: "Its gate reads", up: "Its up projection reads" };
    const words = (ids) => h("span.value-few", {}, ids.slice(0, 6).map((id) => h("span.value-word", {}, wordOf(id))));
    return h("section.value-part", { "aria-label": "Keys" }, answer.keys.map((key) => h("div.value-key", {}, h("h3", {}, says[key.name] || key.name), h("p", {}, h("span.value-sign", {}, "toward"), words(key.ends.highest)), h("p", {}, h("span.value-sign", {}, "away from"), words(key.ends.lowest)))));
  }

  function similar(answer) {
    const { h } = lmscope.dom;
    if (!answer.similar.length) return null;
    const one = ({ unit, cosine }) => h("li", {}, h("button.link", { type: "button", onclick: () => open(unit.layer, unit.unit) }, nameOf(unit)), h("span.value-cosine", {}, decimals(cosine, 3)), h("span.value-called", {}, (noteOf(unit) || {}).name || ""));
    return h("section.value-part", { "aria-label": "Similar values" }, h("h3", {}, "Similar values"), h("p.hint", {}, "by the cosine of their directions, over all layers"), h("ul.value-similar", {}, answer.similar.map(one)));
  }

  function note(answer) {
    const { h } = lmscope.dom;
    const found = noteOf(answer.unit) || { name: "", text: "" };
    const name = h("input", { type: "text", id: "value-note-name", maxlength: 120, value: found.name, placeholder: "What your team calls it", autocomplete: "off" });
    const text = h("textarea", { id: "value-note-text", maxlength: 10000, rows: 2, value: found.text, placeholder: "What is known of it" });
    const submit = (event) => {
      event.preventDefault();
      const { layer, unit } = answer.unit;
      askNotes({ digest: answer.conditions.digest, write: { digest: answer.conditions.digest, part: "value", layer, index: unit, name: name.value.trim(), text: text.value.trim() } });
      document.activeElement.blur();
    };
    return h("form.value-part.value-note", { onsubmit: submit, "aria-label": "Name and note" }, h("h3", {}, "Name and note"), h("label", { for: "value-note-name" }, "Name"), name, h("label", { for: "value-note-text" }, "Note"), text, h("div.value-keep", {}, h("button.link", { type: "submit" }, "Keep"), h("span.hint", {}, "for everybody on this server; empty both to take it away")));
  }

  // ------------------------------------------------------------------ its strength

  const strength = (() => {
    const KINDS = [["none", "As trained"], ["off", "Off", "Its coefficient is 0"], ["ffn.scale", "× scale", "Its coefficient is multiplied"], ["ffn.set", "= set", "Its coefficient is this number"]];
    const FIRST = { off: { kind: "ffn.scale", by: 0 }, "ffn.scale": { kind: "ffn.scale", by: 2 }, "ffn.set": { kind: "ffn.set", to: 1 } };
    const UNIT = "In units of what the write matrix takes: the activation, in gated blocks the product act(g) · u.";
    let made = null; // {choice, slider, says}
    let state = null; // what the slider was made for
    let dragging = false;

    const isOf = (edit, { layer, unit }) => edit.kind.startsWith("ffn.") && edit.layer === layer && edit.unit === unit;
    const kindOf = (edit) => (!edit ? "none" : edit.kind === "ffn.scale" && edit.by === 0 ? "off" : edit.kind);

    function element() {
      const { h } = lmscope.dom;
      state = null;
      made = { choice: lmscope.panel.segmented("value-strength", "Strength", KINDS, choose), slider: h("div.value-slider"), says: h("p.hint") };
      made.slider.addEventListener("pointerdown", () => (dragging = true));
      for (const end of ["pointerup", "pointercancel", "change"]) made.slider.addEventListener(end, () => (dragging = false));
      return h("section.value-part", { "aria-label": "Strength" }, made.choice.element, made.slider, made.says);
    }

    function choose(kind) {
      const view = lmscope.view.get();
      const unit = view.focus.unit;
      const index = view.edits.findIndex((edit) => isOf(edit, unit));
      const edit = { at: index < 0 ? "all" : view.edits[index].at, on: true, layer: unit.layer, unit: unit.unit, ...FIRST[kind] };
      if (kind === "none") lmscope.view.update({ edits: view.edits.filter((_, i) => i !== index) }, { push: true });
      else if (index < 0) lmscope.edits.add(edit);
      else lmscope.view.update({ edits: view.edits.map((each, i) => (i === index ? edit : each)) }, { push: true });
      show(lmscope.view.get(), unit); // where it was not taken, the choice goes back
    }

    /** Follows the view, which the edit bar and Back change too; a slider under the hand is left alone. */
    function show(view, unit) {
      if (!made || dragging) return;
      const { h } = lmscope.dom;
      const index = view.edits.findIndex((edit) => isOf(edit, unit));
      const edit = view.edits[index];
      const others = view.edits.filter((each) => isOf(each, unit)).length - 1;
      made.choice.show(kindOf(edit));
      made.says.textContent = others > 0 ? others + " more of its edits in the edit bar; they act in order." : edit && !edit.on ? "Its edit is switched off in the edit bar." : UNIT;
      const now = JSON.stringify([index, edit && edit.kind]);
      const number = made.slider.querySelector("input[type=number]");
      if (now === state && !(number && Number(number.value) !== edit[lmscope.editKinds.strength(edit)])) return;
      state = now;
      made.slider.replaceChildren(...(edit ? [h("span.hint", {}, edit.kind === "ffn.set" ? "coefficient =" : "coefficient ×"), lmscope.edits.strength(index)] : []));
    }

    return { element, show };
  })();

  document.addEventListener("lmscope:value", (event) => open(event.detail.layer, event.detail.unit));
  lmscope.values = { open, parse, nameOf, noteOf, cannot, askNotes, onNotes: (listener) => listeners.add(listener), notes: () => noted, answer: () => shown && shown.answer };
  window.dash_clientside = Object.assign({}, window.dash_clientside, { values: { value: receive, notes: receiveNotes } });
  lmscope.trace.join({ start, ask, draw, retry: () => document.querySelector("#value-notice > *") && (asked = null) });
})();
