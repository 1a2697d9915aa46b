/* Light, dark or the system's choice; remembered, and told to the figures through the store `theme`. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const KEY = "lmscope-theme"; // read before the first paint, too (frontend/parts/browser.py)
  const WORDS = { light: "Light", dark: "Dark", auto: "System" };
  const system = matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    try {
      const kept = localStorage.getItem(KEY);
      return kept in WORDS ? kept : "auto";
    } catch {
      return "auto";
    }
  }

  const drawn = (choice) => (choice === "auto" ? (system.matches ? "dark" : "light") : choice);

  function apply(choice) {
    const theme = drawn(choice);
    document.documentElement.setAttribute("data-theme", theme);
    if (window.dash_clientside.set_props) window.dash_clientside.set_props("theme", { data: theme });
    window.dispatchEvent(new CustomEvent("lmscope:theme", { detail: theme }));
    const button = document.getElementById("theme-button");
    if (button) {
      button.title = button.ariaLabel = "Theme: " + WORDS[choice];
      button.replaceChildren(lmscope.dom.icon({ light: "sun", dark: "moon", auto: "system" }[choice]));
    }
  }

  function choose(choice) {
    try {
      localStorage.setItem(KEY, choice);
    } catch {
      // private mode: the choice lasts as long as the page
    }
    apply(choice);
    lmscope.dom.announce("Theme: " + WORDS[choice]);
  }

  const next = () => choose({ auto: "light", light: "dark", dark: "auto" }[chosen()]);

  function start() {
    system.addEventListener("change", () => apply(chosen()));
    document.getElementById("theme-button").addEventListener("click", next);
    apply(chosen());
  }

  lmscope.theme = { start, choose, chosen, now: () => document.documentElement.getAttribute("data-theme") };
})();
