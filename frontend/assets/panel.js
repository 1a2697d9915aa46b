/* Controls that the attention and heads pages share: they write the view, and show what it says. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});

  const ROWS = [["text", "Text", "Only the text's own tokens: no template, no special tokens, not row 0"], ["all", "All", "All rows of the text as the model sees it"]];
  const DEFINITIONS = [["lmscope", "LMScope"], ["clark", "Clark et al.", "Smoothing and denominators as published by Clark et al. 2019"]];
  const FIRST = "Hides key 0 and renormalises each row; statistics and baselines follow (ln(n−1))";
  const SOURCE = "Clark et al. 2019, “What Does BERT Look At?”; entropy in nats; every share beside its value under uniform attention.";
  const SIDES = [["edited", "Edited"], ["unedited", "Unedited"], ["difference", "Difference", "Edited minus unedited: blue is less, red is more"]];

  const focus = (patch) => lmscope.view.update({ focus: patch });
  const reading = (patch) => lmscope.view.update({ reading: patch });

  // Clark et al. define their numbers with every key: the two readings exclude each other, so one choice ends the other.
  const definitions = (name) => reading(name === "clark" ? { definitions: name, without_first: false } : { definitions: name });
  const withoutFirst = (on) => reading(on ? { without_first: on, definitions: "lmscope" } : { without_first: on });

  /** The part of a view that decides an answer. */
  function question(view) {
    const { view: defaults } = lmscope.dom.config();
    return { ...view, focus: defaults.focus, sampling: defaults.sampling, edits: view.edits.filter((edit) => edit.on) };
  }

  function select(id, label, options, act) {
    const { h } = lmscope.dom;
    const input = h("select", { id, onchange: () => act(input.value) }, options.map(([value, text]) => h("option", { value }, text)));
    return { element: h("label.field", {}, h("span", {}, label), input), show: (value) => (input.value = value) };
  }

  /** A choice of few as radio buttons: arrow keys come with the browser. */
  function segmented(name, label, options, act) {
    const { h } = lmscope.dom;
    const inputs = options.map(([value]) => h("input", { type: "radio", name, value, onchange: () => act(value) }));
    const labels = options.map(([, text, hint], i) => h("label", { title: hint || null }, inputs[i], h("span", {}, text)));
    return { element: h("fieldset.choice", {}, h("legend", {}, label), h("div.segments", {}, labels)), show: (value) => inputs.forEach((input) => (input.checked = input.value === value)) };
  }

  function check(label, hint, act) {
    const { h } = lmscope.dom;
    const input = h("input", { type: "checkbox", role: "switch", onchange: () => act(input.checked) });
    return { element: h("label.switch", { title: hint }, input, h("span", {}, label)), show: (value) => (input.checked = value) };
  }

  /** What is said where a difference of attention would be nothing at all. */
  const STEERED = "LM-Steer acts behind the last block: it changes no attention over one and the same text, so there is no difference to show. Another text has other maps: on the Steer page, use what was written as continuation.";
  const onlySteers = (view) => view.edits.some((edit) => edit.on) && view.edits.every((edit) => !edit.on || edit.kind === "steer");

  /** The sides of attention; under steers alone there is but one, and that is said. */
  function sidesOfAttention(target, view) {
    if (!onlySteers(view)) return sides(target, view);
    if (view.focus.side !== "edited") setTimeout(() => focus({ side: "edited" }));
    if (target.dataset.state === "steered") return undefined;
    target.dataset.state = "steered";
    target.choice = null;
    return target.replaceChildren(lmscope.dom.h("span.note", { role: "status" }, STEERED));
  }

  /** Edited, unedited, difference, as far as they are offered; or how to get there. */
  function sides(target, view, offered = SIDES) {
    const { h } = lmscope.dom;
    const active = view.edits.some((edit) => edit.on);
    const state = [active, view.compare].join();
    if (target.dataset.state !== state) {
      target.dataset.state = state;
      target.choice = null;
      if (!active) target.replaceChildren();
      else if (!view.compare) target.replaceChildren(h("button", { type: "button", onclick: () => lmscope.view.update({ compare: true }, { push: true }) }, "Compare with unedited"));
      else {
        target.choice = segmented(target.id + "-choice", "Side", offered, (side) => focus({ side }));
        target.replaceChildren(target.choice.element);
      }
    }
    if (target.choice) target.choice.show(offered.some(([side]) => side === view.focus.side) ? view.focus.side : offered[0][0]);
  }

  /** What an answer wants said, without what the token strip says already. */
  function notices(answer) {
    const strip = lmscope.strip && lmscope.strip.answer();
    return answer.notices.filter((said) => !(strip && strip.notices.includes(said)));
  }

  const small = matchMedia("(max-width: 40em)");
  let measuring = null;

  /**
   * Tell the style sheet how much of the window the shell takes, so that the pictures fill the rest, and how much of it
   * is scrolled away: on a small screen only the edits stay in sight.
   */
  function shell() {
    const gone = small.matches ? document.getElementById("edits").offsetTop : 0;
    const told = { "--shell": document.querySelector(".top").offsetHeight - gone, "--shell-gone": gone };
    for (const [name, pixels] of Object.entries(told)) document.documentElement.style.setProperty(name, Math.round(pixels) + "px");
  }

  function measure() {
    measuring = measuring || new ResizeObserver(shell);
    measuring.observe(document.querySelector(".top"));
  }

  lmscope.panel = { measure, notices, ROWS, DEFINITIONS, FIRST, SOURCE, SIDES, focus, reading, definitions, withoutFirst, question, select, segmented, check, sides, sidesOfAttention };
})();
