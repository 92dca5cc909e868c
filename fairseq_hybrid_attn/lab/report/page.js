// A small map is shown large at a click.
(() => {
  "use strict";
  for (const small of document.querySelectorAll(".small-map")) {
    small.addEventListener("click", () => {
      const maps = document.querySelector(".attention-maps");
      const shows = { ...small.dataset, sentence: "0" };
      for (const name of ["sentence", "kind", "model", "layer", "branch", "head"]) {
        const choice = maps.querySelector(`[data-choice="${name}"], [data-choice="${name}-0"]`);
        choice.value = shows[name];
        choice.dispatchEvent(new Event("change"));
      }
      maps.scrollIntoView();
    });
  }
})();
