/* Evidence in my text: every word shaded by how much likelier the sliders make it, the best spans marked and weighed. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const steer = lmscope.steer;
  const { place, setProps, learn, fileName } = steer;
  const { chosen, poles, editOf, table, folded, notes, tools, fill } = steer.cards;
  const SOURCE = "Han et al. 2024, “LM-Steer”: at most four spans of at most ten tokens, no two next to each other, with the greatest sum, exactly. The permutation test is ours.";
  const AGAINST = [["reversed", "reversed sliders"], ["base", "no sliders"]];
  const REST_MS = 500;
  const SURE = 0.05;
  let against = "reversed";
  let wanted = false; // whether somebody has asked for it since the page was opened
  let asked = null;
  let have = null; // {answer, key}
  let evidence = null; // numbers of `have`
  let drawn = null;
  let timer = null;
  let controls = null;

  const sliders = (view) => view.edits.filter((edit) => edit.on && lmscope.steers.isSlider(edit) && edit.by !== 0);

  /** The view that is weighed: with its sliders, or where none is on with the chosen steer at +1. */
  function weighed(view) {
    const question = lmscope.panel.question(view);
    if (sliders(view).length) return question;
    const card = chosen(view) || steer.fitting()[0];
    return card ? { ...question, edits: [...question.edits, editOf(card)] } : null;
  }

  function question(view) {
    const given = weighed(view);
    return given && { view: given, against };
  }

  function ask(view) {
    const next = wanted ? question(view) : null;
    const key = next && JSON.stringify(next);
    if (!next || key === asked) return;
    clearTimeout(timer);
    timer = setTimeout(() => { // a slider in the hand asks when it rests
      asked = key;
      setProps("steer-spans-ask", { data: { ask: next, key } });
    }, asked === null ? 0 : REST_MS);
  }

  function receive(data) {
    if (!data || data.key !== asked) return;
    have = data;
    evidence = lmscope.dom.numbers(data.answer.evidence);
    learn(data.answer.words);
    steer.again();
  }

  // ------------------------------------------------------------------ words

  const nats = (value) => steer.signed(value, have.answer.conditions) + " nats";
  const tokens = () => lmscope.strip.answer().tokens;
  const sameText = () => lmscope.strip.answer() && lmscope.strip.answer().ids.join() === have.answer.ids.join();
  const read = (span) => tokens().slice(span.first, span.last).filter((token) => token.part < 2).map((token) => token.piece).join("").trim();

  /** What the spans weigh, and what chance gives: a best span always exists. */
  function said() {
    const { answer } = have;
    if (!answer.spans.length) return "No word of this text is likelier with the sliders: there is nothing to mark.";
    const count = answer.spans.length === 1 ? "The best span weighs " : "The " + answer.spans.length + " best spans together weigh ";
    const share = answer.p < 0.1 ? answer.p.toFixed(3) : answer.p.toFixed(2);
    const chance = " The same words’ numbers in random order give " + nats(answer.chance) + " on average, and as much or more in " + share + " of all orders (p = " + share + "): ";
    return count + nats(answer.best) + "; the whole text weighs " + nats(answer.total) + "." + chance + (answer.p < SURE ? "the evidence gathers in these places more than chance explains." : "no more than chance gives, so the places themselves say nothing.");
  }

  function head(view) {
    const { h } = lmscope.dom;
    const card = chosen(view) || steer.fitting()[0];
    const on = sliders(view);
    const what = on.length ? "Weighed with the " + (on.length === 1 ? "slider that is" : on.length + " sliders that are") + " on." : card ? "No slider is on: weighed with “" + poles(card) + "” at +1." : "";
    return [controls.against, wanted ? null : h("button", { type: "button", id: "spans-go", disabled: !weighed(view), onclick: () => { wanted = true; steer.again(); } }, "Weigh the words of my text"), h("span.note", {}, what || (steer.shelf() === null ? "" : "No slider fits this model yet: make one above."))].filter(Boolean);
  }

  // ------------------------------------------------------------------ drawing

  function draw(view) {
    const here = have && have.key === asked && sameText();
    const state = JSON.stringify([wanted, against, have && have.key, asked, here, view.edits, chosen(view) && chosen(view).id]);
    if (state === drawn) return;
    drawn = state;
    steer.cards.redraw(place("spans-form"), head(view));
    place("spans-body").hidden = !here;
    if (!here) return;
    place("spans-said").textContent = said();
    shade();
    place("spans-token").textContent = "Point at a word, or use the arrow keys, for its number.";
    folded(place("spans-table"), "As tables", () => [spansTable(), wordsTable()]);
  }

  function shade() {
    const { h } = lmscope.dom;
    const most = Math.max(1e-9, ...Array.from(evidence).filter(Number.isFinite).map(Math.abs));
    const startOf = new Map(have.answer.spans.map((span, i) => [span.first, { ...span, number: i + 1 }]));
    const parts = [];
    let inside = null;
    const word = (token, t) => {
      const value = evidence[t];
      const strength = Number.isFinite(value) ? Math.round((52 * Math.abs(value)) / most) : 0;
      const shade = strength ? "--evidence: rgb(var(--" + (value > 0 ? "more" : "less") + ")); --amount: " + strength + "%" : null;
      return h("span.spans-word", { "data-token": t, style: shade }, token.part > 1 ? "" : token.piece);
    };
    tokens().forEach((token, t) => {
      const span = startOf.get(t);
      if (span) {
        inside = h("mark.spans-best", { title: nats(span.evidence) }, h("span.spans-number", { "aria-label": "best span " + span.number }, span.number));
        inside.last = span.last;
        parts.push(inside);
      }
      if (inside && t >= inside.last) inside = null;
      (inside || { append: (each) => parts.push(each) }).append(word(token, t));
    });
    place("spans-text").replaceChildren(...parts);
  }

  /** The number of one word. */
  function point(t) {
    const { h } = lmscope.dom;
    for (const each of document.querySelectorAll("#spans-text .here")) each.classList.remove("here");
    const mark = place("spans-text").querySelector('[data-token="' + t + '"]');
    if (!mark) return;
    mark.classList.add("here");
    mark.scrollIntoView({ block: "nearest" });
    const value = evidence[t];
    place("spans-token").replaceChildren(h("b", {}, steer.tokenName(t)), Number.isFinite(value) ? ": " + nats(value) + ", " + lmscope.dom.digits(Math.exp(value), 3) + " times as likely with the sliders" : ": nothing predicts the first token");
  }

  function keys(key) {
    if (!have || !["ArrowLeft", "ArrowRight", "Home", "End"].includes(key.key)) return;
    key.preventDefault();
    const here = place("spans-text").querySelector(".here");
    const [now, last] = [here ? Number(here.dataset.token) : -1, evidence.length - 1];
    point({ ArrowLeft: Math.max(now - 1, 0), ArrowRight: Math.min(now + 1, last), Home: 0, End: last }[key.key]);
  }

  const spansTable = () => table("The best spans", ["span", "tokens", "text", "nats"], have.answer.spans.map((span, i) => [String(i + 1), span.first + "–" + (span.last - 1), read(span), steer.signed(span.evidence, have.answer.conditions)]), ["", "", "", "number"]);
  const wordsTable = () => table("Every word", ["token", "nats"], Array.from(evidence, (value, t) => [steer.tokenName(t), Number.isFinite(value) ? steer.signed(value, have.answer.conditions) : "n/a"]), ["", "number"]);

  // ------------------------------------------------------------------ taking away

  const there = () => (have && have.key === asked ? have.answer : void lmscope.dom.announce("Weigh the words first"));

  function csv() {
    const answer = there();
    if (!answer) return;
    const span = (t) => answer.spans.findIndex(({ first, last }) => t >= first && t < last) + 1 || "";
    lmscope.download.csv(fileName("evidence") + ".csv", [["position", "token", "id", "evidence (nats)", "best span"], ...Array.from(evidence, (value, t) => [t, tokens()[t] ? tokens()[t].piece : "", answer.ids[t], value, span(t)])]);
  }

  const about = () => ({
    title: "Evidence in my text", unit: "nats", source: SOURCE, conditions: have && have.answer.conditions,
    definition: [
      "For each word: ln of its probability with the sliders, minus ln of that with every slider reversed (or with none). Red words are likelier with the sliders, blue ones less likely; the darker, the more.",
      "The best spans are numbered and framed: those with the greatest sum. A best span always exists, so the same numbers are put into random order 999 times: p is the share of orders whose best spans weigh as much.",
    ],
  });

  function start() {
    const { h } = lmscope.dom;
    drawn = asked = have = null;
    wanted = false;
    const select = h("select", { id: "spans-against", onchange: () => { against = select.value; steer.again(); } });
    fill(select, AGAINST, against);
    controls = { against: h("label.field", {}, h("span", {}, "Against"), select) };
    place("spans-tools").replaceChildren(...tools("the evidence", () => [["CSV of every word", csv], ["JSON of the answer", () => there() && lmscope.download.json(fileName("evidence") + ".json", have.answer)]], () => question(lmscope.view.get()) && steer.code({ steer_evidence: [question(lmscope.view.get())] }), about));
    const target = place("spans-text");
    target.addEventListener("mouseover", (moved) => moved.target.dataset.token && point(Number(moved.target.dataset.token)));
    target.addEventListener("keydown", keys);
  }

  steer.spans = { answer: () => have && have.answer };
  steer.join({
    start, ask, draw,
    anew: () => { drawn = null; },
    retry: () => { if (document.querySelector("#steer-spans-notice > *") && !lmscope.busy.isOut("steer-spans-answer.")) asked = null; },
    leave: () => clearTimeout(timer),
  });
  Object.assign(window.dash_clientside.steer, { spans: receive });
})();
