const KEPT = ["keydown", "keyup", "keypress", "beforeinput", "input", "copy", "cut", "paste", "dragenter", "dragover", "dragleave", "drop"];

/** Hands a key on to the host, from outside the panel, so that its shortcuts see it. */
function passOn(root: HTMLElement, event: KeyboardEvent): void {
  root.parentElement?.dispatchEvent(new KeyboardEvent(event.type, event));
}

/** Arrow keys walk over the messages while one of them has the focus. */
function walk(root: HTMLElement, event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  const isLog = target.matches(".cn-log");
  if (!isLog && !target.matches("article.cn-message")) return false;
  const all = [...root.querySelectorAll<HTMLElement>("article.cn-message[data-message-id]")];
  const at = all.indexOf(target);
  const next = event.key === "ArrowDown" ? all[isLog ? all.length - 1 : at + 1] : event.key === "ArrowUp" ? all[isLog ? all.length - 1 : at - 1] : undefined;
  if (!next) return false;
  next.focus();
  return true;
}

/** No key, clipboard or drop event leaves the panel; saving does, and Escape once there is nothing left to close. */
export function isolate(root: HTMLElement): () => void {
  root.dataset.lmSuppressShortcuts = "true";
  const stop = (event: Event): void => {
    event.stopPropagation();
    if (event.type !== "keydown") return;
    const key = event as KeyboardEvent;
    if ((key.ctrlKey || key.metaKey) && key.key.toLowerCase() === "s") {
      key.preventDefault();
      passOn(root, key);
    } else if (key.key === "Escape" && !key.isComposing) {
      const active = document.activeElement as HTMLElement | null;
      if (active && root.contains(active) && active.matches("textarea, input, select")) active.blur();
      else passOn(root, key);
    } else if (walk(root, key)) key.preventDefault();
  };
  for (const type of KEPT) root.addEventListener(type, stop);
  // Notebook looks at keys before they come here, and at the focused element itself before it looks around it.
  const mark = ({ target }: Event): unknown => ((target as HTMLElement).dataset.lmSuppressShortcuts = "true");
  root.addEventListener("focusin", mark);
  return () => {
    root.removeEventListener("focusin", mark);
    for (const type of KEPT) root.removeEventListener(type, stop);
  };
}

/** A control that vanishes while it has the focus hands it to its successor, else to the box. */
export function keepFocus(root: HTMLElement): () => void {
  let last: { element: Element; home: Element | null } | null = null;
  const remember = (event: FocusEvent): void => {
    const element = event.target as Element;
    last = { element, home: element.closest(".cn-card, article, .cn-banners") };
  };
  const forget = ({ target }: FocusEvent): void =>
    queueMicrotask(() => {
      if (last?.element === target && last.element.isConnected) last = null;
    });
  const observer = new MutationObserver(() => {
    if (!last || last.element.isConnected) return;
    const { home } = last;
    last = null;
    const active = document.activeElement;
    if (active && active !== document.body && active !== document.documentElement) return;
    const next = home?.isConnected ? home.querySelector<HTMLElement>(".cn-actions button:not(:disabled), textarea, .cn-toolbar button:not(:disabled)") : null;
    (next ?? root.querySelector<HTMLElement>(".cn-approval button:not(:disabled)") ?? root.querySelector<HTMLElement>(".cn-composer textarea"))?.focus({ preventScroll: true });
  });
  root.addEventListener("focusin", remember);
  root.addEventListener("focusout", forget);
  observer.observe(root, { childList: true, subtree: true });
  return () => {
    observer.disconnect();
    root.removeEventListener("focusin", remember);
    root.removeEventListener("focusout", forget);
  };
}
