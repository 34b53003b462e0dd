const NEAR = 40;

/** Follows the end of the log while the reader is within 40 px of it; a scroll, selection or focus above stops it. */
export class Scroll {
  isFollowing = true;
  onChange: () => void = () => undefined;
  private box: HTMLElement | null = null;
  private anchor: { element: Element; top: number } | null = null;
  private top = 0;

  attach(box: HTMLElement, content: HTMLElement): () => void {
    this.box = box;
    let isAway = false;
    const isNear = (): boolean => box.scrollHeight - box.scrollTop - box.clientHeight <= NEAR;
    const onScroll = (): void => {
      if (isAway) return;
      // Content that grows moves nothing; only a reader moves up.
      if (box.scrollTop < this.top - 1 && !isNear()) this.set(false);
      else if (isNear() && !this.hasSelection()) this.set(true);
      this.top = box.scrollTop;
    };
    const onSelect = (): void => {
      if (this.hasSelection()) this.set(false);
    };
    const onFocus = (event: FocusEvent): void => {
      const target = event.target as Element;
      if (target !== box && !isNear()) this.set(false);
    };
    const observer = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(() => {
            // A host that takes the view out and puts it in again has lost the place.
            if (isAway !== (isAway = !box.clientHeight)) box.scrollTop = this.top;
            box.style.setProperty("--cn-gutter", `${box.offsetWidth - box.clientWidth}px`);
            // Where it has become shorter, or the panel higher, the end is in view again.
            if (!isAway && isNear() && !this.hasSelection()) this.set(true);
            this.follow();
          });
    observer?.observe(content);
    observer?.observe(box);
    box.addEventListener("scroll", onScroll, { passive: true });
    box.addEventListener("focusin", onFocus);
    document.addEventListener("selectionchange", onSelect);
    this.follow();
    return () => {
      observer?.disconnect();
      box.removeEventListener("scroll", onScroll);
      box.removeEventListener("focusin", onFocus);
      document.removeEventListener("selectionchange", onSelect);
    };
  }

  /** Remembers where a message stands, before others are put above it. */
  keep(id: string | undefined): void {
    const element = id === undefined ? null : this.box?.querySelector(`[data-message-id="${CSS.escape(id)}"]`);
    this.anchor = element ? { element, top: element.getBoundingClientRect().top } : null;
  }

  restore(): void {
    const { anchor, box } = this;
    if (!anchor || !box || this.isFollowing) return;
    box.scrollTop += anchor.element.getBoundingClientRect().top - anchor.top;
    this.top = box.scrollTop;
    this.anchor = null;
  }

  follow(): void {
    if (!this.isFollowing || !this.box) return;
    this.box.scrollTop = this.box.scrollHeight;
    this.top = this.box.scrollTop;
  }

  toEnd(): void {
    this.set(true);
    this.follow();
  }

  private hasSelection(): boolean {
    const selection = document.getSelection();
    return selection !== null && !selection.isCollapsed && (this.box?.contains(selection.anchorNode) ?? false);
  }

  private set(isFollowing: boolean): void {
    if (this.isFollowing === isFollowing) return;
    this.isFollowing = isFollowing;
    this.onChange();
  }
}
