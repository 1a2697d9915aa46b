/* Notices drawn in the browser, in the same form as frontend/parts/notice.py. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});

  function element(problem, onclose, action) {
    const { h, icon, sentence } = lmscope.dom;
    const instead = problem.instead ? h("span.notice-instead", {}, sentence(problem.instead)) : null;
    return h("div.notice" + (action ? ".notice-waiting" : ""), { role: "alert", "data-type": problem.type },
      icon("alert"),
      h("div.notice-words", {}, h("strong.notice-what", {}, sentence(problem.what)), h("span.notice-why", {}, sentence(problem.why)), instead),
      action ? h("button.primary.notice-action", { type: "button", onclick: action.act }, action.label) : null,
      onclose ? h("button.quiet.notice-close", { type: "button", "aria-label": "Dismiss", onclick: onclose }, icon("close")) : null);
  }

  /** Show a problem in a place that only scripts write; `action` ({label, act}) is a button that ends it. */
  function show(id, problem, action) {
    const place = document.getElementById(id);
    if (place) place.replaceChildren(element(problem, () => clear(id), action));
  }

  function clear(id) {
    const place = document.getElementById(id);
    if (place) place.replaceChildren();
  }

  // ------------------------------------------------------------------ what Python wrote

  /** Where an older answer stands under a notice. */
  const older = {
    "attention-overview-notice": () => lmscope.attention.page.overview,
    "attention-head-notice": () => lmscope.attention.page.head,
    "heads-notice": () => lmscope.heads.answer(),
    "trace-notice": () => lmscope.trace.answer(),
    "trace-cell-notice": () => lmscope.trace.cell.answer(),
    "why-notice": () => lmscope.trace.why.answer(),
  };

  /** One refusal of several questions is explained once, in the first place; the others name it. */
  function mark() {
    const said = new Set();
    for (const place of document.querySelectorAll(".notice-place:not([hidden])")) {
      const notice = place.firstElementChild;
      const words = notice ? [...notice.querySelectorAll(".notice-what, .notice-why, .notice-instead")].map((part) => part.textContent).join(" ") : "";
      place.toggleAttribute("data-again", Boolean(notice) && said.has(words));
      place.toggleAttribute("data-older", Boolean(notice && older[place.id] && older[place.id]()));
      said.add(words);
    }
    if (document.querySelector("#scores-notice > *")) lmscope.strip.unscored();
  }

  const start = () => new MutationObserver(mark).observe(document.getElementById("shell"), { childList: true, subtree: true, attributeFilter: ["hidden"] });

  lmscope.notice = { start, show, clear, element };
})();
