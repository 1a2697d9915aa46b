/* The shelf of sliders: each steer and direction of this model with its poles and its evidence. They are edits of the view. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const steer = lmscope.steer;
  const { place } = steer;
  const AT = [["all", "All"], ["prompt", "Prompt"], ["generated", "Continuation"]];
  const UNKNOWN = 3; // the ends of a slider whose range nobody has measured
  const KEYS_MS = 1200; // pauses shorter than this between keys make one entry for Back
  const rows = new Map(); // key of a card -> what is drawn of it
  const places = new Map(); // key of a card -> which tokens, for the edit that is made next
  let held = null; // key of the slider in the hand
  let released = { key: null, at: 0 };
  let drawn = null; // what the list was made from

  // ------------------------------------------------------------------ sliders and edits

  const keyOf = (card) => [card.kind, card.id, card.kind === "direction" ? card.layer : ""].join(" ");
  const isOf = (card) => (edit) => (card.kind === "steer" ? edit.kind === "steer" && edit.steer === card.id : edit.kind === "residual.add" && edit.vector === card.id && edit.layer === card.layer);
  const editOf = (view, card) => view.edits.find(isOf(card)) || null;
  const valueOf = (view, card) => { const edit = editOf(view, card); return edit && edit.on ? edit.by : 0; };

  function made(card, by) {
    const part = card.kind === "steer" ? { kind: "steer", steer: card.id } : { kind: "residual.add", layer: card.layer, vector: card.id };
    return { ...part, at: places.get(keyOf(card)) || "all", on: true, by };
  }

  /** The edits of the view with sliders put to values, [[card, value], …]; `live`: 0 keeps its edit, for the hand may go on. */
  function withValues(edits, values, live) {
    let next = edits;
    for (const [card, by] of values) {
      const old = next.find(isOf(card));
      if (old) places.set(keyOf(card), old.at);
      if (old && (by !== 0 || live)) next = next.map((each) => (each === old ? { ...old, by, on: true } : each));
      else if (old) next = next.filter((each) => each !== old);
      else if (by !== 0) next = [...next, made(card, by)];
    }
    return next;
  }

  /** While a slider is in the hand: what the page shows follows, and nothing else. */
  function follow(key, values) {
    held = key;
    lmscope.view.update({ edits: withValues(lmscope.view.get().edits, values, true) }, { live: true });
  }

  /** The slider is let go: one entry for Back; a slider moved by keys makes one when it began. */
  function settle(key, values, byKeys = false) {
    held = null;
    const now = performance.now();
    const again = byKeys && released.key === key && now - released.at < KEYS_MS;
    released = { key, at: now };
    const edits = withValues(lmscope.view.get().edits, values, false);
    const most = lmscope.dom.config().edits;
    if (edits.length > most) {
      lmscope.dom.announce("A view carries at most " + most + " edits");
      return steer.again();
    }
    lmscope.view.update({ edits }, { push: !again });
    return listeners.forEach((listener) => listener());
  }

  const listeners = new Set(); // told when a slider was let go

  // ------------------------------------------------------------------ ends

  /** Where a slider begins and ends, and its steps: whole steps from 0, so that 0 can be met. */
  function ends(card) {
    const { low, high } = card.range || { low: -UNKNOWN, high: UNKNOWN };
    const step = 10 ** Math.floor(Math.log10(Math.max(high - low, 1e-6))) / 20;
    const whole = (value) => Number((Math.trunc(value / step) * step).toPrecision(6));
    return { low: whole(low), high: whole(high), step };
  }

  const plain = (value) => lmscope.dom.plain(value);
  const withSign = (value) => (value > 0 ? "+" : "") + plain(value);

  function rangeWords({ range }) {
    if (!range) return "No range was measured: the slider ends at −" + UNKNOWN + " and +" + UNKNOWN + ".";
    const end = (value, doubled) => (doubled ? "" : "not by ") + withSign(Number(value.toPrecision(3))) + (doubled ? "" : ", as far as was tried");
    return range.doubled[0] || range.doubled[1] ? "Neutral text doubles its perplexity at " + end(range.low, range.doubled[0]) + " and " + end(range.high, range.doubled[1]) + "." : "Perplexity of neutral text does not double within " + end(range.low, true) + " and " + end(range.high, true) + ".";
  }

  /** What to know of a value outside the range; empty inside it. */
  function warning(card, value) {
    const { low, high } = card.range || { low: -UNKNOWN, high: UNKNOWN };
    if (value >= low && value <= high) return "";
    if (!card.range) return "Beyond what the slider offers, and nobody has measured what it does there.";
    return card.range.doubled[value < low ? 0 : 1] ? "Beyond " + withSign(Number((value < low ? low : high).toPrecision(3))) + " neutral text has more than twice its perplexity: expect nonsense." : "Beyond what was tried when its range was measured.";
  }

  // ------------------------------------------------------------------ evidence in words

  const nats = (value) => (value > 0 ? "+" : "") + value.toFixed(3).replace("-", "−");
  const interval = ({ mean, low, high }) => nats(mean) + " nats a token [" + nats(low).replace("+", "") + ", " + nats(high).replace("+", "") + "]";

  const chance = (card) => (card.kind === "direction" ? "a random direction" : "a random steer");

  /** The evidence of a slider in one sentence. */
  function evidence(card) {
    const found = card.evidence;
    if (!found) return "No evidence: nothing was measured on held-out texts.";
    const [plus, minus] = [found.plus.high < 0, found.minus.low > 0];
    const numbers = interval(found.plus) + "; " + chance(card) + " " + nats(found.random_plus.mean) + ".";
    if (plus && minus) return "More " + card.plus + " on " + found.plus.n + " held-out texts: " + numbers;
    if (plus) return "More " + card.plus + " on " + found.plus.n + " held-out texts: " + numbers + " Towards " + card.minus + " nothing was shown.";
    return "No effect shown on " + found.plus.n + " held-out texts of “" + card.plus + "”: " + numbers;
  }

  function details(card) {
    const { h } = lmscope.dom;
    const found = card.evidence;
    const line = (name, each, random) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, each.n), h("td", {}, nats(each.mean)), h("td", {}, nats(each.low) + " to " + nats(each.high)), h("td", {}, nats(random.mean) + " (" + nats(random.low) + " to " + nats(random.high) + ")"));
    const table = found && h("div.scrolls", { tabindex: "0", role: "region", "aria-label": "Evidence of " + card.name }, h("table.numbers", {}, h("caption", {}, "NLL at +1 minus NLL at −1, nats a token, means over texts with 95 % intervals"),
      h("thead", {}, h("tr", {}, ["texts", "n", "mean", "interval", chance(card).slice(2)].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, line(card.plus, found.plus, found.random_plus), line(card.minus, found.minus, found.random_minus))));
    const { data } = card;
    return h("details.slider-details", {}, h("summary", {}, "Evidence, data and range"), table, found ? h("p.note", {}, found.about) : null, h("p.note", {}, rangeWords(card)),
      lmscope.info.facts([
        ["made for", card.model], ["rank", card.rank === null ? "" : String(card.rank)], ["layer", card.layer === null ? "" : "after block " + card.layer],
        ["data", data ? data.name + ": " + data.plus + " " + card.plus + ", " + data.minus + " " + card.minus + ", " + data.held_out + " held out" : "not stated"], ["licence", data ? data.licence : ""],
        ["owner", card.ours ? "comes with LMScope" : card.owner], ["recipe", card.recipe], ["id", card.id.slice(0, 12)],
      ]));
  }

  // ------------------------------------------------------------------ one slider

  function row(card, note) {
    const { h } = lmscope.dom;
    const key = keyOf(card);
    const { low, high, step } = ends(card);
    const { MOST } = lmscope.editKinds;
    const where = card.kind === "direction" ? " (direction after block " + card.layer + ")" : "";
    const slider = h("input", { type: "range", min: low, max: high, step, "aria-label": card.name + where + ", from " + card.minus + " to " + card.plus });
    const number = h("input", { type: "number", step: "any", min: -MOST, max: MOST, required: true, "aria-label": card.name + where + ", exactly" });
    const zero = h("button.slider-zero", { type: "button", title: "Set to 0", "aria-label": "Set " + card.name + " to 0", onclick: () => settle(key, [[card, 0]]) }, "0");
    const says = h("p.slider-warning", { role: "status" });
    const set = (value) => {
      says.textContent = warning(card, value);
      slider.setAttribute("aria-valuetext", withSign(value) + (value === 0 ? ", off" : value > 0 ? ", " + card.plus : ", " + card.minus));
    };
    let keys = false;
    slider.addEventListener("keydown", () => (keys = true));
    slider.addEventListener("pointerdown", () => {
      keys = false;
      held = key;
    });
    for (const end of ["pointerup", "pointercancel"]) slider.addEventListener(end, () => setTimeout(() => held === key && !lmscope.view.isMoving() && ((held = null), steer.again())));
    slider.addEventListener("input", () => {
      number.value = slider.value;
      set(Number(slider.value));
      follow(key, [[card, Number(slider.value)]]);
    });
    slider.addEventListener("change", () => settle(key, [[card, Number(slider.value)]], keys));
    slider.addEventListener("dblclick", () => settle(key, [[card, 0]]));
    number.addEventListener("change", () => {
      const value = number.valueAsNumber;
      if (Number.isFinite(value) && Math.abs(value) <= MOST) settle(key, [[card, value]]);
      else number.reportValidity();
    });
    const at = card.kind === "direction" ? lmscope.panel.segmented("at-" + key.replace(/\W+/g, "-"), "acts on", AT, (chosen) => move(card, chosen)) : null;
    const state = h("span.slider-state");
    const element = h("li.slider", { "data-slider": card.id },
      h("div.slider-head", {}, h("h3", {}, card.name), h("span.slider-kind", {}, card.kind === "direction" ? "direction after block " + card.layer : ""), state, number, zero),
      h("div.slider-line", {}, h("span.pole.minus", {}, "− " + card.minus, h("span.pole-end", {}, withSign(low))), slider, h("span.pole.plus", {}, card.plus + " +", h("span.pole-end", {}, withSign(high)))),
      says, at ? at.element : null, h("p.slider-evidence", {}, evidence(card)), note ? h("p.note", {}, lmscope.dom.sentence(note)) : null, details(card));
    let shown = null;
    const show = (view) => {
      const edit = editOf(view, card);
      const value = edit ? edit.by : 0;
      if (held !== key) slider.value = value;
      if (document.activeElement !== number || value !== shown) number.value = value; // what is being typed stays
      shown = value;
      element.classList.toggle("is-on", Boolean(edit && edit.on && edit.by !== 0));
      const tokens = edit && typeof edit.at !== "string" ? "tokens " + edit.at.join(", ") : edit && edit.at !== "all" && !at ? (edit.at === "prompt" ? "the prompt only" : "the continuation only") : "";
      state.textContent = [edit && !edit.on ? "switched off" : "", tokens].filter(Boolean).join(", ");
      if (at) at.show(edit ? edit.at : places.get(key) || "all");
      set(value);
    };
    return { element, show };
  }

  /** Which tokens a direction acts on. */
  function move(card, at) {
    places.set(keyOf(card), at);
    const edit = editOf(lmscope.view.get(), card);
    if (!edit) return;
    lmscope.view.update({ edits: lmscope.view.get().edits.map((each) => (each === edit ? { ...edit, at } : each)) }, { push: true });
    listeners.forEach((listener) => listener());
  }

  // ------------------------------------------------------------------ the list

  /** A slider of the view that is on no shelf here: it acts, so it has its place. */
  function stranger(edit) {
    const kind = edit.kind === "steer" ? "steer" : "direction";
    const id = edit.kind === "steer" ? edit.steer : edit.vector;
    return { kind, id, layer: kind === "direction" ? edit.layer : null, name: (kind === "steer" ? "Steer " : "Direction ") + id.slice(0, 6), plus: "not named", minus: "not named", model: "", rank: null, evidence: null, range: null, data: null, recipe: "", owner: "" };
  }

  function cards(view) {
    const known = steer.fitting();
    const others = view.edits.filter(lmscope.steers.isSlider).map(stranger).filter((card) => !known.some((each) => keyOf(each) === keyOf(card)));
    return [...known, ...others.filter((card, i) => others.findIndex((each) => keyOf(each) === keyOf(card)) === i)];
  }

  function draw(view) {
    if (held !== null) return; // a slider in the hand stays where it is
    const shelf = steer.shelf();
    const all = shelf === null ? null : cards(view);
    const state = JSON.stringify([shelf, all && all.map(keyOf)]);
    if (state !== drawn) {
      drawn = state;
      list(shelf, all);
    }
    for (const each of rows.values()) each.show(view);
  }

  function list(shelf, all) {
    const { h } = lmscope.dom;
    const had = document.activeElement && place("steer-list").contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    rows.clear();
    const notes = new Map((shelf || []).filter((each) => each.fits).map((each) => [keyOf(each.card), each.why]));
    for (const card of all || []) rows.set(keyOf(card), row(card, notes.get(keyOf(card))));
    place("steer-list").replaceChildren(...[...rows.values()].map((each) => each.element));
    const unfit = (shelf || []).filter((each) => !each.fits);
    place("steer-unfit").replaceChildren(...(unfit.length ? [h("details", { open: unfit.length < 4 }, h("summary", {}, unfit.length + " that " + (unfit.length === 1 ? "does" : "do") + " not fit this model"),
      h("ul", {}, unfit.map(({ card, why }) => h("li", {}, h("span.unfit-name", {}, card.name), h("span.unfit-poles", {}, " " + card.minus + " – " + card.plus + ". "), lmscope.dom.sentence(why)))))] : []));
    place("steer-empty").replaceChildren(...empty(shelf, all));
    if (had) [...place("steer-list").querySelectorAll("input,button")].find((each) => each.getAttribute("aria-label") === had)?.focus({ preventScroll: true });
  }

  // ------------------------------------------------------------------ a way in

  const EXAMPLE = "I watched the film with my family last night, and I thought it was";

  /** The steer of the first click: of those that come with the product one with evidence. */
  const first = () => steer.fitting().find((card) => card.ours && card.evidence) || steer.fitting()[0] || null;

  /** An example text under one steer, at half of its way to the end. */
  function example() {
    const card = first();
    if (!card) return;
    const { high, step } = ends(card);
    const by = Number((Math.max(step, Math.round(Math.min(1, high / 2) / step) * step)).toPrecision(6));
    const { focus } = lmscope.dom.config().view;
    lmscope.view.update({ text: EXAMPLE, pair: null, turns: null, continuation: null, template: null, edits: [made(card, by)], focus }, { push: true });
    listeners.forEach((listener) => listener());
  }

  function empty(shelf, all) {
    const { h } = lmscope.dom;
    if (shelf === null) return [h("p.note", {}, "The sliders of this model are being looked up …")];
    if (!all.length) return [h("p.note", {}, "No slider fits this model yet. Make one from examples below" + (shelf.length ? ", or choose the model that one of the others was made for." : "."))];
    const card = first();
    return card ? [h("p.note", {}, "Drag a slider: the next token after the focused one moves under the hand. Or begin with an example: ", h("button.link", { type: "button", id: "steer-example", onclick: example }, "“… I thought it was” with " + card.name + " at +1"))] : [];
  }

  const about = () => ({
    title: "Sliders",
    definition: [
      "A steer (LM-Steer) moves what the output embedding receives, c, by the slider times c W. It acts behind the last block: it changes no attention and no stream, only which token comes next. A direction is added to the residual stream after its block.",
      "1 on a slider is the step at which its held-out evidence was measured. A slider ends where the perplexity of neutral held-out text doubles; the number beside it goes further and says so.",
      "Evidence: for every held-out text, its NLL at +1 minus its NLL at −1, in nats a token, averaged over texts, with a 95 % interval (bootstrap; of fewer than 30 Student’s t, widened for skew). Below 0 for texts of the + pole: + makes them likelier. A random steer of equal norm and rank stands beside it.",
      "Several sliders add. They are the same as in the edit bar above.",
    ],
    unit: "steps; evidence in nats a token", source: "Han et al. 2024, “Word Embeddings Are Steers for Language Models”", conditions: steer.shift.conditions(),
  });

  function start() {
    const { h, icon } = lmscope.dom;
    drawn = held = null;
    rows.clear();
    place("steer-sliders-tools").replaceChildren(
      h("button.quiet", { type: "button", id: "steer-all-zero", title: "Set every slider to 0", "aria-label": "Set every slider to 0", onclick: () => settle("all", cards(lmscope.view.get()).map((card) => [card, 0])) }, icon("close")),
      h("button.quiet", { type: "button", title: "Download the shelf as JSON", "aria-label": "Download the shelf as JSON", onclick: () => steer.shelf() && lmscope.download.json(steer.fileName("sliders") + ".json", { steers: steer.shelf() }) }, icon("download")),
      lmscope.info.button("sliders", about));
  }

  steer.sliders = { ends, withSign, valueOf, follow, settle, keyOf, listeners, held: () => held, first, example };
  steer.join({ start, draw, live: (view) => rows.forEach((each) => each.show(view)), leave: () => { held = null; } });
})();
