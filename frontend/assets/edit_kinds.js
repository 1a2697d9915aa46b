/* Kinds of edit in words: what each acts on, what it does, and which of its numbers can be changed. One row a kind. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const MOST = 1e6;

  const number = (value) => lmscope.dom.plain(value);
  /** A stored vector, as a person can tell it from another one. */
  const short = (id) => String(id).slice(0, 6);
  const value = (to) => (typeof to === "string" ? "vector " + short(to) : number(to));
  const signed = (by) => (by < 0 ? "− " + number(-by) : "+ " + number(by));
  const head = (edit) => "L" + edit.layer + " head " + edit.head;
  const unit = (edit) => "L" + edit.layer + " unit " + edit.unit;
  const written = (edit) => "Feed-forward of block " + edit.layer;
  const stream = (edit) => "Stream after block " + edit.layer;
  /** What the shelf of sliders calls a steer or a direction; null where it is not on it. */
  function named(edit) {
    const card = lmscope.steers.cardOf(edit);
    return card && card.name + (card.kind === "direction" ? " (after block " + edit.layer + ")" : "");
  }
  const step = (edit) => (edit.by > 0 ? "+" : "") + number(edit.by);
  const scaled = (edit) => "× " + number(edit.by);
  const set = (edit) => "= " + value(edit.to);

  /**
   * tap: where in the model it acts · on: the part in words · does: what is done to it · key: the field of its strength ·
   * range: of the slider · others: kinds that may take its place, with their words.
   */
  const HEAD = [["head.scale", "× multiply"], ["head.set", "= set"]];
  const UNIT = [["ffn.scale", "× multiply"], ["ffn.set", "= set"]];
  const KINDS = {
    "head.scale": { tap: "heads", on: head, does: (edit) => (edit.by === 0 ? "off" : scaled(edit)), key: "by", range: [-1, 3], others: HEAD },
    "head.set": { tap: "heads", on: head, does: set, key: "to", range: [-5, 5], others: HEAD },
    "ffn.scale": { tap: "ffn", on: unit, does: scaled, key: "by", range: [-1, 3], others: UNIT },
    "ffn.set": { tap: "ffn", on: unit, does: set, key: "to", range: [-5, 5], others: UNIT },
    "ffn_out.set": { tap: "ffn_out", on: written, does: set, key: "to", range: [-5, 5], others: [] },
    "residual.add": { tap: "residual", on: (edit) => named(edit) || stream(edit), does: (edit) => (named(edit) ? step(edit) : signed(edit.by) + " × direction " + short(edit.vector)), key: "by", range: [-10, 10], others: [] },
    "residual.set": { tap: "residual", on: stream, does: set, key: "to", range: [-5, 5], others: [] },
    steer: { tap: "unembed", on: (edit) => named(edit) || "Steer " + short(edit.steer), does: (edit) => (named(edit) ? step(edit) : scaled(edit)), key: "by", range: [-5, 5], others: [] },
  };
  /** An edit of a server that is newer than this page: it is named, switched and deleted like any other. */
  const UNKNOWN = { tap: null, on: (edit) => "Edit " + edit.kind, does: () => "", key: null, range: null, others: [] };

  const of = (edit) => KINDS[edit.kind] || UNKNOWN;
  const on = (edit) => of(edit).on(edit);

  /** L5 head 3 off · L12 unit 34 × 0 · Stream after block 3 + 2 × direction 1a2b3c · Steer 4d5e6f × 1.5 · sentiment +2 */
  const label = (edit) => (on(edit) + " " + of(edit).does(edit)).trim();

  /** The field that a slider moves, or null: a stored vector has no number to change. */
  function strength(edit) {
    const { key } = of(edit);
    return key !== null && typeof edit[key] === "number" ? key : null;
  }

  /** The same part, changed in another way. */
  function as(kind, edit) {
    const { layer, at, on } = edit;
    const part = "unit" in edit ? { unit: edit.unit } : { head: edit.head };
    return { kind, layer, ...part, at, on, [KINDS[kind].key]: 0 };
  }

  const PART = /^\s*L?\s*(\d{1,4})\s*(?:\.|\s*(?:H|[UD])\s*|\s+(?:head|unit)\s+|\s+)(\d{1,7})\s*(?:off|([x×*=])\s*([-−+]?\d*\.?\d+(?:e[-+]?\d+)?))?\s*$/i;

  /** `5.3`, `5.3 off`, `5.3 x 0.5`, `5.3 = 0`, `L5 head 3 × 2`; `L12U34` for a unit, or `L12D34`; null when it names neither. */
  function parse(text) {
    const found = PART.exec(text);
    if (!found) return null;
    const [, layer, index, sign, strength] = found;
    const number = strength === undefined ? 0 : Number(strength.replace("−", "-"));
    if (!Number.isFinite(number) || Math.abs(number) > MOST) return null;
    const isUnit = /\d\s*(?:[UD]\s*\d|unit)/i.test(text);
    const part = isUnit ? { unit: Number(index) } : { head: Number(index) };
    const kind = (isUnit ? "ffn." : "head.") + (sign === "=" ? "set" : "scale");
    return { at: "all", on: true, kind, layer: Number(layer), ...part, [KINDS[kind].key]: number };
  }

  /** Why an edit cannot act on this model, or null. */
  function unfit(edit, card) {
    if (!card) return null;
    const ability = card.edits && card.edits[of(edit).tap];
    if (ability && !ability.can) return lmscope.dom.sentence(ability.why || "this model does not offer it");
    if (!card.shape) return null;
    if (edit.layer >= card.shape.layers) return "This model has layers 0 to " + (card.shape.layers - 1) + ".";
    if ("head" in edit && edit.head >= card.shape.heads) return "This model has heads 0 to " + (card.shape.heads - 1) + ".";
    return null;
  }

  lmscope.editKinds = { MOST, of, on, label, strength, as, parse, unfit };
})();
