/* Writing on the steer page: steered beside base, anew whenever a slider was let go. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const steer = lmscope.steer;
  const isSteered = (view) => view.edits.some((edit) => edit.on && lmscope.steers.isSlider(edit));

  steer.write = lmscope.continuation.make({
    page: steer, ratio: true, follows: true, compares: isSteered,
    words: {
      edited: "Steered", unedited: "Base", having: "when steered", stale: "Text or sliders have changed since this was written.",
      both: "The text goes on with the sliders and without them, under the same random numbers.",
      alone: "No slider is on: the text goes on as the model would write it. Drag a slider, and the steered text comes beside it.",
    },
  });

  /** LM-Steer acts behind the last block: to see another attention, one needs another text. */
  function note(view) {
    const { h } = lmscope.dom;
    const only = view.edits.some((edit) => edit.on) && view.edits.every((edit) => !edit.on || edit.kind === "steer");
    const there = (name, words) => h("button.link", { type: "button", onclick: () => lmscope.view.go(name) }, words);
    const words = only
      ? ["Over the prompt these sliders change no attention: they act behind the last block, so the maps of one and the same text are the same with and without them. “Use as continuation” makes the steered text part of the view; then ", there("attention", "its attention"), " and ", there("trace", "its trace"), " can be looked at under the steer."]
      : ["“Use as continuation” makes the steered text part of the view; then ", there("attention", "its attention"), " and ", there("trace", "its trace"), " can be looked at under the sliders."];
    const place = steer.place("steer-attention-note");
    if (place.dataset.only === String(only)) return;
    place.dataset.only = only;
    place.replaceChildren(...words);
  }

  steer.join({ start: () => delete steer.place("steer-attention-note").dataset.only, draw: note });
  window.addEventListener("load", () => steer.sliders.listeners.add(() => steer.write.later()));
})();
