/* The edit bar: nobody may look at an edited model without knowing. One chip an edit. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const AT = { all: "all tokens", prompt: "the prompt only", generated: "the continuation only" };
  let place, panel;
  let editing = null; // index of the edit whose panel is open
  let dragging = false;

  function where(edit) {
    if (edit.at === "all") return "";
    return typeof edit.at === "string" ? AT[edit.at] : (edit.at.length === 1 ? "token " : "tokens ") + edit.at.join(", ");
  }

  const edits = () => lmscope.view.get().edits;
  const write = (next, push = true) => lmscope.view.update({ edits: next }, { push });
  const change = (index, edit, push = true) => write(edits().map((each, i) => (i === index ? edit : each)), push);
  const remove = (index) => { close(); write(edits().filter((_, i) => i !== index)); };

  function add(edit) {
    const most = lmscope.dom.config().edits;
    if (edits().length >= most) return lmscope.dom.announce("A view carries at most " + most + " edits");
    write([...edits(), edit]);
  }

  // ------------------------------------------------------------- the bar

  function chip(edit, index) {
    const { h, icon } = lmscope.dom;
    const words = lmscope.editKinds.label(edit), at = where(edit);
    return h("span.edit" + (edit.on ? "" : ".is-off"), {},
      h("label.edit-on", { title: edit.on ? "Switch this edit off" : "Switch this edit on" },
        h("input", { type: "checkbox", role: "switch", checked: edit.on, "aria-label": words + ", on", onchange: (event) => change(index, { ...edit, on: event.target.checked }) })),
      h("button.edit-label", { type: "button", "aria-haspopup": "dialog", "aria-expanded": String(editing === index), title: "Strength and place", onclick: (event) => open(index, event.currentTarget) },
        words, at ? h("span.edit-at", {}, at) : null),
      h("button.quiet.edit-delete", { type: "button", "aria-label": "Delete " + words, onclick: () => remove(index) }, icon("close")));
  }

  function adder() {
    const { h } = lmscope.dom;
    const input = h("input", { type: "text", id: "add-edit", placeholder: "head 5.3", maxlength: 40, spellcheck: "false", autocomplete: "off", "aria-describedby": "add-edit-says" });
    const says = h("span.says", { id: "add-edit-says", role: "alert" });
    input.addEventListener("input", () => { says.textContent = ""; input.removeAttribute("aria-invalid"); });
    const submit = (event) => {
      event.preventDefault();
      const edit = lmscope.editKinds.parse(input.value);
      const why = edit === null ? "Write layer.head, such as 5.3, 5.3 x 0.5 or 5.3 = 0, or a unit: L12U34." : lmscope.editKinds.unfit(edit, lmscope.shelf.card(lmscope.view.get()));
      says.textContent = why || "";
      if (why) return input.setAttribute("aria-invalid", "true");
      input.value = "";
      add(edit);
      return undefined;
    };
    return h("form.add-edit", { onsubmit: submit }, h("label", { for: "add-edit" }, "Switch off"), input, h("button.link", { type: "submit" }, "Add"), says);
  }

  function draw() {
    const { h } = lmscope.dom;
    const view = lmscope.view.get();
    if (!view || dragging) return;
    const some = view.edits.length > 0;
    const active = view.edits.filter((edit) => edit.on).length;
    place.classList.toggle("has-edits", active > 0);
    place.classList.toggle("all-off", some && active === 0);
    const state = !some ? "Model as trained" : active ? "Edited model" : "Edits off";
    place.querySelector(".edits-state").textContent = state;
    const list = place.querySelector(".edit-list");
    const had = list.contains(document.activeElement) ? [...list.querySelectorAll("input,button")].indexOf(document.activeElement) : -1;
    list.replaceChildren(...view.edits.map(chip));
    const again = list.querySelectorAll("input,button");
    if (had >= 0) (again[Math.min(had, again.length - 1)] || place.querySelector("#add-edit")).focus();
    place.querySelector(".edits-tools").replaceChildren(...(some ? [
      h("label.switch", { title: "Also answer for the unedited model, and the difference" }, h("input", { type: "checkbox", role: "switch", id: "compare", checked: view.compare, onchange: (event) => lmscope.view.update({ compare: event.target.checked }, { push: true }) }), h("span", {}, "compare with unedited")),
      h("button.link", { type: "button", id: "clear-edits", onclick: () => { close(); lmscope.view.update({ edits: [], compare: false, focus: { side: "edited" } }, { push: true }); } }, "clear all")] : []));
  }

  // ------------------------------------------------------------- strength and place

  function open(index, anchor) {
    if (editing === index) return close();
    editing = index;
    panel.replaceChildren(form(index));
    panel.showPopover();
    const box = anchor.getBoundingClientRect();
    panel.style.top = box.bottom + 6 + "px";
    panel.style.left = Math.max(8, Math.min(box.left, innerWidth - panel.offsetWidth - 8)) + "px";
    anchor.setAttribute("aria-expanded", "true");
    panel.querySelector("input,select").focus();
    return undefined;
  }

  function close() {
    if (panel.matches(":popover-open")) panel.hidePopover();
  }

  function form(index) {
    const { h } = lmscope.dom;
    const { on, of } = lmscope.editKinds;
    const edit = edits()[index];
    return h("div.edit-form", {},
      h("h3", {}, on(edit)),
      ...(lmscope.editKinds.strength(edit) ? [kinds(index), strength(index)] : [h("p.hint", {}, of(edit).does(edit) || "This page does not know this kind of edit; reload it to learn it.")]),
      h("label.at", {}, h("span", {}, "for"), places(index)));
  }

  /** Slider and number, which move together; one drag is one entry for Back, made by its first value. */
  function strength(index) {
    const { h } = lmscope.dom;
    const { MOST, of, label } = lmscope.editKinds;
    const edit = () => edits()[index];
    const key = () => lmscope.editKinds.strength(edit());
    const exact = h("input", { type: "number", step: "any", min: -MOST, max: MOST, "aria-label": "Strength, exactly" });
    const slider = h("input", { type: "range", step: 0.05, "aria-label": "Strength" });
    let pushed = false;
    const put = (value) => {
      change(index, { ...edit(), [key()]: value }, !pushed);
      pushed = true;
    };
    const sender = lmscope.busy.latest(put);
    const show = () => {
      const card = lmscope.steers.isSlider(edit()) && lmscope.steers.cardOf(edit());
      [slider.min, slider.max] = card && card.range ? [card.range.low, card.range.high] : of(edit()).range;
      slider.value = edit()[key()];
      exact.value = edit()[key()];
    };
    const settle = (value) => {
      sender.drop();
      dragging = false;
      if (!Number.isFinite(value) || Math.abs(value) > MOST) return show();
      put(value);
      pushed = false;
      show();
      return draw();
    };
    slider.addEventListener("input", () => {
      dragging = true;
      exact.value = slider.value;
      const chipLabel = place.querySelectorAll(".edit-label")[index];
      if (chipLabel) chipLabel.firstChild.textContent = label({ ...edit(), [key()]: Number(slider.value) });
      sender.send(Number(slider.value));
    });
    slider.addEventListener("change", () => settle(Number(slider.value)));
    exact.addEventListener("change", () => settle(exact.valueAsNumber));
    show();
    return h("div.strength", {}, slider, exact);
  }

  /** What else can be done to the same part. */
  function kinds(index) {
    const { h } = lmscope.dom;
    const edit = () => edits()[index];
    const { others } = lmscope.editKinds.of(edit());
    if (!others.length) return null;
    const choose = (kind) => {
      change(index, lmscope.editKinds.as(kind, edit()));
      panel.querySelector(".strength").replaceWith(strength(index));
    };
    const one = ([kind, words]) => h("label", {}, h("input", { type: "radio", name: "edit-kind", value: kind, checked: edit().kind === kind, onchange: () => choose(kind) }), h("span", {}, words));
    return h("div.segments", { role: "radiogroup", "aria-label": "What is done" }, others.map(one));
  }

  function places(index) {
    const { h } = lmscope.dom;
    const edit = () => edits()[index];
    const token = lmscope.view.get().focus.token;
    const listed = typeof edit().at === "string" ? null : edit().at;
    const at = h("select", { "aria-label": "Which tokens", onchange: () => change(index, { ...edit(), at: at.value === "focus" ? [token] : at.value === "listed" ? listed : at.value }) },
      Object.entries(AT).map(([value, text]) => h("option", { value }, text)),
      token !== null ? h("option", { value: "focus" }, "the focus token (" + token + ")") : null,
      listed ? h("option", { value: "listed" }, where(edit())) : null);
    at.value = listed ? "listed" : edit().at;
    return at;
  }

  function start() {
    const { h, icon } = lmscope.dom;
    place = document.getElementById("edits");
    place.setAttribute("role", "region");
    place.setAttribute("aria-label", "Edits");
    place.append(h("span.edits-badge", {}, icon("edit"), h("span.edits-state", {}, "Model as trained")), h("div.edit-list"), adder(), h("div.edits-tools"));
    panel = h("div.panel.edit-panel", { id: "edit-panel", popover: "auto", role: "dialog", "aria-label": "Strength and place of the edit" });
    panel.addEventListener("toggle", (event) => {
      if (event.newState === "open") return;
      dragging = false;
      const was = editing;
      editing = null;
      draw();
      if (was !== null) place.querySelectorAll(".edit-label")[was]?.focus();
    });
    place.append(panel);
    lmscope.view.subscribe(draw);
    lmscope.steers.listeners.add(draw);
  }

  lmscope.edits = { start, add, strength, off: (layer, head) => add({ kind: "head.scale", at: "all", on: true, layer, head, by: 0 }) };
})();
