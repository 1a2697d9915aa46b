/* The text: a draft until Run, then part of the view. Free text, chat turns or a pair, and what comes after. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const KINDS = { text: "Text", turns: "Chat", pair: "Pair" };
  let root, fields, tools, run;
  let draft = null; // {kind, text, pair, turns, template, continuation}
  let shown = null; // canonical JSON of the prompt of the view that is in the draft

  const promptOf = (view) => ({ text: view.text, pair: view.pair, turns: view.turns, template: view.template, continuation: view.continuation });

  function draftOf(view) {
    const kind = view.turns ? "turns" : view.pair ? "pair" : "text";
    const text = view.text ?? (view.pair ? view.pair.join(" ") : view.turns.map((turn) => turn.content).join("\n"));
    return {
      kind, text, pair: view.pair || [text, ""], turns: (view.turns || [{ role: "user", content: text }]).map((turn) => ({ ...turn })),
      template: view.template ?? kind === "turns", continuation: view.continuation,
    };
  }

  function patch() {
    const rule = draft.kind === "turns";
    return {
      text: draft.kind === "text" ? draft.text : null, pair: draft.kind === "pair" ? draft.pair : null,
      turns: draft.kind === "turns" ? draft.turns : null, template: draft.template === rule ? null : draft.template,
      continuation: draft.continuation === "" ? null : draft.continuation,
    };
  }

  const changed = () => draft !== null && lmscope.view.canonical(patch()) !== lmscope.view.canonical(promptOf(lmscope.view.get()));

  function ask() {
    if (!draft) return;
    if (changed()) lmscope.view.update({ ...patch(), focus: { token: null, region: null } }, { push: true });
    else lmscope.view.ask();
  }

  const mark = () => run.classList.toggle("changed", changed());

  function fit(area) {
    area.style.height = "auto";
    const most = 8 * 21 + 18;
    area.style.height = Math.min(area.scrollHeight + 2, most) + "px";
    area.style.overflowY = area.scrollHeight + 2 > most ? "auto" : "hidden";
  }

  function area(label, value, write, more = {}) {
    const field = lmscope.dom.h("textarea", {
      rows: 1, spellcheck: "false", "aria-label": label, placeholder: label, value, ...more,
      oninput: () => { write(field.value); fit(field); mark(); },
    });
    return field;
  }

  function turnRow(turn, index) {
    const { h, icon } = lmscope.dom;
    const role = h("select", { "aria-label": "Role of turn " + (index + 1), onchange: () => { turn.role = role.value; mark(); } },
      ["system", "user", "assistant"].map((name) => h("option", { value: name }, name)));
    role.value = turn.role;
    const remove = h("button.quiet", { type: "button", "aria-label": "Remove turn " + (index + 1), disabled: draft.turns.length === 1, onclick: () => { draft.turns.splice(index, 1); draw(); } }, icon("close"));
    return h("div.turn", {}, role, area("What is said", turn.content, (text) => (turn.content = text)), remove);
  }

  function addTurn() {
    const last = draft.turns[draft.turns.length - 1];
    draft.turns.push({ role: last.role === "user" ? "assistant" : "user", content: "" });
    draw();
    fields.querySelector(".turn:last-of-type textarea").focus();
  }

  function drawFields() {
    const { h } = lmscope.dom;
    const rows = {
      text: () => [area("Type a sentence", draft.text, (text) => (draft.text = text), { id: "text" })],
      pair: () => [0, 1].map((side) => area(["First text (A)", "Second text (B)"][side], draft.pair[side], (text) => (draft.pair[side] = text), { class: "side" })),
      turns: () => draft.turns.map(turnRow),
    }[draft.kind]();
    if (draft.continuation !== null) rows.push(h("div.continuation", {}, area("Continuation: what stands for the model's own words", draft.continuation, (text) => (draft.continuation = text), { id: "continuation" })));
    fields.className = "fields fields-" + draft.kind;
    fields.replaceChildren(...rows);
    fields.querySelectorAll("textarea").forEach(fit);
  }

  function kinds(card) {
    const fits = ["text"];
    if (draft.kind === "turns" || (card && card.chat_template)) fits.push("turns");
    if (draft.kind === "pair" || (card && card.shape && !card.shape.causal)) fits.push("pair");
    return fits;
  }

  function drawTools() {
    const { h, icon } = lmscope.dom;
    const card = lmscope.shelf.card(lmscope.view.get());
    const fits = kinds(card);
    const parts = [];
    if (fits.length > 1) {
      parts.push(h("div.segments", { role: "radiogroup", "aria-label": "Kind of text" }, fits.map((kind) =>
        h("label", {}, h("input", { type: "radio", name: "kind", value: kind, checked: kind === draft.kind, onchange: () => turnInto(kind) }), h("span", {}, KINDS[kind])))));
    }
    if (draft.kind === "turns") parts.push(h("button.link", { type: "button", onclick: addTurn }, icon("plus"), "turn"));
    if ((card && card.chat_template) || draft.template) {
      parts.push(h("label.switch", { title: "Wrap the text in the model's own chat template" },
        h("input", { type: "checkbox", role: "switch", checked: draft.template, onchange: (event) => { draft.template = event.target.checked; mark(); } }), h("span", {}, "chat template")));
    }
    parts.push(draft.continuation === null
      ? h("button.link", { type: "button", onclick: () => { draft.continuation = ""; draw(); fields.querySelector("#continuation").focus(); } }, icon("plus"), "continuation")
      : h("button.link", { type: "button", onclick: () => { draft.continuation = null; draw(); } }, icon("close"), "continuation"));
    tools.replaceChildren(...parts);
  }

  function turnInto(kind) {
    const said = draft.kind === "text" ? draft.text : draft.kind === "pair" ? draft.pair.filter(Boolean).join(" ") : draft.turns.map((turn) => turn.content).join("\n");
    draft.template = draft.template === (draft.kind === "turns") ? kind === "turns" : draft.template;
    if (kind === "text") draft.text = said;
    if (kind === "pair") draft.pair = [said, draft.pair[1] === said ? "" : draft.pair[1]];
    if (kind === "turns") draft.turns = [{ role: "user", content: said }];
    draft.kind = kind;
    draw();
    tools.querySelector("input:checked")?.focus();
  }

  function draw() {
    drawFields();
    drawTools();
    mark();
  }

  /** A view from elsewhere (a link, Back) replaces the draft; a change of focus leaves what is being typed alone. */
  function follow(view) {
    const text = lmscope.view.canonical(promptOf(view));
    if (text === shown) return mark();
    shown = text;
    const typed = document.activeElement;
    const keep = draft && fields.contains(typed) && !changed();
    draft = draftOf(view);
    if (keep) return drawTools(), mark();
    draw();
  }

  function start() {
    const { h, icon } = lmscope.dom;
    root = document.getElementById("prompt");
    fields = h("div.fields");
    tools = h("div.prompt-tools");
    run = h("button.primary.run", { type: "button", id: "run", title: "Run (Ctrl+Enter)", "aria-keyshortcuts": "Control+Enter", onclick: ask }, icon("run"), "Run");
    root.append(h("div.prompt-row", {}, fields, run), tools);
    document.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); }
    });
    lmscope.view.subscribe(follow);
    lmscope.shelf.subscribe(() => draft && drawTools());
  }

  lmscope.prompt = { start, ask };
})();
