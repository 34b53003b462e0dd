import { h } from "preact";
import type { VNode } from "preact";

/** One family: 16 units, strokes of 1.5, round ends, drawn for this panel. */
const PATHS = {
  send: "M8 13V3M3.5 7.5 8 3l4.5 4.5",
  stop: "M4.5 4.5h7v7h-7z",
  attach: "M13 7.5 7.8 12.7a3 3 0 0 1-4.3-4.3l5.4-5.3a2 2 0 0 1 2.8 2.8l-5.2 5.2a.9.9 0 0 1-1.3-1.3L10 5",
  copy: "M6 6h7v7H6zM10 6V3H3v7h3",
  check: "m3.5 8.5 3 3 6-7",
  edit: "M3 13l.7-3L11 2.7a1 1 0 0 1 1.4 0l.9.9a1 1 0 0 1 0 1.4L6 12.3zM9.7 4l2.3 2.3",
  again: "M13 8a5 5 0 1 1-1.5-3.5L13 6M13 2.8V6H9.8",
  trash: "M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.5 8.5h6l.5-8.5M7 7v3.5M9 7v3.5",
  back: "M8 13V5.5M4.5 9 8 5.5 11.5 9M3 3h10",
  undo: "M6 3 3 6l3 3M3 6h6.5a3.5 3.5 0 0 1 0 7H7",
  redo: "m10 3 3 3-3 3M13 6H6.5a3.5 3.5 0 0 0 0 7H9",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  left: "M9.5 4.5 6 8l3.5 3.5",
  right: "M6.5 4.5 10 8l-3.5 3.5",
  down: "M8 3v10M3.5 8.5 8 13l4.5-4.5",
  close: "m4.5 4.5 7 7M11.5 4.5l-7 7",
  clock: "M8 13.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11M8 5v3.2l2 1.3",
  hand: "M8 13.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11M8 5.2v3.3M8 10.8h.01",
  alert: "M8 2.8 14 13H2zM8 6.5v3M8 11.2h.01",
  block: "M8 13.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11M4.2 4.2l7.6 7.6",
  spin: "M8 2.5a5.5 5.5 0 1 1-5.5 5.5",
  file: "M4 2.5h5l3 3v8H4zM9 2.5v3h3",
  image: "M2.5 3.5h11v9h-11zM2.5 11 6 7.5l3 3 1.5-1.5 3 3M10.5 6.2h.01",
} as const;

export type IconName = keyof typeof PATHS;

export const Icon = ({ name }: { name: IconName }): VNode => (
  <svg class={`cn-icon${name === "spin" ? " cn-spin" : ""}`} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
    <path d={PATHS[name]} />
  </svg>
);

export interface ButtonProps {
  icon: IconName;
  label: string;
  onClick: (event: MouseEvent) => void;
  isOff?: boolean;
  /** Why it is off; read out and shown instead of the name's tooltip. */
  why?: string | undefined;
  class?: string;
  hasPopup?: boolean;
  isExpanded?: boolean;
}

/** A button that shows only its icon; its name is its label. */
export const IconButton = ({ icon, label, onClick, isOff, why, class: extra = "", hasPopup, isExpanded }: ButtonProps): VNode => (
  <button
    type="button"
    class={`cn-icon-button ${extra}`}
    aria-label={label}
    title={isOff && why ? `${label}: ${why}` : label}
    disabled={isOff}
    aria-haspopup={hasPopup ? "menu" : undefined}
    aria-expanded={isExpanded}
    onClick={onClick}
  >
    <Icon name={icon} />
  </button>
);
