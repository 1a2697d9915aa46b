/* Writing on the trace page: edited beside unedited. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});

  lmscope.trace.write = lmscope.continuation.make({
    page: lmscope.trace,
    compares: (view) => view.edits.some((edit) => edit.on),
    words: {
      edited: "Edited", unedited: "Unedited", having: "with the edits", stale: "Text or edits have changed since this was written.",
      both: "The text goes on with the edits and without them, under the same random numbers.",
      alone: "The text goes on as the model would write it; with an edit switched on, the unedited text comes beside it.",
    },
  });
})();
