/* What every table shares: Tab goes on to the next control instead of through thousands of cells; arrows move inside. */
(function () {
  "use strict";
  const functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  functions.lmscopeTable = { leave: () => false };
})();
