/** Every text of the panel, by key. Other languages replace the table as an extra. */
export const ENGLISH = {
  conversation: "Conversation",
  message: "Message",
  placeholder: "Ask something",
  send: "Send",
  stop: "Stop",
  attach: "Attach files",
  removeFile: "Remove {0}",
  sending: "Sending",
  waitingList: "Waiting",
  remove: "Remove",
  edit: "Edit",
  editMessage: "Edit message",
  saveAndSend: "Save and send",
  cancel: "Cancel",
  regenerate: "Regenerate",
  copy: "Copy",
  copied: "Copied",
  copyCode: "Copy code",
  delete: "Delete",
  rollback: "Roll back to here",
  undo: "Undo",
  redo: "Redo",
  more: "More",
  export: "Export",
  exportAs: "Export as {0}",
  clear: "Clear",
  clearSure: "Clear the conversation?",
  runAction: "Run an action",
  run: "Run",
  runAgain: "Run again",
  branches: "Branches",
  previous: "Previous version",
  next: "Next version",
  you: "You",
  assistant: "Assistant",
  system: "System",
  thinking: "Thinking",
  thought: "Thought",
  thoughtFor: "Thought for {0} s",
  sources: "Sources",
  footnotes: "Footnotes",
  backToText: "Back to the text",
  table: "Table",
  taskDone: "Done",
  taskOpen: "Open",
  loadImage: "Load image from {0}",
  showAll: "Show all",
  tooLarge: "{0}, {1}. Too large to show; it is {2}.",
  inObjects: 'chat.objects["{0}"]',
  notKept: "not kept",
  arguments: "Arguments",
  result: "Result",
  added: "New:",
  changed: "Changed:",
  deleted: "Deleted:",
  traceback: "Traceback",
  log: "Log",
  output: "Output",
  edited: "edited by you",
  original: "Original",
  preparing: "Preparing",
  waitingKernel: "Waiting for kernel",
  running: "Running",
  needsApproval: "Needs approval",
  needsAnswer: "Waiting for an answer",
  approved: "Approved",
  done: "Done",
  failed: "Failed",
  denied: "Denied",
  stopped: "Stopped",
  unknown: "Unknown",
  approvalNeeded: "Approval needed: {0}",
  approve: "Approve",
  editArguments: "Edit arguments",
  argumentsJson: "Arguments as JSON",
  reject: "Reject",
  submit: "Submit",
  answerJson: "Answer as JSON",
  reason: "Reason (optional)",
  expires: "Expires {0}",
  fieldRequired: "This is needed.",
  fieldNumber: "This is not a number.",
  fieldInteger: "This is not a whole number.",
  invalidJson: "This is not valid JSON.",
  oneDecision: "1 decision waiting",
  decisions: "{0} decisions waiting",
  jump: "Jump to latest",
  newMessages: "{0} new",
  earlier: "Load earlier",
  retry: "Retry",
  continue: "Continue",
  discard: "Discard",
  interrupted: "The kernel stopped during this reply.",
  recovering: "Recovering the interrupted reply…",
  gone: "The kernel was restarted. The conversation is saved; run the cell to go on.",
  saved: "Saved conversation. Run the cell to go on.",
  connecting: "Connecting to the kernel…",
  busy: "Waiting for the kernel, which is running a cell",
  busyBetween: "Waiting for the kernel, which is running a cell. Use await in cells, or chat.approve(), to act sooner.",
  leaseLost: "{0} has taken over this conversation. Here it can only be read.",
  someone: "Another kernel",
  closed: "This conversation is closed. Run the cell to open it again.",
  unsupported: "This page holds another version of the panel. Reload the page.",
  takeOver: "Take over",
  noExtras: "This notebook forbids loaded modules: code is shown plain, formulas as their source.",
  broken: "The panel met an error: {0}",
  restore: "Restore variables",
  restorable: "Variables changed by code that is no longer part of the conversation can be restored: {0}",
  showReply: "Show the running reply",
  tokens: "{0} tokens",
  notSaved: "not saved",
  tooMany: "{0} is left out: at most 10 files a message.",
  fileTooLarge: "{0} is larger than {1}.",
  filesTooLarge: "{0} would make the files larger than {1} together.",
  fileType: "{0} is not of a type that can be sent.",
  whileRunning: "Not while a reply is being written",
  replyStarted: "The assistant is replying.",
  replyDone: "Reply finished. {0}",
  queued: "Messages waiting: {0}.",
  help: "Ask a question to begin.",
} as const;

export type StringKey = keyof typeof ENGLISH;

let table: Partial<Record<StringKey, string>> = ENGLISH;
let language = "en";

/** Replaces the table; keys that are missing stay English. */
export function setLanguage(locale: string, strings?: Partial<Record<StringKey, string>>): void {
  language = locale;
  if (strings) table = { ...ENGLISH, ...strings };
}

export const t = (key: StringKey, ...values: (string | number)[]): string =>
  (table[key] ?? ENGLISH[key]).replace(/\{(\d)\}/g, (_, at: string) => String(values[Number(at)] ?? ""));

export function formatNumber(value: number, options?: Intl.NumberFormatOptions): string {
  try {
    return new Intl.NumberFormat(language, options).format(value);
  } catch {
    return new Intl.NumberFormat("en", options).format(value);
  }
}

export function formatBytes(bytes: number): string {
  const [value, unit] = bytes >= 1e6 ? [bytes / 1e6, "MB"] : bytes >= 1e3 ? [bytes / 1e3, "kB"] : [bytes, "B"];
  return `${formatNumber(value, { maximumFractionDigits: 1 })} ${unit}`;
}

export function formatDuration(ms: number): string {
  if (ms < 1000) return `${formatNumber(Math.round(ms))} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${formatNumber(seconds, { maximumFractionDigits: 1 })} s`;
  return `${formatNumber(Math.floor(seconds / 60))} min ${formatNumber(Math.round(seconds % 60))} s`;
}

export function formatTime(iso: string): string {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return iso;
  const isToday = date.toDateString() === new Date().toDateString();
  return new Intl.DateTimeFormat(language, isToday ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" }).format(date);
}
