/* Ways into the trace page: ready views (two stories, LM-Debugger's example prompts) and jumps to its panels. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const trace = lmscope.trace;
  const DEBUGGER = ["It was the first time that two", "Toward the end of the video, they sit on a", "the weather is going to be", "My wife is working as a"];
  const STORIES = {
    capital: { label: "A fact emerges: The capital of France is", text: "The capital of France is", focus: {} },
    names: {
      label: "Who gets the drink: Mary or John?", text: "When Mary and John went to the store, John gave a drink to",
      target: " Mary", foil: " John", focus: { parts: "heads", source: "When Mary and John went to the store, Mary gave a drink to" },
    },
  };

  let pending = null; // the story whose words are looked up in the text as soon as its tokens are known

  /** Target and foil of a story are words of its own text, whatever ids this tokenizer gives them. */
  function draw(view) {
    if (pending === null) return;
    const strip = lmscope.strip.answer();
    if (view.text !== pending.text) pending = null;
    else if (strip && strip.text.endsWith(pending.text)) {
      const idOf = (word) => (strip.tokens.find((token) => token.piece === word) || { id: null }).id;
      const [target, foil] = [idOf(pending.target), idOf(pending.foil)];
      pending = null;
      if (target !== null && foil !== null) setTimeout(() => lmscope.panel.focus({ target, foil }));
    }
  }

  /** A view of its own: the same model, a plain text, nothing edited. */
  function open(name) {
    const story = STORIES[name] || { text: name, focus: {} };
    pending = story.target ? story : null;
    const { focus } = lmscope.dom.config().view;
    lmscope.view.update({ text: story.text, pair: null, turns: null, continuation: null, template: null, edits: [], compare: false, focus: { ...focus, ...story.focus } }, { push: true });
  }

  const PANELS = [["Why this word", "why-title"], ["Patch", "patch-title"], ["Search", "search-title"], ["Value", "value-title"], ["Write", "write-title"]];

  function start() {
    const entries = () => [...Object.entries(STORIES).map(([name, { label }]) => [label, () => open(name)]), ...DEBUGGER.map((text) => [text + " …", () => open(text)])];
    const menu = lmscope.info.menu("Examples", "Ready views: two stories, and LM-Debugger’s example prompts", entries);
    trace.place("trace-examples").replaceChildren(lmscope.panels.jumps(PANELS), menu);
  }

  trace.examples = { open, DEBUGGER, STORIES };
  trace.join({ start, draw });
})();
