/* The model picker: what is open, what can be opened, and what each model is. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const STATES = { known: "not fetched", cached: "on disk", loading: "loading", loaded: "loaded", failed: "failed" };
  let button, panel, open = new Set();

  const family = (card) => card.architecture.replace(/(For|LMHead|Model)\w*$/, "") || "";

  /** Llama · 30 × 9 · float32 · cpu · 538 MB */
  function facts(card) {
    const size = card.memory_bytes || card.estimated_bytes;
    return [
      family(card), card.shape && card.shape.layers + " × " + card.shape.heads, card.dtype, card.device,
      size ? (card.memory_bytes ? "" : "≈ ") + lmscope.dom.bytes(size) : null,
    ].filter(Boolean).join(" · ");
  }

  /** The last part of a folder's path; hub ids and package models as they are. */
  const shortName = (name) => (/^[/~.]|^[a-z]:[\\/]/i.test(name) ? name.replace(/[\\/]+$/, "").split(/[\\/]/).pop() || name : name);

  function jobOf(card) {
    const named = ({ what }) => what.includes(card.name) && !/^[\w./-]/.test(what.slice(what.indexOf(card.name) + card.name.length));
    return lmscope.status.running(lmscope.tab.now().jobs).find((job) => job.id === card.job || (!card.job && card.state !== "loaded" && named(job))) || null;
  }

  const stateOf = (card) => (card && jobOf(card) ? "loading" : card ? card.state : "known");

  // ------------------------------------------------------------- the button

  function drawButton() {
    const { h, icon } = lmscope.dom;
    const view = lmscope.view.get();
    if (!view) return;
    const card = lmscope.shelf.card(view);
    const job = card && jobOf(card);
    const line = job ? ["loading", lmscope.status.progressWords(job)].filter(Boolean).join(" · ") : card ? facts(card) || STATES[card.state] : "not on this server yet";
    button.replaceChildren(
      h("span.picker-state.state-" + stateOf(card), { title: STATES[stateOf(card)] }),
      h("span.picker-words", {}, h("span.picker-name", {}, shortName(view.model)), h("span.picker-facts", {}, line)),
      icon("down"), ...(job ? [lmscope.status.bar(job)] : []));
    button.title = view.model + (line ? "\n" + line : "") + (card ? "\n" + STATES[stateOf(card)] : "");
    button.setAttribute("aria-label", "Model: " + view.model + ", " + (card ? STATES[stateOf(card)] + ", " : "") + line);
  }

  // ------------------------------------------------------------- the panel

  function row(name, value) {
    const { h } = lmscope.dom;
    return value ? [h("dt", {}, name), h("dd", {}, value)] : [];
  }

  const MARKS = { true: "✓", false: "✗", null: "–" };

  function details(card) {
    const { h } = lmscope.dom;
    const shape = card.shape;
    const cannot = Object.entries(card.can).filter(([, ability]) => !ability.can);
    const from = { package: "package ", hub: "hub, ", folder: "folder " }[card.source.kind] + card.source.name + (card.source.revision && !card.source.name.includes(card.source.revision) ? " @ " + card.source.revision : "");
    return h("div.card-details", {},
      card.problem ? lmscope.notice.element(card.problem) : null,
      h("dl.facts", {},
        row("Source", from), row("Licence", card.source.licence), row("Credit", card.source.credit),
        row("Quantisation", card.source.quantisation), row("Conversion", card.source.conversion === "none" ? "" : card.source.conversion),
        row("Architecture", card.architecture), row("Attention kernel", card.kernel), row("Runs in", [card.dtype, card.device].filter(Boolean).join(" on ")),
        row("Weights", card.digest && card.digest.slice(0, 12)),
        row("Memory", card.memory_bytes ? lmscope.dom.bytes(card.memory_bytes) + ", measured" : card.estimated_bytes ? "≈ " + lmscope.dom.bytes(card.estimated_bytes) : ""),
        ...(shape ? [row("Shape", shape.layers + " layers × " + shape.heads + " heads (" + shape.kv_heads + " key/value), width " + shape.width), row("Context", shape.context ? shape.context.toLocaleString("en") + " tokens" : "not stated"), row("Parameters", (shape.parameters / 1e6).toFixed(1) + " M")] : [])),
      cannot.length ? h("div.cannot-list", {}, h("h4", {}, "Cannot show"), ...cannot.map(([name, ability]) => h("p", {}, h("strong", {}, name), " " + (ability.why || "")))) : null,
      card.promises.length ? h("div", {}, h("h4", {}, "Checked when it was loaded"),
        h("ul.promises", {}, ...card.promises.map((promise) => h("li.kept-" + promise.kept, {},
          h("span.mark", { "aria-label": { true: "kept", false: "broken", null: "does not apply" }[promise.kept] }, MARKS[promise.kept]),
          h("span", {}, promise.name), h("span.detail", {}, promise.detail))))) : null);
  }

  function item(card) {
    const { h, icon } = lmscope.dom;
    const view = lmscope.view.get();
    const chosen = view && lmscope.shelf.card(view) === card;
    const job = jobOf(card);
    const key = card.name + "@" + card.revision;
    const shown = open.has(key);
    const toggle = () => {
      if (shown) open.delete(key);
      else open.add(key);
      drawPanel();
    };
    return h("li.card" + (chosen ? ".chosen" : ""), {},
      h("button.card-choose", { type: "button", "aria-current": chosen ? "true" : null, onclick: () => choose(card.name, card.revision || null) },
        h("span.card-name", { title: card.name }, shortName(card.name)),
        h("span.badge.state-" + stateOf(card), {}, STATES[stateOf(card)]),
        h("span.card-about", {}, card.about || ""),
        h("span.card-facts", {}, facts(card))),
      h("button.quiet.card-more", { type: "button", "aria-expanded": String(shown), "aria-label": "About " + card.name, onclick: toggle }, icon(shown ? "up" : "down")),
      job ? h("div.card-job", {}, lmscope.status.bar(job), h("span", {}, lmscope.status.progressWords(job))) : null,
      shown ? details(card) : null);
  }

  function drawPanel() {
    const { h } = lmscope.dom;
    const models = lmscope.shelf.now();
    if (!models || !panel.matches(":popover-open")) return;
    const list = panel.querySelector(".cards");
    const focused = [...list.querySelectorAll("button")].indexOf(document.activeElement);
    const top = list.scrollTop;
    list.replaceChildren(...models.models.map(item));
    list.scrollTop = top;
    if (focused >= 0) list.querySelectorAll("button")[focused]?.focus();
    panel.querySelector(".shelf-bytes").textContent = lmscope.dom.bytes(models.used_bytes) + " of " + lmscope.dom.bytes(models.budget_bytes) + " in use";
  }

  function choose(model, revision) {
    const view = lmscope.view.get();
    panel.hidePopover();
    if (!view) return;
    lmscope.view.allow(model, revision);
    if (view.model === model && view.revision === revision) return;
    const left = view.edits.length;
    lmscope.view.update({ model, revision, edits: [], compare: false, focus: { heads: [], region: null, token: null } }, { push: true });
    if (left) lmscope.dom.announce((left === 1 ? "One edit belonged" : left + " edits belonged") + " to the former model; Back brings it again");
  }

  function otherModel() {
    const { h } = lmscope.dom;
    const name = h("input", { type: "text", id: "other-model", placeholder: "EleutherAI/pythia-70m or /data/my-model", spellcheck: "false", autocomplete: "off", maxlength: 512 });
    const revision = h("input.revision", { type: "text", placeholder: "revision", "aria-label": "Revision (optional)", spellcheck: "false", autocomplete: "off", maxlength: 256 });
    const submit = (event) => {
      event.preventDefault();
      if (name.value.trim()) choose(name.value.trim(), revision.value.trim() || null);
    };
    return h("form.other", { onsubmit: submit }, h("label", { for: "other-model" }, "Any Hugging Face id, or a folder on the server"),
      h("div.other-row", {}, name, revision, h("button.primary", { type: "submit" }, "Open")));
  }

  function place() {
    const box = button.getBoundingClientRect();
    panel.style.top = box.bottom + 6 + "px";
    panel.style.left = Math.max(8, Math.min(box.left, innerWidth - panel.offsetWidth - 8)) + "px";
    panel.style.maxHeight = innerHeight - box.bottom - 20 + "px";
  }

  function start() {
    const { h } = lmscope.dom;
    button = h("button.picker-button", { type: "button", id: "picker-button", "aria-haspopup": "dialog", "aria-expanded": "false", popovertarget: "picker-panel" });
    panel = h("div.panel.picker-panel", { id: "picker-panel", popover: "auto", role: "dialog", "aria-label": "Models" },
      h("div.panel-head", {}, h("h2", {}, "Models"), h("span.shelf-bytes")), h("ul.cards"), otherModel());
    panel.addEventListener("toggle", (event) => {
      const shown = event.newState === "open";
      button.setAttribute("aria-expanded", String(shown));
      if (!shown) return;
      drawPanel();
      place();
      lmscope.shelf.refresh();
      (panel.querySelector(".card.chosen .card-choose") || panel.querySelector("button")).focus();
    });
    document.getElementById("picker").append(button, panel);
    lmscope.view.subscribe(() => { drawButton(); drawPanel(); });
    lmscope.shelf.subscribe(() => { drawButton(); drawPanel(); });
    lmscope.tab.subscribe(() => { drawButton(); drawPanel(); });
  }

  lmscope.picker = { start, facts };
})();
