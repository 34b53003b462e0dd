/** Whether the host shows itself dark: its own marks first, then what the person's system prefers. */
export function isHostDark(): boolean {
  const { body, documentElement } = document;
  const lab = body.dataset.jpThemeLight ?? documentElement.dataset.jpThemeLight;
  if (lab !== undefined) return lab === "false";
  if (/\bvscode-(?:dark|high-contrast)\b(?!-light)/.test(body.className)) return true;
  if (/\bvscode-light\b/.test(body.className)) return false;
  const theme = documentElement.getAttribute("theme") ?? documentElement.dataset.theme ?? body.dataset.theme;
  if (theme === "dark" || theme === "light") return theme === "dark";
  if (documentElement.classList.contains("dark") || body.classList.contains("dark")) return true;
  return typeof matchMedia === "function" && matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Keeps the root's theme as wanted, and follows the host when it is "auto". Returns the function that ends it. */
export function followTheme(root: HTMLElement, wanted: () => string | undefined): { update(): void; end(): void } {
  const update = (): void => {
    const theme = wanted();
    const isDark = theme === "dark" || (theme !== "light" && isHostDark());
    root.dataset.theme = isDark ? "dark" : "light";
    // The host's colours fit only if the host shows the same theme.
    if (isDark === isHostDark()) root.removeAttribute("data-own-colors");
    else root.dataset.ownColors = "";
  };
  const observer = new MutationObserver(update);
  for (const target of [document.documentElement, document.body]) {
    observer.observe(target, { attributes: true, attributeFilter: ["class", "theme", "data-theme", "data-jp-theme-light", "data-vscode-theme-kind"] });
  }
  const media = typeof matchMedia === "function" ? matchMedia("(prefers-color-scheme: dark)") : null;
  media?.addEventListener("change", update);
  update();
  return {
    update,
    end: () => {
      observer.disconnect();
      media?.removeEventListener("change", update);
    },
  };
}
