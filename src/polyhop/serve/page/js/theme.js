// Dark or light: as the system has it, until the switch is used; kept for this browser.

const KEPT = "polyhop-theme";

export function themed(button) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const now = () => root.dataset.theme ?? (dark.matches ? "dark" : "light");
  const tell = () => {
    button.textContent = now() === "dark" ? "Light" : "Dark";
  };
  const kept = localStorage.getItem(KEPT);
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  button.addEventListener("click", () => {
    root.dataset.theme = now() === "dark" ? "light" : "dark";
    localStorage.setItem(KEPT, root.dataset.theme);
    tell();
  });
  dark.addEventListener("change", tell);
  tell();
}
