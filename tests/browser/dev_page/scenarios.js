// What the screenshots show. Each scenario is a snapshot, and perhaps a script that plays frames after it.
import { wait } from "./fake_kernel.js";

const options = {
  chatId: "demo",
  title: "Penguin analyst",
  help: "Answers questions about the Palmer penguins data set and draws what it finds.",
  height: "560px",
  theme: "auto",
  placeholder: null,
  locale: null,
  suggestions: ["Which species is the heaviest?", "Plot flipper length against body mass", "Remove the rows without a sex"],
  modelNote: "Offline model: it answers from a script, without a key",
  allowAttachments: true,
  maxAttachmentBytes: 5000000,
  autoContinue: true,
  transcript: true,
  actions: [
    {
      name: "refund",
      title: "Refund an order",
      description: "Pays an amount back to the customer.",
      schema: {
        type: "object",
        properties: { order: { type: "string" }, amount: { type: "number", description: "In euros" }, notify: { type: "boolean" } },
        required: ["order", "amount"],
      },
    },
  ],
  clientTools: [],
  mentions: false,
  extras: { code: "1", footnotes: "1", form: "1", "lang-ar": "1", markup: "1", math: "1", mentions: "1", tools: "1" },
};

const state = {
  status: "ready",
  isStreaming: false,
  isServerStreaming: false,
  isToolContinuation: false,
  isRecovering: false,
  error: null,
  streamingId: null,
  held: false,
  readyToContinue: false,
  interruption: null,
  usage: null,
  canUndo: true,
  canRedo: false,
  restorable: [],
  unsaved: false,
  delivery: "parallel",
  closed: null,
};

const user = (id, text, extra = {}) => ({ message: { id, role: "user", parts: [{ type: "text", text }] }, branch: null, ...extra });
const reply = (id, parts, extra = {}) => ({ message: { id, role: "assistant", parts }, branch: null, ...extra });
const text = (value) => ({ type: "text", text: value });

const base = (messages, changes = {}) => ({
  options,
  state: { ...state, ...changes.state },
  pending: changes.pending ?? [],
  queue: changes.queue ?? [],
  calls: changes.calls ?? [],
  notices: changes.notices ?? [],
  messages,
  hasEarlier: changes.hasEarlier ?? false,
});

const lookup = (more = {}) => ({
  type: "tool-mass_by_species",
  toolCallId: "c1",
  state: "output-available",
  title: "Mass by species",
  input: { species: "all", statistic: "mean" },
  output: { rows: 3, heaviest: "Gentoo" },
  ...more,
});

const answer = `**Gentoo** is the heaviest species by a clear margin; Adelie and Chinstrap are nearly equal.

| species | birds | mean mass (g) | sd |
|---|---:|---:|---:|
| Adelie | 151 | 3,701 | 459 |
| Chinstrap | 68 | 3,733 | 384 |
| Gentoo | 123 | 5,076 | 504 |

The gap of about $1.3\\,\\text{kg}$ holds for both sexes. To see it yourself:

\`\`\`python
(penguins
    .groupby(["species", "sex"])["body_mass_g"]
    .agg(["count", "mean"])  # grams
    .round(0))
\`\`\`

- Rows without a mass: **2**, left out
- The *island* makes no difference to Adelie, see [the data's page](https://allisonhorst.github.io/palmerpenguins/)
`;

const refund = {
  type: "tool-refund",
  toolCallId: "c9",
  state: "approval-requested",
  title: "Refund an order",
  input: { order: "A-1043", amount: 250, reason: "Delivered twice", notify: true },
  approval: { id: "ap1" },
};

const refundPending = {
  kind: "approval",
  id: "p1",
  toolCallId: "c9",
  approvalId: "ap1",
  hash: "h1",
  action: "refund",
  title: "Refund an order",
  args: refund.input,
  messageId: "a2",
  askedAt: "2026-11-30T10:00:00Z",
  expiresAt: "2026-12-01T10:00:00Z",
  schema: {
    type: "object",
    properties: {
      order: { type: "string" },
      amount: { type: "number", description: "In euros" },
      reason: { type: "string", enum: ["Delivered twice", "Damaged", "Other"] },
      notify: { type: "boolean", description: "Send the customer a message" },
    },
    required: ["order", "amount"],
  },
};

const svg =
  "<svg viewBox='0 0 320 150' width='320' height='150'><g fill='none' stroke='#888'><path d='M30 10V130H310'/></g>" +
  Array.from({ length: 40 }, (_, i) => `<circle cx='${40 + i * 6.5}' cy='${118 - i * 2.4 - (i % 5) * 5}' r='3' fill='#1976d2' fill-opacity='.7'/>`).join("") +
  "</svg>";

const frameHtml =
  "<table><thead><tr><th></th><th>species</th><th>island</th><th>mass</th></tr></thead><tbody><tr><th>0</th><td>Adelie</td><td>Torgersen</td><td>3750</td></tr>" +
  "<tr><th>1</th><td>Gentoo</td><td>Biscoe</td><td>5400</td></tr></tbody></table><script>alert(1)</script><img src=x onerror=alert(2)>";

const talk = [
  user("u1", "Which species is the heaviest?"),
  reply("a1", [{ type: "step-start" }, { type: "reasoning", text: "I need the mean mass by species first." }, lookup(), text(answer)]),
];

const words = answer.split(/(?<= )/);

const press = (label) => [...document.querySelectorAll(".chatnb-view button")].findLast((button) => (button.ariaLabel ?? button.textContent).trim() === label)?.click();

const pixels = "data:image/svg+xml;base64," + btoa(svg.replace("<svg ", "<svg xmlns='http://www.w3.org/2000/svg' "));

const rich = `## Body mass of the Palmer penguins

### What was measured

1. Adult birds near **Palmer Station**, 2007 to 2009
   - three islands: *Biscoe*, *Dream*, *Torgersen*
   - both sexes, where \`sex\` is known
2. Mass in grams, with \`\`np.nan\`\` where a bird escaped[^1]

- [x] rows without a mass left out
- [ ] outliers looked at

> The largest bird weighs 6.3 kg.
>
> > It is a Gentoo, of course.

$$\\bar m = \\frac{1}{n}\\sum_{i=1}^{n} m_i \\pm 1.96\\,\\frac{s}{\\sqrt n}$$

| species | island | year | birds | mean mass (g) | sd | flipper (mm) | bill length (mm) | bill depth (mm) | remark |
|---|---|--:|--:|--:|--:|--:|--:|--:|---|
| Adelie | Torgersen | 2007 | 20 | 3,763 | 446 | 190.1 | 39.0 | 18.7 | first season, few birds weighed |
| Gentoo | Biscoe | 2008 | 46 | 5,020 | 489 | 216.9 | 46.9 | 15.0 | |

---

![A plot of a colleague](https://example.org/plot.png)

[^1]: Two birds did.
`;

export const scenarios = {
  empty: { snapshot: base([]) },
  submitted: { snapshot: base([user("u1", "Which species is the heaviest?")], { state: { status: "submitted" } }) },
  streaming: {
    snapshot: base([user("u1", "Which species is the heaviest?"), reply("a1", [lookup({ state: "input-available", output: undefined }), text("")])], {
      state: { status: "streaming", isStreaming: true, streamingId: "a1" },
      calls: [{ toolCallId: "c1", phase: "running", progress: { done: 210, total: 342, text: "Reading rows" } }],
      queue: [{ id: "q1", kind: "send", text: "And which one is the lightest?" }],
    }),
    async script(kernel) {
      for (const word of words.slice(0, 62)) {
        kernel.ops({ op: "text", m: "a1", p: 1, field: "text", d: word });
        await wait(5);
      }
    },
  },
  thinking: {
    snapshot: base([user("u1", "Which species is the heaviest?"), reply("a1", [{ type: "reasoning", text: "The question is about mass." }])], {
      state: { status: "streaming", isStreaming: true, streamingId: "a1" },
    }),
  },
  talk: {
    snapshot: base(talk, {
      state: { usage: { total: { totalTokens: 4210, cost: 0.0213 }, messages: { a1: { totalTokens: 1840, cost: 0.0093 } } } },
      calls: [{ toolCallId: "c1", phase: "done", durationMs: 412 }],
    }),
  },
  approval: {
    snapshot: base([...talk.slice(0, 1), reply("a2", [text("Order A-1043 was delivered twice. I can pay the second one back."), refund])], { pending: [refundPending] }),
  },
  cards: {
    snapshot: base(
      [
        user("u1", "Try everything"),
        reply("a1", [
          lookup({ toolCallId: "k0", state: "input-streaming", rawInput: '{"species": "Gen', output: undefined, input: undefined }),
          lookup({ toolCallId: "k1", state: "input-available", output: undefined }),
          lookup({ toolCallId: "k2", state: "input-available", output: undefined }),
          lookup({ toolCallId: "k3" }),
          { type: "data-output", id: "k3", data: { toolCallId: "k3", outputs: [{ stream: "stdout", text: "342 rows read\n" }, { "image/svg+xml": svg, "text/plain": "<Figure>" }, { "text/html": frameHtml, "text/plain": "DataFrame" }] } },
          lookup({ toolCallId: "k4", state: "output-error", output: undefined, errorText: "KeyError: no column 'mass'\nTraceback (most recent call last):\n  File \"<cell>\", line 3\nKeyError: 'mass'" }),
          lookup({ toolCallId: "k5", state: "output-denied", output: undefined, approval: { id: "x", approved: false, reason: "Not this quarter" } }),
          lookup({ toolCallId: "k6", state: "output-error", output: undefined, errorText: "Stopped while running; it may have had effects. (cancelled)" }),
          { ...refund, toolCallId: "k7", state: "output-available", input: { ...refund.input, amount: 50 }, output: "Refunded 50", approval: { id: "y", approved: true }, toolMetadata: { chatnb: { originalInput: refund.input } } },
        ]),
      ],
      {
        state: { status: "streaming", isStreaming: true, streamingId: "a1" },
        calls: [
          { toolCallId: "k1", phase: "waiting" },
          { toolCallId: "k2", phase: "running", progress: { done: 40, total: 100, text: "40 of 100 files" }, log: [{ text: "opened orders.csv" }] },
          { toolCallId: "k3", phase: "done", durationMs: 1840 },
        ],
      },
    ),
  },
  error: {
    snapshot: base([user("u1", "Which species is the heaviest?")], {
      state: { status: "error", error: { stage: "model", message: "The model could not be reached: the connection was closed before the answer was complete.", retry: true } },
    }),
  },
  recovering: {
    snapshot: base([user("u1", "Which species is the heaviest?"), reply("a1", [text("**Gentoo** is the heaviest species by a")])], { state: { status: "submitted", isRecovering: true } }),
  },
  offered: {
    snapshot: base([user("u1", "Which species is the heaviest?"), reply("a1", [text("**Gentoo** is the heaviest species by a")])], {
      state: { interruption: { offered: true, cause: "kernel_restarted", messageId: "a1" } },
    }),
  },
  gone: {
    snapshot: base(talk),
    async script(kernel) {
      await wait(100);
      kernel.isGone = true;
      kernel.emit("comm_live_update");
    },
  },
  branches: {
    snapshot: base([user("u1", "Which species is the heaviest?", { branch: { index: 0, count: 2 } }), reply("a1", [text("Gentoo.")], { branch: { index: 1, count: 3 } })], {
      state: { canRedo: true },
      notices: [{ id: "n1", level: "warning", text: "The store cannot be written. What is new is kept here and tried again.", actions: [] }],
    }),
  },
  steered: {
    snapshot: base([
      user("u1", "How many penguins are there?"),
      reply("a1", [
        text("Counting all of them first."),
        lookup(),
        { type: "data-steering-message", id: "s1", data: { text: "Only the Gentoos, please" } },
        text("There are 123 Gentoos."),
      ]),
    ]),
  },
  banners: {
    snapshot: base([user("u1", "Which species is the heaviest?"), reply("a1", [text("**Gentoo**, by a clear margin.")])], {
      state: {
        held: true,
        readyToContinue: true,
        closed: { reason: "lease-lost", by: "another notebook" },
        restorable: [{ toolCallId: "c1", names: ["penguins", "by_island"] }],
      },
      notices: [{ id: "n1", level: "error", text: "The last answer could not be saved.", actions: [{ kind: "copy", label: "Copy it", text: "x" }] }],
    }),
  },
  exhausted: {
    snapshot: base([user("u1", "Which species is the heaviest?"), reply("a1", [text("**Gentoo** is the heaviest species by a")])], {
      state: { status: "error", error: { stage: "interrupted", code: "exhausted", message: "This reply was interrupted again and again, and is not tried any more.", retry: true } },
    }),
  },
  unsaved: {
    snapshot: base([user("u1", "Which species is the heaviest?"), reply("a1", [text("**Gentoo**, by a clear margin.")])], {
      state: { unsaved: true },
      notices: [{ id: "store", level: "warning", text: "The store cannot be written. What is new is kept here and tried again.", actions: [] }],
    }),
  },
  waiting: {
    snapshot: base(talk, { state: { delivery: "between-cells" } }),
    async script(kernel) {
      kernel.isSilent = true;
      [...document.querySelectorAll(".chatnb-view button")].find((button) => /^Undo/.test(button.ariaLabel ?? button.textContent)).click();
      await wait(1300);
    },
  },
  rich: {
    snapshot: base([
      {
        message: {
          id: "u1",
          role: "user",
          parts: [
            { type: "file", mediaType: "text/csv", filename: "penguins_raw_2007-2009.csv", url: "data:text/csv,a" },
            { type: "file", mediaType: "image/svg+xml", filename: "plot.svg", url: pixels },
            { type: "data-variable", data: { name: "penguins", summary: "DataFrame, 344 x 8" } },
            text("Describe @penguins,\nand say what the plot shows."),
          ],
        },
        branch: null,
      },
      reply("a1", [
        { type: "reasoning", text: "Columns first, then the **plot**." },
        text(rich),
        { type: "source-url", sourceId: "s1", url: "https://allisonhorst.github.io/palmerpenguins/", title: "palmerpenguins" },
        { type: "source-document", sourceId: "s2", title: "Gorman et al. 2014", mediaType: "application/pdf" },
      ]),
    ]),
    async script() {
      await wait(300);
      document.querySelector(".cn-reasoning button").click();
      const log = document.querySelector(".cn-log");
      log.scrollTop = 0;
      await wait(100);
    },
  },
  menu: {
    snapshot: base(talk),
    async script() {
      await wait(100);
      press("More");
    },
  },
  editing: {
    snapshot: base(talk.slice(0, 1)),
    async script() {
      await wait(700);
      press("Edit");
    },
  },
  form: {
    snapshot: base([...talk.slice(0, 1), reply("a2", [refund])], { pending: [refundPending] }),
    async script() {
      await wait(100);
      press("Edit arguments");
    },
  },
  runAction: {
    snapshot: base([]),
    async script() {
      await wait(100);
      press("More");
      await wait(50);
      [...document.querySelectorAll("[role=menuitem]")].find((item) => item.textContent === "Run an action").click();
    },
  },
  clientTool: {
    snapshot: {
      ...base(
        [user("u1", "Add two and three"), reply("a1", [{ type: "tool-add", toolCallId: "t1", state: "input-available", input: { a: 2, b: 3 } }])],
        { pending: [{ kind: "client-tool", id: "p1", toolCallId: "t1", action: "add", args: { a: 2, b: 3 }, messageId: "a1" }] },
      ),
      options: { ...options, clientTools: [{ name: "add", js: "export default async ({ a, b }) => ({ sum: a + b })" }] },
    },
  },
  history: {
    snapshot: base(
      Array.from({ length: 25 }, (_, i) => [user(`u${i}`, `Question ${i + 1}: what about island ${i}?`), reply(`a${i}`, [text(`Island ${i} has **${i * 7 + 3}** birds.\n\n${i % 3 ? "" : answer}`)])]).flat(),
      { hasEarlier: true },
    ),
  },
};
