// Light or dark: what the reader has chosen, or else what the system says. Runs before anything is drawn.
"use strict";

(() => {
  const root = document.documentElement;
  const known = ["light", "dark"];
  const chosen = () => {
    try {
      return localStorage.getItem("pgweir-theme");
    } catch {
      return null;
    }
  };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const put = () => {
    const own = chosen();
    root.dataset.theme = known.includes(own) ? own : system.matches ? "dark" : "light";
    dispatchEvent(new Event("pgweir-theme"));
  };
  put();
  system.addEventListener("change", put);
  globalThis.pgweirSwitchTheme = () => {
    try {
      localStorage.setItem("pgweir-theme", root.dataset.theme === "dark" ? "light" : "dark");
    } catch {
      // Without storage the system's choice stays.
    }
    put();
  };
})();
