/* Parts that panels of several pages are made of: tables, choices, buttons, words and their numbers. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const digits = (value, figures = 3) => lmscope.dom.digits(value, figures);
  const signed = (value, figures = 3) => (value > 0 ? "+" : "") + digits(value, figures);

  /** Fill a select anew only when its choices have changed, so that one that is open stays open. */
  function fill(select, options, value) {
    const state = JSON.stringify(options);
    if (select.dataset.state !== state) {
      select.dataset.state = state;
      select.replaceChildren(...options.map(([given, text]) => lmscope.dom.h("option", { value: given }, text)));
    }
    if (options.some(([given]) => given === value)) select.value = value;
    return select.value;
  }

  /** A table of rows of cells; `kinds` are classes of columns. Each row begins with its name. */
  function table(label, head, rows, kinds = []) {
    const { h } = lmscope.dom;
    const kind = (tag, i) => tag + (kinds[i] ? "." + kinds[i] : "");
    return h("div.table-scroller", { tabindex: "0", role: "region", "aria-label": label }, h("table.numbers", {},
      h("thead", {}, h("tr", {}, head.map((text, i) => h(kind("th", i), { scope: "col" }, text)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) => (i ? h(kind("td", i), {}, cell) : h(kind("th", 0), { scope: "row" }, cell))))))));
  }

  /** Behind a summary; what is inside is made when it is opened, and stays open when it is made anew. */
  function folded(place, summary, make) {
    const { h } = lmscope.dom;
    const wasOpen = place.querySelector("details")?.open;
    const details = h("details.folded", { ontoggle: () => details.open && details.children.length === 1 && details.append(...[make()].flat()) }, h("summary", {}, summary));
    place.replaceChildren(details);
    if (wasOpen) details.open = true;
  }

  const lines = (text) => text.split(/\r?\n/).map((line) => line.trim()).filter(Boolean);
  const notes = (notices) => notices.map((text) => lmscope.dom.h("p.note", {}, lmscope.dom.sentence(text)));

  /** The two buttons that every panel has beside its ⓘ: downloads, and the same as Python. */
  function tools(name, entries, code, about) {
    const { h, icon } = lmscope.dom;
    return [
      lmscope.info.menu(icon("download"), "Download " + name, entries),
      h("button.quiet", { type: "button", title: "Copy as Python: the client’s call", "aria-label": "Copy " + name + " as Python", onclick: code }, icon("copy")),
      lmscope.info.button(name, about),
    ];
  }

  const held = new Map(); // place → what it shows once the button in it that is pressed was let go

  /** Draw a row of controls anew: not under a hand that presses one of them, and with the keyboard where it was. */
  function redraw(place, parts) {
    if (held.has(place) || place.querySelector(":active")) return void hold(place, parts);
    const had = place.contains(document.activeElement) ? document.activeElement.id || document.activeElement.textContent : null;
    place.replaceChildren(...parts);
    if (had === null) return;
    const again = [...place.querySelectorAll("button, select, input")].find((each) => (each.id || each.textContent) === had && !each.disabled);
    (again || place.querySelector("button:not(:disabled)"))?.focus({ preventScroll: true });
  }

  /** A click is heard only by the button that was pressed. */
  function hold(place, parts) {
    const isHeld = held.has(place);
    held.set(place, parts);
    if (isHeld) return;
    const letGo = new AbortController();
    const after = () => (letGo.abort(), setTimeout(() => { const last = held.get(place); held.delete(place); redraw(place, last); }));
    for (const end of ["pointerup", "pointercancel", "keyup"]) window.addEventListener(end, after, { signal: letGo.signal });
  }

  /** Words of the vocabulary as chips, from ids. */
  const word = (id) => lmscope.dom.h("span.value-word", { title: "token " + id }, lmscope.panelWords.wordOf(id));
  const few = (ids) => lmscope.dom.h("span.value-few", {}, ids.map(word));

  /** A number that a person types: `act` hears it when it is one and inside the limits. */
  function number(id, label, limits, act, hint) {
    const { h } = lmscope.dom;
    const input = h("input.panel-number", { id, type: "number", required: true, ...limits, onchange: () => input.checkValidity() && act(Number(input.value)) });
    return { input, element: h("label.field", { title: hint || null }, h("span", {}, label), input), show: (value) => document.activeElement !== input && (input.value = String(value)) };
  }

  lmscope.panelParts = { digits, signed, fill, table, folded, lines, notes, tools, redraw, word, few, number };
})();
