/* Patching: what another text's run holds at a place, put into this one's; a map of what every place would do. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const trace = lmscope.trace;
  const { place, tokenName } = trace;
  const focus = (patch) => lmscope.panel.focus(patch);
  const TAPS = { residual: "the stream after block", heads: "a head of block", ffn_out: "the feed-forward output of block" };
  const SOURCE = "Activation patching: Vig et al. 2020; Meng et al. 2022 (causal tracing). Here both runs are plain: nothing is noised.";
  const ROW_PX = 17, ROOM_PX = 120;
  let askedSource = null;
  let source = null; // {key, tokens, ids}
  let patching = 0;
  let asked = null; // as it was sent
  let looked = null;
  let map = null; // {answer, jobs, key, turn}
  let current = null;
  let drawn = null;
  let fields = {};
  let looks = 0;
  const measuring = trace.jobs.measurer({ start: "patch-map-ask", stop: "patch-stop", fetch: () => { looks += 1; trace.again(); }, now: () => current });

  // ------------------------------------------------------------------ questions

  /** The other run: the same model and template, no edits. */
  function other(view) {
    const base = lmscope.panel.question(view);
    return { ...base, text: view.focus.source, pair: null, turns: null, continuation: null, edits: [], compare: false };
  }

  /** The view that the map is about: without the patches that were taken from it. */
  function unpatched(view) {
    const base = lmscope.panel.question(view);
    return { ...base, edits: base.edits.filter((edit) => typeof edit.to !== "string"), compare: false };
  }

  const canPatch = (view) => view.text !== null && view.continuation === null;
  const layerOf = (view) => Math.max(0, trace.lens.rowOf(view) - 1);
  const headsOf = (view) => (view.focus.source_head === null ? [] : [view.focus.source_head]);
  const aligned = () => Boolean(source && source.ids && lmscope.strip.answer() && source.ids.length === lmscope.strip.answer().ids.length);

  function refusal(view) {
    const ability = trace.abilityOf(view, "patch");
    return ability && !ability.can ? ability.why : null;
  }

  function mapAsk(view) {
    const card = lmscope.shelf.card(view);
    const layers = card && card.shape ? card.shape.layers : trace.answer().layers;
    const heads = view.focus.tap === "heads" ? headsOf(view).flatMap((head) => Array.from({ length: layers }, (_, layer) => ({ layer, head }))) : [];
    return { view: unpatched(view), source: other(view), tap: view.focus.tap, heads, explain: trace.explain.ask(view) };
  }

  const keyOf = (view) => JSON.stringify([unpatched(view), view.focus.source, view.focus.tap, view.focus.source_head, trace.explain.ask(view)]);

  function ask(view) {
    if (view.focus.source === null || !canPatch(view) || refusal(view) || !trace.lens.fresh()) return; // before that nobody may listen yet
    const next = JSON.stringify(other(view));
    if (next !== askedSource) {
      askedSource = next;
      trace.setProps("patch-source-ask", { data: { view: other(view), key: next } });
    }
    if (!aligned()) return;
    const key = keyOf(view);
    if (key !== current) {
      if (current !== null) measuring.leave(current);
      current = key;
    }
    const mine = measuring.of(key);
    if (!mine) return;
    const text = JSON.stringify([key, looks, mine.jobs]);
    if (text === looked) return;
    looked = text;
    trace.setProps("patch-map-look", { data: { id: mine.jobs.map, key, turn: trace.turn(), source: other(view), view: unpatched(view) } });
  }

  function receiveSource(data) {
    if (!data || !trace.isOpen()) return;
    source = { key: data.key, tokens: data.answer.tokens, ids: data.answer.ids };
    trace.again();
  }

  function receiveMap(data) {
    if (!data || !trace.isOpen()) return;
    map = data;
    if (data.answer) trace.learn(data.answer.words);
    measuring.told(data.key, { map: data.job });
    trace.again();
  }

  // ------------------------------------------------------------------ patching

  /** Take what the source holds at the open cell, as an edit. */
  function patch(token) {
    const view = lmscope.view.get();
    if (!aligned() || view.focus.source === null) return;
    const layer = layerOf(view);
    const { tap } = view.focus;
    const card = lmscope.shelf.card(view);
    const heads = tap === "heads" ? (view.focus.source_head === null ? Array.from({ length: card.shape.heads }, (_, head) => head) : [view.focus.source_head]) : [null];
    const most = lmscope.dom.config().edits;
    if (heads.length > most) return tooMany(heads.length + " heads of this layer are as many edits");
    const places = heads.map((head) => ({ tap, layer, head, token }));
    asked = { view: lmscope.panel.question(view), source: other(view), places };
    trace.setProps("patch-ask", { data: { ask: asked, turn: ++patching } });
  }

  function receivePatch(data) {
    if (!data || !trace.isOpen() || data.turn !== patching) return;
    const view = lmscope.view.get();
    const most = lmscope.dom.config().edits;
    const mine = new Set(data.answer.edits.map(placed));
    const kept = view.edits.filter((edit) => !mine.has(placed(edit))); // the same place is not patched twice
    const wanted = kept.length + data.answer.edits.length;
    if (wanted > most) return tooMany("with these patches it would be " + wanted);
    lmscope.view.update({ edits: [...kept, ...data.answer.edits], compare: true }, { push: true });
    return lmscope.dom.announce("Patched: the answer beside shows both");
  }

  function tooMany(why) {
    lmscope.notice.show("patch-notice", { type: "too-many", what: "A view carries at most " + lmscope.dom.config().edits + " edits", why, instead: "Choose one head, or take other edits out." });
  }

  const placed = (edit) => JSON.stringify([edit.kind, edit.layer, edit.head ?? null, edit.at]);

  // ------------------------------------------------------------------ drawing

  function draw(view) {
    fields.tap.value = view.focus.tap;
    place("patch-head").hidden = view.focus.tap !== "heads";
    const has = view.focus.source !== null;
    const why = !canPatch(view) ? "Patching compares two plain texts: this view holds a pair, turns or a continuation." : refusal(view);
    place("patch-refused").textContent = why ? lmscope.dom.sentence(why) : "";
    place("patch-empty").hidden = has || Boolean(why);
    place("patch-form").hidden = Boolean(why);
    place("patch-body").hidden = !has || Boolean(why);
    const input = place("patch-text");
    if (document.activeElement !== input && input.value !== (view.focus.source || "")) input.value = view.focus.source || "";
    if (!has || why || !trace.lens.fresh()) return;
    choices(view);
    const state = JSON.stringify([trace.turn(), source && source.key, askedSource, current, measuring.isLive(current), map && [map.key, map.job], trace.lens.tokenOf(view), trace.lens.rowOf(view), view.focus, view.edits, answerNow(view)]);
    if (state === drawn) return;
    drawn = state;
    if (!source || source.key !== askedSource || !lmscope.strip.answer()) place("patch-strips").replaceChildren(lmscope.dom.h("p.note", {}, "Reading the other text …"));
    else trace.aligned.draw(view, source, lmscope.strip.answer(), aligned());
    actions(view);
    place("patch-picture").hidden = !mine();
    if (mine()) {
      place("patch-place").style.height = ROOM_PX + ROW_PX * map.answer.rows.length + "px";
      said();
      table();
    }
  }

  const mine = () => (map && map.answer && map.key === current ? map : null);

  function choices(view) {
    const card = lmscope.shelf.card(view);
    if (!card || !card.shape) return;
    const { h } = lmscope.dom;
    fill(fields.layer, card.shape.layers, () => Array.from({ length: card.shape.layers }, (_, layer) => h("option", { value: layer }, layer)));
    fill(fields.head, card.shape.heads, () => [h("option", { value: "" }, "all"), ...Array.from({ length: card.shape.heads }, (_, head) => h("option", { value: head }, head))]);
    fields.layer.value = String(layerOf(view));
    fields.head.value = view.focus.source_head === null ? "" : String(view.focus.source_head);
  }

  function fill(select, count, options) {
    if (select.options.length >= count && select.dataset.count === String(count)) return;
    select.dataset.count = count;
    select.replaceChildren(...options());
  }

  function actions(view) {
    const { h } = lmscope.dom;
    const live = measuring.isLive(current);
    const done = measuring.isDone(current);
    const token = trace.lens.tokenOf(view);
    place("patch-answer-note").textContent = answerNow(view);
    const parts = [h("button.patch-act", { type: "button", id: "patch-act", disabled: !aligned(), onclick: () => patch(token) }, "Patch " + TAPS[view.focus.tap] + " " + layerOf(view) + " at “" + tokenName(token) + "”")];
    if (live) parts.push(trace.jobs.progress(measuring, current, () => measuring.end(current)));
    else if (!done) parts.push(h("button", { type: "button", id: "patch-map-act", disabled: !aligned(), onclick: () => (measuring.begin(current, [mapAsk(lmscope.view.get())]), trace.again()) }, "Map the effect of every place"));
    for (const text of trace.jobs.endings(measuring, current)) parts.push(h("span.note", {}, text));
    const had = place("patch-actions").contains(document.activeElement) ? document.activeElement.id : null;
    place("patch-actions").replaceChildren(...parts);
    if (had !== null) (document.getElementById(had) || place("patch-act")).focus({ preventScroll: true });
  }

  /** What the patches have done to the explained prediction so far. */
  function answerNow(view) {
    const why = trace.why.answer();
    if (!why || !why.unedited || !view.edits.some((edit) => edit.on && typeof edit.to === "string")) return "";
    return "The answer moved: " + trace.explain.words(why.explained) + " stands at " + trace.signed(why.edited.logits, why.conditions) + " logits, without the edits at " + trace.signed(why.unedited.logits, why.conditions) + ".";
  }

  function said() {
    const { answer } = map;
    const said = (value) => trace.signed(value, answer.conditions);
    place("patch-note").textContent = "Logits of " + trace.explain.words(answer.explained) + ": " + said(answer.unpatched) + " in this text, " + said(answer.source) + " in the other. Each place: by how much patching it alone moves that; red towards the target, blue towards the foil. A click chooses the place. The map leaves out patches that are already edits.";
  }

  /** The map as a table, made when somebody opens it: what a screen reader gets. */
  function table() {
    const { h } = lmscope.dom;
    const target = place("patch-table");
    if (target.dataset.state === JSON.stringify([map.key, map.job.updated])) return;
    target.dataset.state = JSON.stringify([map.key, map.job.updated]);
    const wasOpen = target.querySelector("details")?.open;
    const details = h("details", { ontoggle: () => details.open && !details.querySelector("table") && details.append(numbers()) }, h("summary", {}, "The map as a table"));
    target.replaceChildren(details);
    if (wasOpen) details.open = true;
  }

  function numbers() {
    const { h } = lmscope.dom;
    const { answer } = map;
    const logits = lmscope.dom.numbers(answer.logits);
    const cell = (r, t) => h("td.number", {}, trace.signed(logits[r * answer.ids.length + t] - answer.unpatched, answer.conditions));
    const line = (row, r) => h("tr", {}, h("th", { scope: "row" }, row), answer.ids.map((_, t) => cell(r, t)));
    return h("div.table-scroller", { tabindex: "0", role: "region", "aria-label": "Change of the logits at every place" },
      h("table.numbers", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "place"), answer.ids.map((_, t) => h("th.number", { scope: "col" }, tokenName(t))))), h("tbody", {}, answer.rows.map(line))));
  }

  /** A place of the map was clicked: it becomes the open cell. */
  function pickedPlace(event) {
    const point = event && event.points && event.points[0];
    if (!point || !mine()) return;
    const row = map.answer.rows[point.y];
    const layer = Number(/(\d+)/.exec(row)[1]);
    trace.lens.open(point.x, layer + 1);
  }

  // ------------------------------------------------------------------ controls, taking away

  function start() {
    const { h, icon } = lmscope.dom;
    fields = {
      tap: h("select", { id: "patch-tap", onchange: () => focus({ tap: fields.tap.value }) }, [["residual", "residual stream"], ["heads", "head outputs"], ["ffn_out", "feed-forward output"]].map(([value, text]) => h("option", { value }, text))),
      layer: h("select", { id: "patch-layer", onchange: () => trace.lens.open(trace.lens.tokenOf(lmscope.view.get()), Number(fields.layer.value) + 1) }),
      head: h("select", { id: "patch-head-choice", onchange: () => focus({ source_head: fields.head.value === "" ? null : Number(fields.head.value) }) }),
    };
    const input = h("textarea", { id: "patch-text", rows: 1, spellcheck: "false", maxlength: 20000, placeholder: "A text of as many tokens that differs in a word" });
    const take = () => focus({ source: input.value === "" ? null : input.value });
    input.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); take(); } });
    input.addEventListener("change", take);
    place("patch-form").replaceChildren(h("label.field.patch-other", {}, h("span", {}, "Other text"), input), h("button", { type: "button", onclick: take }, "Read it"));
    place("patch-controls").replaceChildren(h("label.field", {}, h("span", {}, "Take"), fields.tap), h("label.field", {}, h("span", {}, "of block"), fields.layer), h("label.field", { id: "patch-head", hidden: true }, h("span", {}, "head"), fields.head));
    place("patch-empty").replaceChildren(
      h("p", {}, "Two texts of the same length that end in different answers: which place holds the difference? Write the other text above, drag one of its tokens down onto this text, and watch the answer move."),
      h("p", {}, h("button.link", { type: "button", onclick: () => trace.examples.open("names") }, "Try the example: who gets the drink, Mary or John?")));
    place("patch-tools").replaceChildren(
      lmscope.info.menu(icon("download"), "Download the map", () => [["PNG", () => mapped() && lmscope.download.plot("patch-figure", "png", trace.fileName("patch"))], ["SVG", () => mapped() && lmscope.download.plot("patch-figure", "svg", trace.fileName("patch"))], ["CSV", csv], ["JSON of the answer", () => mapped() && lmscope.download.json(trace.fileName("patch") + ".json", map.answer)]]),
      h("button.quiet", { type: "button", title: "Copy as Python: the client’s calls", "aria-label": "Copy the patch as Python", onclick: askCode }, icon("copy")),
      lmscope.info.button("patching", about));
  }

  const mapped = () => mine() || void lmscope.dom.announce("Press “Map the effect of every place” first");

  function askCode() {
    const view = lmscope.view.get();
    if (view.focus.source === null || !trace.lens.fresh()) return lmscope.dom.announce("Write the other text first");
    const head = view.focus.tap === "heads" ? view.focus.source_head ?? 0 : null;
    return trace.code({ patch: [{ view: lmscope.panel.question(view), source: other(view), places: [{ tap: view.focus.tap, layer: layerOf(view), head, token: trace.lens.tokenOf(view) }] }], patch_map: [mapAsk(view)] });
  }

  function csv() {
    if (!mapped()) return;
    const { answer } = map;
    const logits = lmscope.dom.numbers(answer.logits);
    const rows = answer.rows.flatMap((row, r) => answer.ids.map((_, t) => [row, t, tokenName(t), logits[r * answer.ids.length + t], logits[r * answer.ids.length + t] - answer.unpatched]));
    lmscope.download.csv(trace.fileName("patch") + ".csv", [["place", "position", "token", "logits", "change (logits)"], ...rows]);
  }

  const about = () => ({
    title: "Patching", unit: "logits", source: SOURCE, conditions: mine() && map.answer.conditions,
    definition: [
      "What the other text’s run holds at one place is put into this text’s run there, and everything after it is computed anew. The texts are aligned by position. As an edit it is kept in the view and its link; the vector is stored with its recipe.",
      mine() ? map.answer.about : "The map does that at every place, one at a time, and shows by how much the explained logits move.",
    ],
  });

  trace.patch = { map: () => mine() && map.answer, at: patch };
  trace.join({
    start, ask, draw,
    anew: () => { drawn = looked = null; },
    retry: () => {
      if (place("patch-source-notice").firstElementChild && !lmscope.busy.isOut("patch-source.")) askedSource = null;
      if (place("patch-map-notice").firstElementChild && !lmscope.busy.isOut("patch-map-began.")) measuring.refused();
    },
    leave: () => {
      if (current !== null) measuring.leave(current);
      askedSource = source = map = current = drawn = looked = null;
    },
  });

  Object.assign(window.dash_clientside.trace, { source: receiveSource, patched: receivePatch, map: receiveMap, mapBegan: (data) => measuring.began(data), mapPicked: pickedPlace });
})();
