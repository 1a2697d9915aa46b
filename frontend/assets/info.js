/* Small windows that open from a button: what a panel shows and how far it can be trusted, menus, code. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  let count = 0;

  /** A button that opens a popover; `fill` makes its children each time it opens. Escape and a click outside close it. */
  function popover(face, label, fill, kind = "panel") {
    const { h } = lmscope.dom;
    const id = "popover-" + ++count;
    const body = h("div." + kind, { id, popover: "auto", tabindex: kind.endsWith(".about") ? "0" : null });
    const button = h("button.quiet.popover-button", { type: "button", "aria-label": label, title: label, popovertarget: id, "aria-haspopup": "dialog" }, face);
    body.addEventListener("beforetoggle", (event) => {
      if (event.newState === "open") body.replaceChildren(...[fill(() => body.hidePopover())].flat());
    });
    body.addEventListener("toggle", (event) => {
      if (event.newState === "open") settle(body, button);
    });
    return h("span.popover-holder", {}, button, body);
  }

  /** Put a popover under its button, inside the window. */
  function settle(body, button) {
    const box = button.getBoundingClientRect();
    const own = body.getBoundingClientRect();
    const left = Math.max(8, Math.min(box.right - own.width, innerWidth - own.width - 8));
    const below = box.bottom + 4;
    const top = below + own.height > innerHeight - 8 ? Math.max(8, innerHeight - own.height - 8) : below;
    body.style.left = left + "px";
    body.style.top = top + "px";
  }

  /** A list of terms and what they say, without the empty ones. */
  function facts(pairs) {
    const { h } = lmscope.dom;
    return h("dl.facts", {}, pairs.filter(([, text]) => text).map(([term, text]) => [h("dt", {}, term), h("dd", {}, text)]));
  }

  const MADE_BY = {
    eager: "made by the family's own eager attention in float32",
    sdpa: "recomputed in float32 beside the fused kernel that the model runs",
  };

  /** Conditions, precision and the self-check of the model: the same end for every panel's explanation. */
  function trust(conditions) {
    const { h } = lmscope.dom;
    const card = lmscope.shelf.card(lmscope.view.get());
    const promises = card ? card.promises : [];
    const versions = Object.entries(conditions.versions).map(([name, version]) => name + " " + version).join(", ");
    const word = (kept) => (kept === null ? "does not apply" : kept ? "kept" : "broken");
    const kind = Object.keys(MADE_BY).find((name) => conditions.kernel.includes(name));
    return [
      h("h3", {}, "Precision"),
      h("p", {}, "The model runs in " + conditions.dtype + "; maps and entropies are " + (kind ? MADE_BY[kind] : "made in float32") + " (kernel " + conditions.kernel + "). " + lmscope.numbers.digits(conditions) + " digits are printed."),
      promises.length ? h("h3", {}, "Self-check at load") : null,
      promises.length ? h("ul.promises", {}, promises.map((each) => h("li.kept-" + each.kept, {}, h("span.mark", { "aria-hidden": "true" }, each.kept === null ? "–" : each.kept ? "✓" : "✗"), h("span", {}, each.name + ": " + word(each.kept)), h("span.detail", {}, each.detail)))) : null,
      h("h3", {}, "Conditions"),
      facts([
        ["model", conditions.model + (conditions.revision ? " @ " + conditions.revision : "")], ["weights", conditions.digest.slice(0, 12)],
        ["quantisation", conditions.quantisation], ["device", conditions.device], ["versions", versions],
      ]),
    ].filter(Boolean);
  }

  /** The ⓘ of a panel. `about()` gives {title, definition: [..], unit, source, conditions} when it opens. */
  function button(name, about) {
    const { h } = lmscope.dom;
    return popover(h("span.info-mark", { "aria-hidden": "true" }, "i"), "About " + name, () => {
      const said = about();
      return [
        h("h2", {}, said.title), ...said.definition.map((line) => h("p", {}, line)), facts([["unit", said.unit], ["source", said.source]]),
        ...(said.conditions ? trust(said.conditions) : [h("p", {}, "Numbers appear when the model has answered.")]),
      ];
    }, "panel.about");
  }

  /** A menu of actions: [[label, act], …]. */
  function menu(face, label, entries) {
    const { h } = lmscope.dom;
    return popover(face, label, (close) => h("ul.menu", {}, entries().map(([text, act]) => h("li", {}, h("button.quiet", { type: "button", onclick: () => (close(), act()) }, text)))), "panel.menu-box");
  }

  /** The same as Python, twice: our client's call, and a script that needs no server of ours. */
  function code(texts) {
    const { h } = lmscope.dom;
    const old = document.getElementById("code-dialog");
    if (old) old.remove();
    const part = (title, hint, text) => {
      const copy = h("button", { type: "button", onclick: () => navigator.clipboard.writeText(text).then(() => lmscope.dom.announce("Copied"), () => lmscope.dom.announce("The browser did not allow copying: select the text and copy it")) }, "Copy");
      return h("section.code-part", {}, h("header.sheet-head", {}, h("h3", {}, title), copy), h("p.hint", {}, hint), h("pre", { tabindex: "0" }, h("code", {}, text)));
    };
    const dialog = h("dialog.code-dialog", { id: "code-dialog", "aria-label": "The same as Python" },
      h("header.sheet-head", {}, h("h2", {}, "The same as Python"), h("button.quiet", { type: "button", "aria-label": "Close", onclick: () => dialog.close() }, "✕")),
      part("LMScope's client", "Asks this server; gives numpy arrays.", texts.client),
      texts.transformers ? part("Plain transformers", "Needs no server of ours and gives the same number.", texts.transformers) : "");
    document.body.append(dialog);
    dialog.addEventListener("close", () => dialog.remove());
    dialog.showModal();
  }

  /** Where Python asks the same: the backend, which pages on a server of their own do not share. */
  const server = () => lmscope.dom.config().backend || location.origin + lmscope.dom.config().path.replace(/\/$/, "");

  lmscope.info = { popover, button, menu, code, facts, trust, server };
})();
