/* What the sliders move: the next token after the focused one, base against steered, while a slider is in the hand. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const steer = lmscope.steer;
  const { place, wordOf, share } = steer;
  const TOP = 10;
  const ROWS = { likely: 14, rose: 6, fell: 6 };
  const TITLES = { likely: "Likeliest on either side", rose: "What rose", fell: "What fell" };
  const SCALES = [1e-5, 1e-4, 2e-4, 5e-4, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1];
  const PANELS = [["Sliders", "steer-sliders-title"], ["Next token", "steer-shift-title"], ["Write", "write-title"], ["Make one", "make-title"], ["Sweep", "sweep-title"], ["Evidence", "spans-title"], ["Move", "transfer-title"], ["Look inside", "inside-title"]];
  const SHARED = 6; // words of each direction in the table of shares
  let have = null; // {answer, key, serial}
  let text = null; // {kl, key}: the mean over the text, and what it was asked for
  let asked = null; // key of the question that was asked last
  let serial = 0;
  let lists = {};
  let shared = null; // what the table of shares was built for
  let textAsked = null;
  const sender = lmscope.busy.newest("steer-answer.", ask);

  // ------------------------------------------------------------------ asking

  const active = (view) => view.edits.filter((edit) => edit.on && lmscope.steers.isSlider(edit));
  const question = (view, over) => ({ view: lmscope.panel.question({ ...view, compare: false }), token: tokenOf(view), top: TOP, over });

  /** The focused token, or the last where the text has become shorter. */
  function tokenOf(view) {
    const strip = lmscope.strip.answer();
    return strip && view.focus.token !== null && view.focus.token >= strip.tokens.length ? null : view.focus.token;
  }

  const keyOf = (view) => JSON.stringify(question(view, "token"));

  /** Follow the view: one question is out, then the newest. */
  function want(view) {
    const key = keyOf(view);
    if (key === asked) return;
    asked = key;
    sender.send({ ask: question(view, "token"), key, edits: active(view) });
  }

  /** What the sliders of the answer are called, in its order. */
  const names = () => have.edits.map((edit) => lmscope.editKinds.on(edit));

  function ask(given) {
    serial += 1;
    steer.setProps("steer-ask", { data: { ...given, serial } });
  }

  function receive(data) {
    if (!data) return;
    sender.taken();
    if (!steer.isOpen() || (have && data.serial <= have.serial)) return; // an older answer never replaces a newer
    have = data;
    steer.learn(data.answer.words);
    show(lmscope.view.get());
    if (!lmscope.view.isMoving()) wantText(lmscope.view.get());
  }

  /** The mean over the text takes longer: it is asked for when the hand has let go and the token is answered. */
  function wantText(view) {
    const key = keyOf(view);
    if (!have || have.key !== key || !active(view).length || textAsked === key || (text && text.key === key)) return;
    textAsked = key;
    steer.setProps("steer-text-ask", { data: { ask: question(view, "text"), key } });
  }

  function receiveText(data) {
    if (!data || !steer.isOpen()) return;
    text = { kl: data.answer.kl_text, key: data.key };
    steer.learn(data.answer.words);
    show(lmscope.view.get());
    say();
  }

  // ------------------------------------------------------------------ the lists

  /** A list is made once; after that only numbers and lengths change. */
  function list(name) {
    const { h } = lmscope.dom;
    const caption = h("caption");
    const rows = Array.from({ length: ROWS[name] }, () => {
      const cells = { word: h("th", { scope: "row" }), base: h("td.number"), steered: h("td.number"), moved: h("td.number.moved") };
      const bars = { base: h("span.shift-bar.base"), steered: h("span.shift-bar.steered") };
      return { ...cells, bars, element: h("tr", {}, cells.word, h("td.shift-bars", { "aria-hidden": "true" }, bars.base, bars.steered), cells.base, cells.steered, cells.moved) };
    });
    const head = [["word", ""], ["", ""], ["base", "number"], ["steered", "number"], ["change", "number"]].map(([label, kind]) => (label ? h("th" + (kind ? "." + kind : ""), { scope: "col" }, label) : h("td", { "aria-hidden": "true" })));
    place("steer-" + name).replaceChildren(h("table.shift-table", {}, caption, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows.map((row) => row.element))));
    return { caption, rows };
  }

  const put = (node, words) => { if (node.textContent !== words) node.textContent = words; };

  function fill(name, shifts) {
    const { conditions } = have.answer;
    const shown = shifts.slice(0, ROWS[name]);
    const most = Math.max(1e-9, ...shown.flatMap((shift) => [shift.base, shift.steered]));
    const scale = SCALES.find((each) => each >= most) || 1;
    put(lists[name].caption, TITLES[name] + " (a full bar is " + lmscope.dom.plain(scale) + ")");
    lists[name].rows.forEach((row, i) => {
      const shift = shown[i];
      row.element.classList.toggle("is-empty", !shift);
      if (!shift) return [row.word, row.base, row.steered, row.moved].forEach((cell) => put(cell, "\u00a0"));
      const by = shift.steered - shift.base;
      put(row.word, wordOf(shift.id));
      put(row.base, share(shift.base, conditions));
      put(row.steered, share(shift.steered, conditions));
      put(row.moved, (by > 0 ? "▲ " : by < 0 ? "▼ " : "") + (by > 0 ? "+" : "") + lmscope.dom.digits(by, 3));
      row.moved.classList.toggle("up", by > 0);
      row.moved.classList.toggle("down", by < 0);
      row.bars.base.style.width = (100 * shift.base) / scale + "%";
      row.bars.steered.style.width = (100 * shift.steered) / scale + "%";
      return undefined;
    });
  }

  // ------------------------------------------------------------------ what each slider adds

  function shares() {
    const { answer } = have;
    const named = names();
    const rest = [...answer.rose, ...answer.fell].some((shift) => Math.abs(shift.rest) > 1e-4);
    const state = JSON.stringify([named, rest]);
    const { h } = lmscope.dom;
    place("steer-shares").hidden = named.length === 0;
    if (shared === null || shared.state !== state) {
      const columns = ["logit", ...named, ...(rest ? ["together only"] : [])];
      const rows = Array.from({ length: 2 * SHARED }, () => {
        const cells = columns.map(() => h("td.number"));
        const word = h("th", { scope: "row" });
        return { word, cells, element: h("tr", {}, word, cells) };
      });
      shared = { state, rows };
      place("steer-shares").replaceChildren(h("table.numbers", {}, h("caption", {}, "What each slider adds to the logit of the words that moved most"), h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "word"), columns.map((name) => h("th.number", { scope: "col" }, name)))), h("tbody", {}, rows.map((row) => row.element))));
    }
    const moved = [...answer.rose.slice(0, SHARED), ...answer.fell.slice(0, SHARED)];
    shared.rows.forEach((row, i) => {
      const shift = moved[i];
      row.element.hidden = !shift;
      if (!shift) return;
      put(row.word, wordOf(shift.id));
      [shift.logit, ...shift.shares, ...(rest ? [shift.rest] : [])].forEach((value, j) => put(row.cells[j], lmscope.numbers.fixed(value, "logits", answer.conditions, true)));
    });
  }

  // ------------------------------------------------------------------ drawing

  const nats = (value) => (value === null || value === undefined ? "n/a" : lmscope.numbers.exact(Math.max(0, value), have.answer.conditions) + " nats");

  function show(view) {
    if (!have || !place("steer-shift-panel")) return;
    const { answer } = have;
    const isFresh = have.key === keyOf(view);
    place("steer-shift-panel").classList.toggle("stale", !isFresh && !lmscope.view.isMoving());
    put(place("steer-shift-title"), "Next token after " + steer.tokenName(answer.token));
    put(place("steer-kl"), nats(answer.kl));
    const known = text && text.key === have.key;
    put(place("steer-kl-text"), known ? nats(text.kl) : active(view).length === 0 ? nats(0) : lmscope.view.isMoving() ? "when you let go" : "…");
    for (const name of ["likely", "rose", "fell"]) fill(name, answer[name]);
    shares();
    brief();
    const notices = lmscope.panel.notices(answer).join(" ");
    put(place("steer-shift-note"), [answer.sliders.length ? "" : "No slider is on: base and steered are the same.", notices].filter(Boolean).join(" "));
  }

  /** On a narrow screen the bars are far from the sliders: what matters most stands under them. */
  function brief() {
    const { answer } = have;
    const one = (sign, shift) => (shift ? " " + sign + " " + wordOf(shift.id) + " " + share(shift.steered, answer.conditions) : "");
    put(place("steer-brief"), "KL " + nats(answer.kl) + one("▲", answer.rose[0]) + one("▼", answer.fell[0]));
  }

  /** For those who do not see the bars: what has moved, once, when the hand has let go. */
  function say() {
    const { answer } = have;
    const [up, down] = [answer.rose[0], answer.fell[0]];
    const one = (shift) => "“" + wordOf(shift.id) + "” from " + share(shift.base, answer.conditions) + " to " + share(shift.steered, answer.conditions);
    put(place("steer-said"), "KL " + nats(answer.kl) + " at this token" + (text && text.key === have.key ? ", " + nats(text.kl) + " over the text" : "") + (up ? ". Rose most: " + one(up) : "") + (down ? ". Fell most: " + one(down) : "") + ".");
  }

  // ------------------------------------------------------------------ taking away

  function csv() {
    if (!have) return;
    const line = (where) => (shift) => [where, shift.id, steer.known(shift.id), shift.base, shift.steered, shift.logit, ...shift.shares, shift.rest];
    lmscope.download.csv(steer.fileName("steer") + ".csv", [["list", "id", "word", "base (probability)", "steered (probability)", "moved (logits)", ...names().map((name) => name + " (logits)"), "together only (logits)"], ...["likely", "rose", "fell"].flatMap((name) => have.answer[name].map(line(name)))]);
  }

  const about = () => ({
    title: "Base against steered",
    definition: [
      "The distribution of the token that comes after the focused one, without the sliders (base) and with them (steered). All other edits of the view stay on in both. Click a token of the strip to look after another one.",
      "KL(base ‖ steered) is the mean over base of ln base − ln steered: how much the sliders change what is expected. Over the text it is the mean over all of its tokens; it is measured when the slider is let go.",
      "The shares say what each slider adds to a word’s logit. Steers add up exactly; what several directions do only together stands in a column of its own.",
      have && !have.answer.forward ? "The states of the text were kept: this answer took no forward pass." : "",
      have && have.answer.step ? "A logit that moves by less than " + lmscope.dom.plain(have.answer.step) + " may show as nothing: the numbers of this dtype lie so far apart." : "",
    ].filter(Boolean),
    unit: "probability; KL in nats; shares in logits", source: "Han et al. 2024, “Word Embeddings Are Steers for Language Models”", conditions: have && have.answer.conditions,
  });

  function start() {
    const { h, icon } = lmscope.dom;
    have = text = asked = shared = textAsked = null;
    place("steer-jumps").replaceChildren(lmscope.panels.jumps(PANELS));
    lists = { likely: list("likely"), rose: list("rose"), fell: list("fell") };
    place("steer-shift-tools").replaceChildren(
      lmscope.info.menu(icon("download"), "Download base against steered", () => [["CSV", csv], ["JSON of the answer", () => have && lmscope.download.json(steer.fileName("steer") + ".json", { ...have.answer, kl_text: text && text.key === have.key ? text.kl : null })]]),
      h("button.quiet", { type: "button", title: "Copy as Python: the client’s call", "aria-label": "Copy base against steered as Python", onclick: () => steer.code({ steer: [question(lmscope.view.get(), "text")] }) }, icon("copy")),
      lmscope.info.button("base against steered", about));
  }

  steer.shift = { answer: () => have && have.answer, text: () => text, conditions: () => have && have.answer.conditions, serial: () => (have ? have.serial : 0), edits: () => have && have.edits };
  steer.join({
    start,
    live: (view) => (want(view), show(view)),
    ask: (view) => (want(view), wantText(view)),
    draw: show,
    retry: () => { if (place("steer-notice").firstElementChild && !lmscope.busy.isOut("steer-answer.")) asked = textAsked = null; },
    leave: () => { sender.drop(); },
  });

  Object.assign(window.dash_clientside.steer, { answer: receive, text: receiveText });
})();
