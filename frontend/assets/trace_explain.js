/* Target and foil of the trace page: which prediction its panels explain. Both are chosen by clicking words. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const trace = lmscope.trace;
  const { wordOf } = trace;
  const focus = (patch) => lmscope.panel.focus(patch);

  /** The token after which the prediction is explained: chosen, or the last. It stays while cells are looked at. */
  const tokenOf = (view) => Math.min(view.focus.explained === null ? Infinity : view.focus.explained, trace.lens.count() - 1);

  /** The `explain` of a question: target against foil or the rest, after the explained token or another one. */
  function ask(view, token = tokenOf(view)) {
    const { target, foil, against } = view.focus;
    return { token, target, foil: against === "rest" ? null : foil, against };
  }

  /** Target and foil as they are resolved: chosen, or the two likeliest of the edited model's own answer. */
  function pair(view) {
    const last = trace.lens.fresh() && trace.lens.lastOf("edited", tokenOf(view));
    const ids = last ? last.ids : [];
    const { target, foil, against } = view.focus;
    const one = target === null ? ids.find((id) => id !== foil || foil === null) : target;
    const chosen = target === null && foil !== null && ids[0] === foil ? ids[0] : one;
    const other = foil === null ? ids.find((id) => id !== chosen) : foil;
    return { target: chosen === undefined ? null : chosen, foil: against === "rest" || other === undefined ? null : other, against };
  }

  const setTarget = (id) => focus({ target: lmscope.view.get().focus.target === id ? null : id });
  const setFoil = (id) => focus(id === "rest" ? { against: "rest" } : { against: "foil", foil: id });

  /** Two small buttons behind a word: + explains it, − explains against it. */
  function buttons(view, id) {
    const { h } = lmscope.dom;
    const now = pair(view);
    const one = (sign, words, pressed, act, unfit) =>
      h("button.sign", { type: "button", "aria-pressed": String(pressed), title: words + " “" + wordOf(id) + "”", "aria-label": words + " " + wordOf(id), disabled: unfit, onclick: act }, sign);
    return h("span.signs", {},
      one("+", "Explain", now.target === id, () => setTarget(id), now.foil === id && view.focus.foil === id),
      one("−", "Explain against", now.foil === id, () => setFoil(id), now.target === id));
  }

  /** “ Paris” rather than “ the”, or than all other words. */
  function words(explained) {
    const target = "“" + wordOf(explained.target) + "”";
    return target + (explained.against === "rest" || explained.foil === null ? " rather than any other word" : " rather than “" + wordOf(explained.foil) + "”");
  }

  /** Two selects with the words that the answer's rows know, for the hand and the keyboard. */
  function selects() {
    const { h } = lmscope.dom;
    const target = h("select", { id: "why-target", onchange: () => focus({ target: target.value === "" ? null : Number(target.value) }) });
    const foil = h("select", { id: "why-foil", onchange: () => (foil.value === "rest" ? focus({ against: "rest" }) : focus({ against: "foil", foil: foil.value === "" ? null : Number(foil.value) })) });
    const at = h("select", { id: "why-token", onchange: () => focus({ explained: at.value === "" ? null : Number(at.value) }) });
    let state = null;

    /** The last token, the open cell's, and the chosen one. */
    function showToken(view) {
      const last = trace.lens.count() - 1;
      const offered = [...new Set([tokenOf(view), trace.lens.tokenOf(view)])].filter((token) => token !== last);
      at.replaceChildren(h("option", { value: "" }, "the last token: " + trace.tokenName(last)), ...offered.map((token) => h("option", { value: token }, trace.tokenName(token))));
      at.value = tokenOf(view) === last ? "" : String(tokenOf(view));
    }

    function show(view) {
      const { ids } = trace.lens.lastOf("edited", tokenOf(view)) || { ids: [] };
      const offered = [...new Set([...ids, view.focus.target, view.focus.foil].filter((id) => id !== null))];
      const now = pair(view);
      const next = JSON.stringify([offered.map(wordOf), now, view.focus.target, view.focus.foil, tokenOf(view), trace.lens.tokenOf(view), trace.turn()]);
      if (next === state) return;
      state = next;
      showToken(view);
      const options = (self, other, chosen) => [
        h("option", { value: "" }, "the likeliest" + (chosen === null && self !== null ? ": " + wordOf(self) : "")),
        ...offered.filter((id) => id !== other).map((id) => h("option", { value: id }, wordOf(id)))];
      target.replaceChildren(...options(now.target, view.focus.foil, view.focus.target));
      foil.replaceChildren(...options(now.foil, view.focus.target, view.focus.foil), h("option", { value: "rest" }, "all other words"));
      target.value = view.focus.target === null ? "" : String(view.focus.target);
      foil.value = view.focus.against === "rest" ? "rest" : view.focus.foil === null ? "" : String(view.focus.foil);
    }

    return { elements: [h("label.field", {}, h("span", {}, "Explain"), target), h("label.field", {}, h("span", {}, "against"), foil), h("label.field", {}, h("span", {}, "after"), at)], show };
  }

  trace.explain = { tokenOf, ask, pair, buttons, words, selects };
})();
