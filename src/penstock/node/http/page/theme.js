// Colours: the system's, or the operator's choice.

import { $, write } from "./write.js";

const THEMES = ["automatic", "light", "dark"];

function showTheme(theme) {
  if (theme === "automatic") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $("theme").setAttribute("aria-label", `Colours: ${theme}`);
  $("theme").title = `Colours: ${theme}`;
  write($("theme"), { automatic: "◐", light: "☀", dark: "☾" }[theme]);
}
$("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(localStorage.getItem("theme") ?? "automatic") + 1) % THEMES.length];
  localStorage.setItem("theme", next);
  showTheme(next);
});

const known = localStorage.getItem("theme");
showTheme(THEMES.includes(known) ? known : "automatic");
