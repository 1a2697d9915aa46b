/* The token strip: the text as the model sees it, one chip a token. Every page uses the same focus token. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const MOST_NATS = 12;
  const CHUNK = 512;
  const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
  const COLOURS = { surprisal: "Surprisal", entropy: "Entropy", none: "None" };
  let list, head, legend, count, notes, tip;
  let answer = null; // TokensAnswer without scores
  let scores = null; // {ids, edited: {surprisal, …}, unedited}
  let chips = [];
  let focused = null;
  let drawing = 0;

  // ------------------------------------------------------------- answers

  function tokens(data) {
    if (!data || !list) return;
    answer = data;
    if (scores && !sameIds(scores.ids, data.ids)) scores = null;
    withinText();
    draw();
    lmscope.strip.listeners.forEach((listener) => listener(answer));
  }

  /** A link may point beyond its text: that is said, and no token is in focus. */
  function withinText() {
    const { token } = lmscope.view.get().focus;
    const count = answer.tokens.length;
    if (token === null || token < count) return;
    lmscope.notice.show("link-notice", {
      type: "invalid", what: "There is no token " + token, why: "The text has " + count + (count === 1 ? " token" : " tokens") + ", counted from 0.",
      instead: "Choose a token in the strip.",
    });
    lmscope.view.update({ focus: { token: null } });
  }

  function scored(data) {
    if (!data || !list) return;
    const open = (part) => part && Object.fromEntries(Object.entries(part).map(([name, array]) => [name, lmscope.dom.numbers(array)]));
    scores = { ids: data.ids, edited: open(data.scores), unedited: open(data.unedited), why: data.scores_why, figures: /16/.test(data.conditions.dtype) ? 3 : 4 };
    if (!answer || !sameIds(answer.ids, data.ids)) tokens(data);
    else colour();
  }

  /** The scores of this text were refused: older ones, made under other edits, must not colour it. */
  function unscored() {
    if (scores === null) return;
    scores = null;
    colour();
  }

  const sameIds = (a, b) => a.length === b.length && a.every((id, i) => id === b[i]);
  const current = () => (scores && answer && sameIds(scores.ids, answer.ids) ? scores : null);

  // ------------------------------------------------------------- drawing

  const SPACES = { " ": "·", "\n": "⏎", "\t": "⇥", "\u00a0": "⍽" };

  /** What a chip prints. A line break is always visible: it would print nothing. */
  function printed(token, visible) {
    if (token.part > 1) return "⋯";
    const piece = token.piece;
    if (piece === "") return "∅";
    if (visible) return piece.replace(/[ \n\t\u00a0]/g, (space) => SPACES[space]);
    const shown = piece.replace(/\n/g, "⏎").replace(/\t/g, "⇥");
    return shown.trim() === "" ? shown.replace(/ /g, "·") : shown.replace(/^ /, "");
  }

  /** A token that goes on with the word before it stands close to it: words stay readable. */
  const joins = (token) => token.position > 0 && token.role === "text" && /^[\p{L}\p{N}\p{M}]/u.test(token.piece) && touches(answer.tokens[token.position - 1], token);
  const touches = (before, token) => before.end !== null && before.end === token.start && /[\p{L}\p{N}\p{M}]$/u.test(before.piece);

  function chip(token, visible) {
    const element = document.createElement("span");
    const part = token.parts > 1 ? (token.part > 1 ? " part" : " part first") : "";
    element.className = "chip role-" + token.role + part + (token.segment ? " segment" : "") + (joins(token) ? " joined" : "");
    element.id = "token-" + token.position;
    element.setAttribute("role", "option");
    element.tabIndex = -1;
    element.dataset.position = token.position;
    element.textContent = printed(token, visible);
    element.setAttribute("aria-label", spoken(token));
    return element;
  }

  const ROLES = { text: "", special: ", special token", template: ", chat template", continuation: ", continuation" };
  const spoken = (token) => "token " + token.position + ": " + (token.piece.trim() || (token.part > 1 ? "rest of a character" : "space")) + ROLES[token.role];

  function draw() {
    const turn = ++drawing;
    const visible = lmscope.view.get().focus.spaces;
    const held = list.contains(document.activeElement) ? Number(document.activeElement.dataset.position) : null;
    chips = [];
    focused = null;
    list.replaceChildren();
    list.classList.toggle("spaces", visible);
    const step = (from) => {
      if (turn !== drawing) return;
      const part = document.createDocumentFragment();
      for (const token of answer.tokens.slice(from, from + CHUNK)) {
        if (token.position === answer.prompt && answer.prompt < answer.tokens.length) part.append(divider());
        const element = chip(token, visible);
        chips.push(element);
        part.append(element);
      }
      list.append(part);
      colour(from);
      if (held !== null && held >= from && held < chips.length) chips[held].focus({ preventScroll: true }); // whoever moves by keys goes on
      if (from + CHUNK < answer.tokens.length) requestAnimationFrame(() => step(from + CHUNK));
      else follow(lmscope.view.get());
    };
    step(0);
    count.textContent = words();
    const shown = answer.notices.join(" ");
    notes.replaceChildren(...(shown ? [lmscope.dom.icon("info"), shown] : []));
    notes.title = shown;
  }

  function divider() {
    const mark = document.createElement("span");
    mark.className = "divider";
    mark.setAttribute("aria-hidden", "true");
    mark.textContent = "continuation";
    return mark;
  }

  function words() {
    const total = answer.tokens.length;
    const special = answer.tokens.filter((token) => token.role === "special" || token.role === "template").length;
    return total.toLocaleString("en") + (total === 1 ? " token" : " tokens") + (special ? ", " + special + " of them " + (answer.templated ? "template or special" : "special") : "");
  }

  const dark = () => lmscope.theme.now() === "dark";

  function shade(share) {
    const place = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
    return VIRIDIS[Math.round(dark() ? place : VIRIDIS.length - 1 - place)];
  }

  /** Colour and a bar under the chip, both for the same number: nothing is said by colour alone. */
  function colour(from = 0) {
    const kind = lmscope.view.get().focus.strip;
    const known = current();
    const values = known && known.edited && kind !== "none" ? known.edited[kind] : null;
    for (let i = from; i < chips.length; i++) {
      const value = values ? values[i] : NaN;
      const style = chips[i].style;
      if (Number.isFinite(value)) {
        const share = value / MOST_NATS;
        style.setProperty("--shade", shade(share));
        style.setProperty("--bar", Math.round(100 * Math.min(1, share)) + "%");
        chips[i].classList.add("scored");
      } else chips[i].classList.remove("scored");
    }
    if (!from) drawLegend(kind, known);
  }

  function drawLegend(kind, known) {
    const { h } = lmscope.dom;
    if (kind === "none") return legend.replaceChildren();
    if (known && !known.edited) return legend.replaceChildren(h("span.legend-why", { title: known.why }, known.why || "This model gives no scores."));
    const stops = [0, 0.25, 0.5, 0.75, 1].map(shade).join(",");
    legend.replaceChildren("0", h("span.legend-bar", { style: "background:linear-gradient(90deg," + stops + ")" }), MOST_NATS + "+ nats");
  }

  // ------------------------------------------------------------- focus

  /** Follow the view: the focus token, the colouring, visible spaces. */
  function follow(view) {
    if (!answer || chips.length < answer.tokens.length) return;
    const next = view.focus.token !== null && view.focus.token < chips.length ? view.focus.token : null;
    const reached = chips[focused ?? 0], reach = chips[next ?? 0]; // the one chip that Tab comes to
    if (reached && reached !== reach) reached.tabIndex = -1;
    if (reach) reach.tabIndex = 0;
    if (focused !== next && chips[focused]) chips[focused].setAttribute("aria-selected", "false");
    focused = next;
    if (next === null) return;
    chips[next].setAttribute("aria-selected", "true");
    intoSight(chips[next]);
  }

  function intoSight(element) {
    const box = element.getBoundingClientRect(), frame = list.getBoundingClientRect();
    if (box.top < frame.top) list.scrollTop -= frame.top - box.top + 4;
    else if (box.bottom > frame.bottom) list.scrollTop += box.bottom - frame.bottom + 4;
  }

  function move(position) {
    const to = Math.max(0, Math.min(chips.length - 1, position));
    lmscope.view.update({ focus: { token: to } });
    chips[to]?.focus({ preventScroll: true });
  }

  /** The chip above or below: nearest in x on the next line. */
  function onOtherLine(position, direction) {
    const from = chips[position].getBoundingClientRect();
    let best = null, line = null;
    for (let i = position + direction; i >= 0 && i < chips.length; i += direction) {
      const box = chips[i].getBoundingClientRect();
      if (Math.abs(box.top - from.top) < 4) continue;
      if (line === null) line = box.top;
      if (Math.abs(box.top - line) > 4) break;
      const away = Math.abs(box.left - from.left);
      if (best === null || away < best.away) best = { away, i };
    }
    return best ? best.i : position;
  }

  function keydown(event) {
    if (!chips.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = focused ?? Number(event.target.dataset?.position ?? 0);
    const to = {
      ArrowRight: () => at + 1, ArrowLeft: () => at - 1, Home: () => 0, End: () => chips.length - 1,
      ArrowDown: () => onOtherLine(at, 1), ArrowUp: () => onOtherLine(at, -1), Enter: () => at, " ": () => at,
    }[event.key];
    if (event.key === "Escape" && focused !== null) return lmscope.view.update({ focus: { token: null } });
    if (!to) return;
    event.preventDefault();
    move(focused === null && event.key.startsWith("Arrow") && lmscope.view.get().focus.token === null ? at : to());
  }

  // ------------------------------------------------------------- hover

  const inHex = (hex) => (hex.match(/../g) || []).join(" ");

  function explain(position) {
    const { h, digits } = lmscope.dom;
    const token = answer.tokens[position];
    const known = current();
    const rows = [["token", position], ["id", token.id], ["bytes", inHex(token.hex) || "none"]];
    if (token.parts > 1) rows.push(["character", "part " + token.part + " of " + token.parts]);
    if (token.role !== "text") rows.push(["role", { special: "special token", template: "chat template", continuation: "continuation" }[token.role]]);
    const add = (values, label) => {
      const figures = known.figures;
      const rank = values.rank[position];
      rows.push(["probability" + label, digits(values.probability[position], figures)], ["rank" + label, rank < 0 ? "n/a" : rank + 1],
        ["surprisal" + label, Number.isFinite(values.surprisal[position]) ? digits(values.surprisal[position], figures) + " nats" : "n/a"],
        ["entropy" + label, Number.isFinite(values.entropy[position]) ? digits(values.entropy[position], figures) + " nats" : "n/a"]);
    };
    if (known && known.edited) add(known.edited, known.unedited ? ", edited" : "");
    if (known && known.unedited) add(known.unedited, ", unedited");
    return h("div", {}, h("strong.tip-piece", {}, token.part > 1 ? "⋯" : token.piece.replace(/\n/g, "⏎") || "∅"),
      h("dl", {}, rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))])));
  }

  function hover(event) {
    const element = event.target.closest?.(".chip");
    if (!element || !answer || !answer.tokens[element.dataset.position]) return hide();
    tip.replaceChildren(explain(Number(element.dataset.position)));
    tip.hidden = false;
    const box = element.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(box.left, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = (box.bottom + tip.offsetHeight + 10 < innerHeight ? box.bottom + 6 : box.top - tip.offsetHeight - 6) + "px";
  }

  const hide = () => (tip.hidden = true);

  // ------------------------------------------------------------- controls

  function drawHead(view) {
    const { h } = lmscope.dom;
    const now = view.focus.strip + view.focus.spaces;
    if (head.dataset.now === now) return;
    head.dataset.now = now;
    const typed = head.contains(document.activeElement) ? document.activeElement.value || document.activeElement.name : null;
    head.replaceChildren(
      h("span.head-label", { id: "strip-colour" }, "Colour"),
      h("div.segments.small", { role: "radiogroup", "aria-labelledby": "strip-colour" }, Object.entries(COLOURS).map(([name, label]) =>
        h("label", {}, h("input", { type: "radio", name: "strip", value: name, checked: view.focus.strip === name, onchange: () => lmscope.view.update({ focus: { strip: name } }) }), h("span", {}, label)))),
      h("label.switch", {}, h("input", { type: "checkbox", role: "switch", name: "spaces", checked: view.focus.spaces, onchange: (event) => lmscope.view.update({ focus: { spaces: event.target.checked } }) }), h("span", {}, "spaces")));
    if (typed) head.querySelector('[value="' + typed + '"],[name="' + typed + '"]')?.focus();
  }

  let last = null;

  function change(view) {
    drawHead(view);
    if (!answer) return (last = view.focus);
    if (last && last.spaces !== view.focus.spaces) draw();
    else if (last && last.strip !== view.focus.strip) colour();
    last = view.focus;
    follow(view);
  }

  function start() {
    const { h } = lmscope.dom;
    tip = document.getElementById("tooltip");
    count = h("span.strip-count");
    notes = h("span.strip-notes", { role: "note" });
    legend = h("span.legend");
    head = h("div.strip-controls");
    list = h("div.chips", { role: "listbox", "aria-label": "Tokens", "aria-orientation": "horizontal" });
    document.getElementById("strip").append(h("div.strip-head", {}, count, notes, legend, head), list);
    list.addEventListener("click", (event) => {
      const element = event.target.closest(".chip");
      if (element) move(Number(element.dataset.position));
    });
    list.addEventListener("keydown", keydown);
    list.addEventListener("mouseover", hover);
    list.addEventListener("focusin", hover);
    list.addEventListener("mouseleave", hide);
    list.addEventListener("focusout", hide);
    list.addEventListener("scroll", hide, { passive: true });
    window.addEventListener("lmscope:theme", () => answer && colour());
    lmscope.view.subscribe(change);
  }

  lmscope.strip = { start, tokens, scores: scored, unscored, answer: () => answer, listeners: new Set(), printed, explain };
})();
