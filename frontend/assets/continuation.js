/* Write: the text goes on, edited and unedited side by side, as tokens arrive over the tab's websocket. One a page. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const place = (id) => document.getElementById(id);
  const SIDES = ["edited", "unedited"];
  const TOP = 4;
  const TAIL = 160; // characters of the prompt that stand before what is written
  const ENDED = { length: "as many tokens as asked for", stop: "a stop text came", end: "the model ended its text", full: "the context is full" };
  const FIELDS = [
    ["tokens", "Tokens", { min: 1, max: 512, step: 1 }, "How many tokens at most"],
    ["temperature", "Temperature", { min: 0, max: 10, step: 0.1 }, "0 always takes the likeliest token; 1 draws as the model says; more is wilder"],
    ["top_p", "Top-p", { min: 0.01, max: 1, step: 0.01 }, "Only the fewest likeliest tokens whose probabilities sum to this"],
    ["top_k", "Top-k", { min: 0, max: 1000000, step: 1 }, "Only so many likeliest tokens; 0 is all"],
    ["seed", "Seed", { min: 0, max: 9007199254740991, step: 1 }, "Decides the random numbers; both sides share them"],
  ];
  const FULL = 2; // nats of a log-ratio that get the full colour
  const REST_MS = 350;
  let number = 0; // of the newest question of the tab, whichever page asked it

  /**
   * The writing of one page. `compares(view)`: whether both sides are asked for; `words`: what they are called; `ratio`:
   * words are coloured by how much likelier the sliders make them; `follows`: it is written anew after a hand, unasked.
   */
  function make({ page, compares, words, ratio = false, follows = false }) {
    let inputs = {};
    let mine = 0; // the number of this page's newest question
    let text = fresh(null); // what is written or was

    /** Nothing written yet for one question. */
    function fresh(view) {
      return { view, running: false, sides: { edited: [], unedited: [] }, ended: {}, parted: null, words: {}, conditions: null, notices: [], acted: [], stale: false, drawn: {} };
    }

    // ------------------------------------------------------------------ asking

    /** What is asked: both sides as soon as there is something to compare. */
    const ask = (view) => ({ view: { ...view, edits: view.edits.filter((edit) => edit.on), compare: compares(view) }, top: TOP, ...(ratio ? { ratio: compares(view) } : {}) });

    function write() {
      const view = lmscope.view.get();
      if (!view || !valid()) return;
      lmscope.notice.clear("write-notice");
      mine = number += 1;
      text = fresh(view);
      text.running = lmscope.tab.send(JSON.stringify({ write: ask(view), id: number }));
      if (!text.running) unheard();
      show();
    }

    const unheard = () => lmscope.notice.show("write-notice", { type: "no-websocket", what: "Nothing can be written now", why: "This page has no websocket to its server, over which the words come.", instead: "It keeps trying: write again in a moment." });

    /** The websocket has closed: nothing more comes. */
    function lost() {
      if (!text.running) return;
      text.running = false;
      if (!text.conditions) unheard();
      show();
    }

    /** End what is written; said aloud where there are words for it. */
    function halt(why) {
      if (!text.running) return;
      mine = number += 1;
      text.running = false;
      lmscope.tab.send(JSON.stringify({ write: null, id: number }));
      if (why) lmscope.dom.announce(why);
      show();
    }

    function receive(said) {
      if (said.id !== mine) return;
      if (said.write) event(said.write);
      if (said.problem) lmscope.notice.show("write-notice", said.problem);
      if (said.problem || said.written) {
        text.running = false;
        if (said.written && !follows) lmscope.dom.announce("Written");
      }
      show();
    }

    function event(told) {
      if (told.kind === "begun") Object.assign(text, { conditions: told.conditions, notices: told.notices });
      if (told.kind === "ended") text.ended[told.side] = told.ended;
      if (told.acted && told.acted.length) text.acted = told.acted;
      Object.assign(text.words, told.words);
      if (told.kind !== "token") return;
      const side = text.sides[told.side];
      side.push(told.token);
      part(side.length - 1);
    }

    /** Where the two part: at the first token in which they differ. */
    function part(at) {
      const [one, other] = SIDES.map((side) => text.sides[side][at]);
      if (text.parted === null && one && other && one.id !== other.id) text.parted = at;
    }

    /** One of two texts that has ended while the other goes on is another text. */
    function parted() {
      const [one, other] = SIDES.map((side) => text.sides[side].length);
      if (text.parted !== null || !text.ended.edited || !text.ended.unedited || one === other) return text.parted;
      return Math.min(one, other);
    }

    // ------------------------------------------------------------------ drawing

    const isHere = () => Boolean(place("write-panel"));

    function show() {
      if (!isHere() || !lmscope.view.get()) return;
      const both = text.sides.unedited.length > 0 || (text.view ? compares(text.view) : compares(lmscope.view.get()));
      place("write-unedited-side").hidden = !both;
      place("write-edited-title").textContent = both ? words.edited : "Continuation";
      place("write-panel").classList.toggle("stale", text.stale);
      place("write-note").textContent = note(both);
      for (const side of SIDES) drawSide(side);
      drawTable();
      buttons();
    }

    function note(both) {
      const count = text.sides.edited.length;
      const at = parted();
      if (text.running && !count) return "Waiting for the first token …";
      if (text.running) return "Writing: " + count + " of " + text.view.sampling.tokens + " tokens at most …";
      if (!count && !text.ended.edited) return both ? words.both : words.alone;
      const said = [];
      if (text.stale) said.push(words.stale);
      if (both && at === null) said.push("Both texts are the same, token by token.");
      if (at !== null) said.push("They part at token " + (at + 1) + ": " + name("edited", at) + " " + words.having + ", " + name("unedited", at) + " without.");
      return [...said, ...means(), ...acted(), ...text.notices].join(" ");
    }

    const word = (id) => {
      const read = text.words[id];
      return read === undefined ? "id " + id : lmscope.strip.printed({ piece: read, part: 0 }, true);
    };
    const name = (side, at) => (text.sides[side][at] ? "“" + word(text.sides[side][at].id) + "”" : "the end");

    /** Only what is new is added: a text may be long, and a token comes many times a second. */
    function drawSide(side) {
      const target = place("write-" + side);
      const at = parted();
      const state = [text.view === null, at, mine].join();
      if (target.dataset.state !== state) {
        target.dataset.state = state;
        target.replaceChildren(...prompt());
        text.drawn[side] = null;
      }
      const [tokens, drawn] = [text.sides[side], text.drawn[side]];
      if (drawn && drawn.tokens === tokens.length && drawn.ended === text.ended[side]) return; // a look at sizes is dear
      const isAtEnd = target.scrollHeight - target.scrollTop - target.clientHeight < 40;
      const { h } = lmscope.dom;
      if (target.lastChild && target.lastChild.className === "write-end") target.lastChild.remove();
      for (let i = drawn ? drawn.tokens : 0; i < tokens.length; i++) {
        if (i === at) target.append(h("span.write-fork", { title: "Here the two texts part" }, "⑂"));
        target.append(mark(h("span" + (at !== null && i >= at && !ratio ? ".parted" : ""), { "data-token": i }, tokens[i].text), tokens[i]));
      }
      text.drawn[side] = { tokens: tokens.length, ended: text.ended[side] };
      if (text.ended[side]) target.append(h("span.write-end", {}, "▪ " + ENDED[text.ended[side]]));
      if (isAtEnd) target.scrollTop = target.scrollHeight;
    }

    // ------------------------------------------------------------------ log-ratios

    const isKnown = (token) => token.ratio !== null && token.ratio !== undefined;
    const nats = (value) => lmscope.numbers.exact(value, text.conditions, true);

    /** A word's ground: red where the sliders make it likelier, blue where less, and a line below for those who see neither. */
    function mark(element, token) {
      if (!ratio || !isKnown(token)) return element;
      element.classList.add(token.ratio >= 0 ? "likelier" : "unlikelier");
      element.style.setProperty("--share", 100 * Math.min(1, Math.abs(token.ratio) / FULL) + "%");
      return element;
    }

    /** The mean log-ratio of each side, in words. */
    function means() {
      const mean = (side) => {
        const known = text.sides[side].filter(isKnown);
        return known.length ? nats(known.reduce((sum, token) => sum + token.ratio, 0) / known.length) + " nats a token" : null;
      };
      const [one, other] = ratio ? SIDES.map(mean) : [null, null];
      return one === null ? [] : ["Mean log-ratio: " + one + " where steered" + (other === null ? "." : ", " + other + " in the base text.")];
    }

    /** On how many tokens each slider acted, as the taps counted while the model ran. */
    function acted() {
      const on = text.view ? text.view.edits.filter((edit) => edit.on) : [];
      const one = (count) => lmscope.editKinds.on(on[count.edit]) + " acted on " + count.written + " of " + count.of_written + " written tokens" + (on[count.edit].kind === "steer" ? "" : " and " + count.prompt + " of " + count.of_prompt + " of the prompt");
      return ratio && text.acted.length ? ["Counted while it ran: " + text.acted.map(one).join("; ") + "."] : [];
    }

    /** The numbers behind the colours, token by token. */
    function drawTable() {
      const { h } = lmscope.dom;
      const target = place("write-table");
      if (!target) return;
      place("write-table-place").hidden = text.sides.edited.length === 0;
      if (!place("write-table-place").open) return;
      const digits = (value) => lmscope.dom.digits(value, lmscope.numbers.digits(text.conditions));
      const cells = (token) => [h("th", { scope: "row" }, token ? word(token.id) : ""), h("td.number", {}, token ? digits(token.probability) : ""), h("td.number", {}, token ? (isKnown(token) ? nats(token.ratio) : "n/a") : "")];
      const some = SIDES.filter((side) => text.sides[side].length);
      const count = Math.max(...some.map((side) => text.sides[side].length), 0);
      const line = (_, i) => h("tr", {}, h("td.number", {}, i + 1), ...some.flatMap((side) => cells(text.sides[side][i])));
      const names = some.flatMap((side) => [[words[side], ""], ["probability", "number"], ["log-ratio (nats)", "number"]]);
      target.replaceChildren(h("table.numbers", {}, h("thead", {}, h("tr", {}, h("th.number", { scope: "col" }, "token"), names.map(([label, kind]) => h("th" + (kind ? "." + kind : ""), { scope: "col" }, label)))), h("tbody", {}, Array.from({ length: count }, line))));
    }

    function prompt() {
      const { h } = lmscope.dom;
      if (!text.view) return [];
      const before = (text.view.text ?? (text.view.turns ? text.view.turns[text.view.turns.length - 1].content : "")) + (text.view.continuation || "");
      return [h("span.write-prompt", {}, before.length > TAIL ? "… " + before.slice(-TAIL) : before)];
    }

    /** What is known of the token that is pointed at. */
    function point(side, at) {
      const { h } = lmscope.dom;
      for (const each of document.querySelectorAll("#write-sides .here")) each.classList.remove("here");
      const token = text.sides[side][at];
      if (!token) return place("write-token").replaceChildren();
      const mark = place("write-" + side).querySelector('[data-token="' + at + '"]');
      if (mark) mark.classList.add("here");
      const digits = (value) => lmscope.dom.digits(value, text.conditions ? lmscope.numbers.digits(text.conditions) : 3);
      const rest = token.top.map((id, i) => word(id) + " " + digits(token.top_probability[i])).join(" · ");
      place("write-token").replaceChildren(words[side] + ", token " + (at + 1) + ": ", h("b", {}, word(token.id)), " (id " + token.id + ") with probability " + digits(token.probability) + ", before temperature and cuts." + (isKnown(token) ? " Log-ratio " + nats(token.ratio) + " nats: the sliders make it " + lmscope.dom.plain(Number(Math.exp(Math.abs(token.ratio)).toPrecision(3))) + " times " + (token.ratio >= 0 ? "likelier." : "less likely.") : "") + " Likeliest: " + rest);
    }

    function keys(side, key) {
      const target = place("write-" + side);
      const count = text.sides[side].length;
      if (!count || !["ArrowLeft", "ArrowRight", "Home", "End"].includes(key.key)) return;
      key.preventDefault();
      const here = target.querySelector(".here");
      const now = here ? Number(here.dataset.token) : -1;
      const next = { ArrowLeft: Math.max(now - 1, 0), ArrowRight: Math.min(now + 1, count - 1), Home: 0, End: count - 1 }[key.key];
      point(side, next);
      const mark = target.querySelector('[data-token="' + next + '"]');
      if (mark) mark.scrollIntoView({ block: "nearest" });
    }

    // ------------------------------------------------------------------ controls

    function valid() {
      const wrong = Object.values(inputs).find((input) => !input.checkValidity());
      if (wrong) wrong.reportValidity();
      return !wrong;
    }

    function controls() {
      const { h, icon } = lmscope.dom;
      const view = lmscope.view.get();
      inputs = {};
      const fields = FIELDS.map(([key, label, range, title]) => {
        const input = h("input", { type: "number", id: "write-" + key, required: true, title, value: view ? view.sampling[key] : "", ...range, onchange: () => set(key, input), onkeydown: (pressed) => pressed.key === "Enter" && (set(key, input), write()) });
        if (key !== "tokens" && key !== "seed" && key !== "top_k") input.step = "any";
        inputs[key] = input;
        return h("label.field", {}, h("span", {}, label), input);
      });
      const ending = h("input", { type: "text", id: "write-stop", maxlength: 200, title: "Writing ends where this text comes; it is left out", onchange: () => lmscope.view.update({ sampling: { stop: [...(ending.value ? [ending.value] : []), ...lmscope.view.get().sampling.stop.slice(1)] } }) });
      place("write-controls").replaceChildren(
        ...fields,
        h("label.field.wide", {}, h("span", { id: "write-stop-label" }, "Stop at"), ending),
        h("button.primary", { type: "button", id: "write-go", disabled: true, onclick: write }, icon("run"), "Write"),
        h("button.write-more", { type: "button", id: "write-halt", disabled: true, onclick: () => halt("Stopped") }, "Stop"),
        h("button.write-more", { type: "button", id: "write-use", disabled: true, onclick: use, title: "Every page then looks at the edited text; its tokens count as generated" }, "Use as continuation"),
      );
    }

    function set(key, input) {
      if (!input.checkValidity()) return input.reportValidity();
      lmscope.view.update({ sampling: { [key]: Number(input.value) } });
    }

    /** The edited text becomes part of the view: every page looks at it, and edits may act on it alone. */
    function use() {
      const view = lmscope.view.get();
      const written = text.sides.edited.map((token) => token.text).join("");
      if (!written || text.stale) return;
      lmscope.view.update({ continuation: (view.continuation || "") + written, focus: { token: null, region: null } }, { push: true });
      lmscope.dom.announce("The text is part of the view now");
    }

    function buttons() {
      place("write-go").disabled = text.running;
      place("write-halt").disabled = !text.running;
      place("write-use").disabled = text.running || text.stale || !text.sides.edited.some((token) => token.text);
    }

    function csv() {
      const line = (side) => (token, i) => [words[side], i + 1, token.id, token.text, token.probability, token.ratio];
      lmscope.download.csv(page.fileName("written") + ".csv", [["side", "token", "id", "text", "probability", "log-ratio (nats)"], ...SIDES.flatMap((side) => text.sides[side].map(line(side)))]);
    }

    const about = () => ({
      title: "Write",
      definition: [
        "The text is continued token by token with the edits that are switched on and, beside it, without them. Both sides use the same random numbers, so that equal predictions give equal tokens: where the texts part, the edits did it.",
        "Temperature first, then top-k, then top-p. Temperature 0 takes the likeliest token, of equal ones the one with the lowest id. The same seed gives the same text again.",
        "Edits on “all” act on every written token too, on “generated” on these alone; the first written token is foreseen by the last token of the prompt.",
        ...(ratio ? ["Log-ratio of a token: ln of its probability with the sliders minus ln of that without them, after the same text so far. Red: the sliders make it likelier; blue, with a dotted line: less likely. The full colour stands for ±" + FULL + " nats and all beyond; the number is exact."] : []),
      ],
      unit: (ratio ? "log-ratio in nats; " : "") + "probability of a token under the model and its edits, before temperature and cuts", source: "Gumbel-max sampling with common random numbers", conditions: text.conditions,
    });

    function refused(view) {
      const ability = page.abilityOf(view, "write");
      const why = ability && !ability.can ? lmscope.dom.sentence(ability.why) : "";
      place("write-refused").textContent = why;
      place("write-body").hidden = Boolean(why);
      return Boolean(why);
    }

    // ------------------------------------------------------------------ the page

    function start() {
      controls();
      const code = () => page.code({ write: [{ ...ask(lmscope.view.get()), top: 0 }] });
      place("write-tools").replaceChildren(
        ...(ratio ? [lmscope.info.menu(lmscope.dom.icon("download"), "Download what was written", () => [["CSV", csv], ["JSON", () => lmscope.download.json(page.fileName("written") + ".json", { view: text.view, ...text.sides, ended: text.ended, conditions: text.conditions })]])] : []),
        lmscope.dom.h("button.quiet", { type: "button", title: "Copy as Python: the client’s call", "aria-label": "Copy the writing as Python", onclick: code }, lmscope.dom.icon("copy")),
        lmscope.info.button("writing", about));
      for (const side of SIDES) {
        const target = place("write-" + side);
        target.addEventListener("mouseover", (moved) => moved.target.dataset.token && point(side, Number(moved.target.dataset.token)));
        target.addEventListener("keydown", (key) => keys(side, key));
      }
      text.drawn = {};
      if (place("write-table-place")) place("write-table-place").addEventListener("toggle", drawTable);
    }

    let soon = null;

    /** Write anew when the hand has rested for a moment. */
    function later() {
      clearTimeout(soon);
      soon = setTimeout(() => page.isOpen() && !lmscope.view.isMoving() && compares(lmscope.view.get()) && Object.values(inputs).every((input) => input.checkValidity()) && write(), REST_MS);
    }

    function anew() {
      if (text.running) halt(follows ? null : "Stopped: the text or the edits have changed");
      text.stale = text.sides.edited.length > 0;
    }

    function draw(view) {
      if (!isHere() || refused(view)) return;
      for (const [key, input] of Object.entries(inputs)) if (document.activeElement !== input) input.value = view.sampling[key];
      drawStops(view.sampling.stop);
      show();
    }

    /** The first of the stop texts can be changed here; more of them come with links and from Python. */
    function drawStops(stops) {
      const input = place("write-stop");
      if (document.activeElement !== input) input.value = stops[0] ?? "";
      place("write-stop-label").textContent = "Stop at" + (stops.length > 1 ? " (and " + (stops.length - 1) + " more)" : "");
    }

    page.join({ alone: "write", start, anew, draw, live: () => { clearTimeout(soon); halt(null); }, leave: () => { clearTimeout(soon); halt(follows ? null : "Stopped"); } });
    window.addEventListener("load", () => lmscope.tab.hear(receive, lost));
    return { text: () => text, halt, later };
  }

  lmscope.continuation = { make };
})();
