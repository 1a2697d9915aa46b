/* Colour tables for pictures drawn on a canvas, and numbers with the digits that the answer carries. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});

  const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
  const BLUE_WHITE_RED = ["#053061", "#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#f7f7f7", "#fddbc7", "#f4a582", "#d6604d", "#b2182b", "#67001f"];
  const LOG_DECADES = 4;

  const clamp = (share) => Math.min(1, Math.max(0, share));

  function channels(stops, share) {
    const place = clamp(share) * (stops.length - 1);
    const low = Math.min(Math.floor(place), stops.length - 2);
    const part = (stop, at) => parseInt(stop.slice(at, at + 2), 16);
    return [1, 3, 5].map((at) => Math.round(part(stops[low], at) + (part(stops[low + 1], at) - part(stops[low], at)) * (place - low)));
  }

  const word = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  const css = (stops, share) => "rgb(" + channels(stops, share).join(" ") + ")";
  const viridis = (share) => css(VIRIDIS, share);
  const diverging = (share) => css(BLUE_WHITE_RED, (share + 1) / 2);

  /** A row of CSS stops for a legend. */
  const gradient = (signed) =>
    "linear-gradient(to right," + Array.from({ length: 33 }, (_, i) => css(signed ? BLUE_WHITE_RED : VIRIDIS, i / 32)).join(",") + ")";

  /** Where a probability lies on the colour scale. */
  const placed = (p, scale) => (scale === "log" ? (p <= 0 ? 0 : 1 + Math.log10(p) / LOG_DECADES) : p);

  function table(colourOf) {
    const words = new Uint32Array(256);
    for (let byte = 0; byte < 256; byte++) words[byte] = word(colourOf(byte));
    return words;
  }

  /** 256 pixels for bytes round(255·√p). */
  const probabilityTable = (scale) => table((byte) => channels(VIRIDIS, placed((byte / 255) ** 2, scale)));

  /** 256 pixels for signed bytes shifted by 128; `extent` is the value that gets the full colour. */
  const differenceTable = (step, extent) => table((byte) => channels(BLUE_WHITE_RED, ((byte - 128) * step) / extent / 2 + 0.5));

  /** The same colours, faded towards the page. */
  function faded(words, background, share) {
    const behind = channels([background, background], 0);
    return words.map((pixel) => word([0, 8, 16].map((shift, i) => Math.round(((pixel >>> shift) & 255) * share + behind[i] * (1 - share)))));
  }

  const DIGITS = { float64: 4, float32: 4, float16: 3, bfloat16: 3 };
  const SHIFT = { nats: -1, tokens: -2, share: 0, ratio: 0, probability: 0, norm: -1 };

  /** Significant digits that the answer's dtype carries. */
  const digits = (conditions) => DIGITS[conditions && conditions.dtype] || 3;
  const decimals = (unit, conditions) => Math.max(1, digits(conditions) + (unit in SHIFT ? SHIFT[unit] : -1));
  const minus = (text) => text.replace("-", "−");

  /** A value of a column: fixed decimals, n/a where undefined, never 0 instead. */
  function fixed(value, unit, conditions, signed) {
    if (!Number.isFinite(value)) return "n/a";
    const text = minus(value.toFixed(decimals(unit, conditions)));
    return signed && value > 0 ? "+" + text : text;
  }

  /** One value on its own: significant digits. */
  function exact(value, conditions, signed) {
    if (!Number.isFinite(value)) return "n/a";
    const text = minus(value === 0 ? "0" : Math.abs(value) < 1e-4 ? value.toExponential(digits(conditions) - 1) : value.toPrecision(digits(conditions)));
    return signed && value > 0 ? "+" + text : text;
  }

  lmscope.colours = { viridis, diverging, gradient, placed, probabilityTable, differenceTable, faded, LOG_DECADES };
  lmscope.numbers = { digits, decimals, fixed, exact };
})();
