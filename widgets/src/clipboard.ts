/** Copies a text. Where the host forbids the clipboard, an old command may still do it. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.style.position = "fixed";
    area.style.opacity = "0";
    const before = document.activeElement as HTMLElement | null;
    document.body.append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    before?.focus();
    return isDone;
  }
}
