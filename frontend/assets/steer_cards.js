/* What the steer page's panels say in the same words: evidence, ranges, choices of a steer. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const steer = lmscope.steer;
  const { digits, signed, fill } = lmscope.panelParts;

  /** Nats a token in columns that align: a ten-thousandth is less than what the intervals leave open. */
  const nats = (value) => (Number.isFinite(value) ? value.toFixed(4).replace("-", "−") : "n/a");

  /** 0.0310 nats a token likelier (95 %: 0.0260 to 0.0360): a change of the NLL, said as what becomes of the text. */
  function change({ mean, low, high }) {
    const likelier = mean <= 0;
    const [from, to] = likelier ? [-high, -low] : [low, high];
    return nats(Math.abs(mean)) + " nats a token " + (likelier ? "likelier" : "less likely") + " (95 %: " + nats(from) + " to " + nats(to) + ")";
  }

  /** Whether both poles move the right way, with their intervals. */
  const works = (told) => Boolean(told) && told.plus.high < 0 && told.minus.low > 0;

  /** What the held-out texts say of a slider: two sentences of numbers and one of what they mean. */
  function evidence(told, { plus, minus, kind }) {
    const { h } = lmscope.dom;
    const [random, equal] = kind === "direction" ? ["a random direction", "length"] : ["a random steer", "norm and rank"];
    if (!told) return [h("p.note", {}, "Nothing was measured: this slider has no evidence.")];
    const more = told.plus.high < told.random_plus.low && told.minus.low > told.random_minus.high;
    const verdict = works(told) && more ? "It works: both poles move the right way, and further than under " + random + "."
      : works(told) ? "Both poles move the right way, but not clearly further than under " + random + " of equal " + equal + "."
        : "It is not shown to work: an interval holds 0 or lies on the wrong side.";
    return [
      h("p.steer-verdict" + (works(told) && more ? ".good" : ".doubt"), {}, h("strong", {}, verdict)),
      h("p", {}, "From −1 to +1 of the slider, held-out texts of “" + plus + "” become " + change(told.plus) + ", those of “" + minus + "” " + change(told.minus) + "; " + told.plus.n + " and " + told.minus.n + " texts."),
      h("p.note", {}, "Beside it, " + random + " of equal " + equal + ": “" + plus + "” " + change(told.random_plus) + ", “" + minus + "” " + change(told.random_minus) + ". " + lmscope.dom.sentence(told.about)),
    ];
  }

  /** Where the slider ends, and why. */
  function range(told) {
    if (!told) return "";
    const neutral = "The perplexity of neutral text, " + digits(told.perplexity) + " at 0, ";
    const [low, high] = told.doubled;
    const tried = "was as far as was tried";
    if (low && high) return neutral + "doubles at " + signed(told.low) + " and " + signed(told.high) + ": the slider ends there.";
    if (!low && !high) return neutral + "did not double from " + signed(told.low) + " to " + signed(told.high) + ", which " + tried + ": the slider ends there.";
    const [at, open] = low ? [told.low, told.high] : [told.high, told.low];
    return neutral + "doubles at " + signed(at) + "; it did not at " + signed(open) + ", which " + tried + ". The slider ends there.";
  }

  /** The edit that puts a card on a slider. */
  const editOf = (card, by = 1) => (card.kind === "steer" ? { kind: "steer", at: "all", on: true, steer: card.id, by } : { kind: "residual.add", at: "all", on: true, layer: card.layer, vector: card.id, by });
  const isOn = (view, card) => view.edits.some((edit) => (edit.steer || edit.vector) === card.id);

  const poles = (card) => card.name + ": " + card.minus + " – " + card.plus;

  /** Steers (no directions) that fit the view's model, as options. */
  const steers = () => steer.fitting().filter((card) => card.kind === "steer");

  /** The choice of the steer that is looked into, swept and moved: one choice for all of these panels. */
  function chooser(id, offered = steers, given = chosen) {
    const select = lmscope.dom.h("select", { id, onchange: () => steer.choose(select.value) });
    return {
      element: lmscope.dom.h("label.field", {}, lmscope.dom.h("span", {}, "Steer"), select),
      show(view) {
        const card = given(view);
        fill(select, offered().map((each) => [each.id, poles(each)]), card ? card.id : "");
        select.disabled = !card;
      },
    };
  }

  /** The chosen steer; a direction has no inside, and is not moved. */
  function chosen(view) {
    const card = steer.chosen(view);
    return card && card.kind === "steer" ? card : steers()[0] || null;
  }

  steer.cards = { ...lmscope.panelParts, nats, change, works, evidence, range, editOf, isOn, poles, steers, chooser, chosen };
})();
