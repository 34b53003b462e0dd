/** The text that is being written, kept over a reload where the host has a session storage. */
export class Draft {
  private key = "";

  /** Names the chat, which is not known at first, and gives what was written in it before. */
  open(key: string): string {
    this.key = key;
    try {
      return sessionStorage.getItem("chatnb.draft." + key) ?? "";
    } catch {
      // No storage in this host: the draft lives as long as the page.
      return "";
    }
  }

  set(text: string): void {
    if (this.key === "") return;
    try {
      if (text) sessionStorage.setItem("chatnb.draft." + this.key, text);
      else sessionStorage.removeItem("chatnb.draft." + this.key);
    } catch {
      // As above.
    }
  }
}
