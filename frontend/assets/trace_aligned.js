/* Two texts under each other on the trace page, position by position; a token of the other text is dragged onto its place. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const trace = lmscope.trace;
  const { place } = trace;
  const focus = (patch) => lmscope.panel.focus(patch);
  const WINDOW = 128; // positions that are drawn at once
  let dragged = null;

  function draw(view, source, here, aligned) {
    const { h } = lmscope.dom;
    const target = place("patch-strips");
    const long = Math.max(source.ids.length, here.ids.length);
    const token = trace.lens.tokenOf(view);
    const low = Math.max(0, Math.min(token - WINDOW / 2, long - WINDOW));
    place("patch-unfit").replaceChildren(...(aligned ? [] : [unfit(source, here)]), long > WINDOW ? h("p.note", {}, "Of " + long.toLocaleString("en") + " positions, those around the focus are shown.") : "");
    const active = target.contains(document.activeElement) ? document.activeElement.id : null;
    const scrolled = target.querySelector(".patch-columns")?.scrollLeft;
    const columns = Array.from({ length: Math.min(long, WINDOW) }, (_, i) => column(source.tokens[low + i], here.tokens[low + i], low + i, token, aligned));
    target.replaceChildren(h("span.patch-names", { "aria-hidden": "true" }, h("span", {}, "other text"), h("span", {}, "↓"), h("span", {}, "this text")), h("div.patch-columns", { role: "list", "aria-label": "Both texts, position by position" }, columns));
    if (scrolled) target.querySelector(".patch-columns").scrollLeft = scrolled;
    if (active) document.getElementById(active)?.focus({ preventScroll: true });
  }

  const unfit = (source, here) => lmscope.notice.element({
    type: "cannot", what: "The texts do not align", why: "the other text has " + source.ids.length + " tokens, this one " + here.ids.length,
    instead: "Patching puts a state at its own position: change a word for another of as many tokens, until both rows have the same length",
  });

  function column(one, two, position, token, aligned) {
    const { h } = lmscope.dom;
    const differs = !one || !two || one.id !== two.id;
    const here = position === token;
    return h("span.patch-column" + (differs ? ".differs" : "") + (here ? ".here" : ""), { role: "listitem" },
      one ? from(chip(one, position, "other text", "patch-from-", here), position, aligned) : h("span.patch-gap", {}, "–"),
      h("span.patch-arrow", { "aria-hidden": "true" }, differs ? "≠" : ""),
      two ? onto(chip(two, position, "this text", "patch-to-", here), position) : h("span.patch-gap", {}, "–"));
  }

  function chip(token, position, text, id, here) {
    const words = lmscope.strip.printed(token, false);
    return lmscope.dom.h("button.patch-chip", { type: "button", id: id + position, "aria-pressed": String(here), "aria-label": text + ", token " + position + " " + words, onclick: () => focus({ token: position }) }, words);
  }

  function from(element, position, aligned) {
    if (!aligned) return element;
    element.draggable = true;
    element.title = "Drag it down onto this text, or choose it and press Patch";
    element.addEventListener("dragstart", (event) => {
      dragged = position;
      event.dataTransfer.effectAllowed = "copy";
      event.dataTransfer.setData("text/plain", element.textContent);
    });
    element.addEventListener("dragend", () => { dragged = null; });
    return element;
  }

  function onto(element, position) {
    element.addEventListener("dragover", (event) => {
      if (dragged === null) return;
      event.preventDefault();
      element.classList.toggle("over", dragged === position);
    });
    element.addEventListener("dragleave", () => element.classList.remove("over"));
    element.addEventListener("drop", (event) => {
      event.preventDefault();
      element.classList.remove("over");
      dropped(position);
    });
    return element;
  }

  function dropped(position) {
    const source = dragged;
    dragged = null;
    if (source === null) return;
    if (source !== position) return void lmscope.dom.announce("A state goes to its own position: token " + source + " onto token " + source);
    focus({ token: position });
    trace.patch.at(position);
  }

  trace.aligned = { draw };
})();
