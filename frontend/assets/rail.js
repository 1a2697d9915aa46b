/* The rail: which instrument is open, and links that carry the view. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});

  const links = () => document.querySelectorAll("#rail a[data-instrument]");

  function mark() {
    const now = lmscope.view.instrument();
    const card = lmscope.shelf.card(lmscope.view.get());
    for (const link of links()) {
      const name = link.dataset.instrument;
      const ability = card && card.can[name];
      const cannot = ability && !ability.can;
      if (name === now) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
      link.classList.toggle("cannot", Boolean(cannot));
      link.title = link.textContent + (cannot ? ": " + (ability.why || "this model cannot show it") : "");
    }
  }

  function start() {
    for (const link of links()) {
      link.addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || event.button !== 0) return;
        event.preventDefault();
        if (link.dataset.instrument !== lmscope.view.instrument()) lmscope.view.go(link.dataset.instrument);
      });
    }
    lmscope.view.subscribe(mark);
    lmscope.shelf.subscribe(mark);
    window.addEventListener("popstate", mark);
    window.addEventListener("_dashprivate_pushstate", mark);
    mark();
  }

  lmscope.rail = { start };
})();
