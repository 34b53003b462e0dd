/** The text that is being written, kept over a reload where the host has a session storage. */
export class Draft {
  text = "";
  private key = "";

  /** Names the chat and brings back what was written in it. */
  open(key: string): string {
    if (this.key === key) return this.text;
    this.key = key;
    try {
      this.text = this.text || (sessionStorage.getItem("chatnb.draft." + key) ?? "");
    } catch {
      // No storage in this host: the draft lives as long as the page.
    }
    return this.text;
  }

  set(text: string): void {
    this.text = text;
    if (this.key === "") return;
    try {
      if (text) sessionStorage.setItem("chatnb.draft." + this.key, text);
      else sessionStorage.removeItem("chatnb.draft." + this.key);
    } catch {
      // As above.
    }
  }
}
