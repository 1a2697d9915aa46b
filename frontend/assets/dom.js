/* Small tools for the scripts that draw outside React: elements, announcements, numbers. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});

  /** Make an element: h("button.class", {onclick, "aria-label"}, "text", child, null). */
  function h(kind, properties, ...children) {
    const [tag, ...classes] = kind.split(".");
    const element = document.createElement(tag);
    if (classes.length) element.className = classes.join(" ");
    for (const [name, value] of Object.entries(properties || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name === "value" || name === "checked" || name === "disabled" || name === "indeterminate") element[name] = value;
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
    return element;
  }

  const icon = (name) => h("span.icon.icon-" + name, { "aria-hidden": "true" });

  /** Say something to a screen reader, and show it for a moment. */
  function announce(text) {
    const place = document.getElementById("announcer");
    if (!place) return;
    place.textContent = "";
    place.classList.remove("shown");
    requestAnimationFrame(() => {
      place.textContent = text;
      place.classList.add("shown");
      clearTimeout(announce.timer);
      announce.timer = setTimeout(() => place.classList.remove("shown"), 2600);
    });
  }

  const bytes = (count) => {
    if (!count) return "0 MB";
    if (count < 1e6) return Math.max(1, Math.round(count / 1e3)) + " kB";
    if (count < 1e9) return (count / 1e6).toFixed(count < 1e7 ? 1 : 0) + " MB";
    return (count / 1e9).toFixed(2) + " GB";
  };

  /** Digits that carry meaning: four for float32, three for half precision; trailing zeros are digits too. */
  const digits = (value, figures = 4) => (Number.isFinite(value) ? value.toPrecision(figures).replace("-", "−") : "n/a");

  /** A number that a person has chosen, as they would write it. */
  const plain = (value) => Number(value.toPrecision(6)).toString().replace("-", "−");

  /** A sentence: capital letter, full stop. A name of a model keeps its own letters. */
  const sentence = (text) => {
    if (!text) return "";
    const first = /^\S*[\d/_.-]/.test(text) ? text.charAt(0) : text.charAt(0).toUpperCase();
    return first + text.slice(1) + (/[.!?…:]$/.test(text) ? "" : ".");
  };

  const seconds = (value) =>
    value === null || value === undefined ? "" : value < 90 ? Math.max(1, Math.round(value)) + " s left" : Math.round(value / 60) + " min left";

  /** Numbers of a schema Array as a typed array. */
  function numbers(array) {
    if (!array) return null;
    const raw = atob(array.bdata);
    const buffer = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) buffer[i] = raw.charCodeAt(i);
    const kinds = { u1: Uint8Array, i1: Int8Array, i4: Int32Array, f4: Float32Array };
    return new kinds[array.dtype](buffer.buffer);
  }

  const config = () => (config.kept = config.kept || JSON.parse(document.getElementById("lmscope-config").textContent));

  lmscope.dom = { h, icon, announce, bytes, digits, plain, sentence, seconds, numbers, config };
})();
