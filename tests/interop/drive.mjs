// Drives a live server with the AI SDK's own client and prints what the client ends with, as JSON.
// Usage: node drive.mjs PACKAGE_FOLDER SCENARIO ADDRESS
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, scenario, address] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/package.json`));
const ai = await import(pathToFileURL(require.resolve("ai")).href);

const ID = "c";
let requests = 0;

class Chat extends ai.AbstractChat {
  constructor(options = {}) {
    const state = {
      status: "ready",
      error: undefined,
      messages: options.messages ?? [],
      pushMessage(message) {
        state.messages = [...state.messages, message];
      },
      popMessage() {
        state.messages = state.messages.slice(0, -1);
      },
      replaceMessage(index, message) {
        state.messages = state.messages.map((old, i) => (i === index ? structuredClone(message) : old));
      },
      snapshot: (value) => structuredClone(value),
    };
    const transport = new ai.DefaultChatTransport({
      api: `${address}/api/chat`,
      headers: { authorization: "Bearer ann" },
      fetch: (...given) => {
        requests += 1;
        return fetch(...given);
      },
    });
    super({
      id: ID,
      transport,
      sendAutomaticallyWhen: (given) =>
        ai.lastAssistantMessageIsCompleteWithToolCalls(given) ||
        ai.lastAssistantMessageIsCompleteWithApprovalResponses(given),
      ...options,
      state,
    });
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function until(check) {
  for (let tries = 0; !check(); tries += 1) {
    if (tries > 500) throw new Error("it never came to that");
    await pause(20);
  }
}

// Quiet: nothing is under way, and nothing has been sent for a while (a loop would send again and again).
async function settle(chat) {
  for (let quiet = 0, seen = requests; quiet < 12; ) {
    await pause(25);
    const calm = (chat.status === "ready" || chat.status === "error") && seen === requests;
    quiet = calm ? quiet + 1 : 0;
    seen = requests;
  }
}

const asked = (chat) =>
  chat.messages.flatMap((m) => m.parts).filter((p) => p.state === "approval-requested").map((p) => p.approval.id);

async function answer(chat, approved, reason) {
  for (const id of asked(chat)) await chat.addToolApprovalResponse({ id, approved, reason });
  await settle(chat);
}

async function stored() {
  const response = await fetch(`${address}/api/chat/${ID}`, { headers: { authorization: "Bearer ann" } });
  return (await response.json()).messages;
}

const scenarios = {
  async plain(chat) {
    await chat.sendMessage({ text: "hi" });
    await chat.sendMessage({
      text: "and this",
      files: [{ type: "file", mediaType: "text/plain", url: "data:text/plain;base64,aGk=", filename: "a.txt" }],
    });
  },
  async edit(chat) {
    await chat.sendMessage({ text: "first" });
    await chat.sendMessage({ text: "second" });
    await chat.sendMessage({ text: "better", messageId: chat.messages[0].id });
  },
  async regenerate(chat) {
    await chat.sendMessage({ text: "hi" });
    await chat.regenerate();
    await chat.regenerate({ messageId: chat.messages.at(-1).id });
  },
  async approve(chat) {
    await chat.sendMessage({ text: "refund" });
    await answer(chat, true);
  },
  async reject(chat) {
    await chat.sendMessage({ text: "refund" });
    await answer(chat, false, "too much");
  },
  async held(chat) {
    await chat.sendMessage({ text: "both" });
    await answer(chat, true);
  },
  async twice(chat) {
    await chat.sendMessage({ text: "refund" });
    await answer(chat, true);
    await answer(chat, true);
  },
  async failing(chat) {
    await chat.sendMessage({ text: "fail" });
  },
  async clientTool(chat) {
    await chat.sendMessage({ text: "ask the page" });
    const part = chat.messages.at(-1).parts.find((p) => p.type === "tool-ask_page");
    await chat.addToolOutput({ tool: "ask_page", toolCallId: part.toolCallId, output: { colour: "red" } });
  },
  async mixed(chat) {
    await chat.sendMessage({ text: "ask both" });
    const part = chat.messages.at(-1).parts.find((p) => p.type === "tool-ask_page");
    await chat.addToolOutput({ tool: "ask_page", toolCallId: part.toolCallId, output: { colour: "red" } });
    await answer(chat, true);
  },
  async abort(chat) {
    void chat.sendMessage({ text: "long" });
    await until(() => chat.messages.length > 1 && chat.messages[1].parts.some((p) => p.text?.length > 4));
    await chat.stop();
    await pause(600);
  },
  async resume(chat) {
    void chat.sendMessage({ text: "long" });
    await until(() => chat.messages.length > 1);
    const other = new Chat({ messages: await stored() });
    await other.resumeStream();
    await settle(chat);
    return other;
  },
  async reload(chat) {
    await chat.sendMessage({ text: "refund" });
    const other = new Chat({ messages: await stored() });
    await other.resumeStream();
    await answer(other, true);
    return other;
  },
};

let chat = new Chat();
chat = (await scenarios[scenario](chat)) ?? chat;
await settle(chat);
const validation = await ai.safeValidateUIMessages({ messages: chat.messages });
const serverSide = await stored();
const serverValidation = await ai.safeValidateUIMessages({ messages: serverSide });
const problem = [validation, serverValidation].find((v) => !v.success);
console.log(
  JSON.stringify({
    messages: chat.messages,
    stored: serverSide,
    requests,
    status: chat.status,
    error: chat.error ? String(chat.error) : null,
    invalid: problem ? String(problem.error) : null,
  }),
);
process.exit(0);
