"""The wire between a page and its kernel, for tests that lose, hold, double, reorder or rewrite what travels on it."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import BrowserContext, Page

# Stands before the page's own code. The socket is the browser's; only what goes through it is looked at: the custom
# messages of a widget's comm, that is frames and commands. `wire.coming` and `wire.going` are asked for each of them
# and may answer "drop", "hold" (until `wire.release()`), "double", or another command to be sent in its stead.
WIRE = r"""
(() => {
  const wire = (window.wire = { got: [], sent: [], lost: [], held: [], coming: null, going: null });
  const text = new TextDecoder(), bytes = new TextEncoder();
  const unpack = (data) => {
    if (!(data instanceof ArrayBuffer)) return null;
    const view = new DataView(data), count = Number(view.getBigUint64(0, true)), parts = [];
    const at = (n) => Number(view.getBigUint64(8 * (n + 1), true));
    for (let n = 0; n + 1 < count; n += 1) parts.push(new Uint8Array(data, at(n), at(n + 1) - at(n)));
    return parts;
  };
  const pack = (parts) => {
    const head = 8 * (parts.length + 2);
    const whole = new Uint8Array(head + parts.reduce((sum, part) => sum + part.length, 0));
    const view = new DataView(whole.buffer);
    let at = head;
    view.setBigUint64(0, BigInt(parts.length + 1), true);
    parts.forEach((part, n) => {
      view.setBigUint64(8 * (n + 1), BigInt(at), true);
      whole.set(part, at);
      at += part.length;
    });
    view.setBigUint64(8 * (parts.length + 1), BigInt(at), true);
    return whole.buffer;
  };
  // What a message says on a widget's behalf: its own content, the comm it travels on, its size.
  const read = (data) => {
    const parts = unpack(data);
    if (!parts || JSON.parse(text.decode(parts[1])).msg_type !== "comm_msg") return null;
    const content = JSON.parse(text.decode(parts[4]));
    if (content.data?.method !== "custom") return null;
    const comm = content.comm_id, body = content.data.content, size = parts[4].length, at = performance.now();
    return { body, comm, size, at, buffers: parts.slice(5), parts, content };
  };
  const note = (list, { body, comm, size, buffers, at }) =>
    list.push({ body, comm, size, buffered: buffers.reduce((sum, one) => sum + one.length, 0), at });
  // Passes a message on, as a rule says. `pass` may be called at any later time.
  const decide = (rule, list, message, pass) => {
    note(list, message);
    const verdict = rule?.(message.body, message);
    if (verdict === "drop") note(wire.lost, message);
    else if (verdict === "hold") wire.held.push(pass);
    else {
      if (verdict && typeof verdict === "object") {
        message.content.data.content = verdict;
        message.parts[4] = bytes.encode(JSON.stringify(message.content));
        pass(pack(message.parts));
      } else pass();
      if (verdict === "double") pass();
    }
  };
  // A kernel drops a message that it has had: one that comes twice is another message that says the same.
  const renamed = (data, times) => {
    const parts = unpack(data), header = JSON.parse(text.decode(parts[1]));
    parts[1] = bytes.encode(JSON.stringify({ ...header, msg_id: header.msg_id + "-" + times }));
    return pack(parts);
  };
  wire.release = (order = (held) => held) => order(wire.held.splice(0)).forEach((pass) => pass());
  window.WebSocket = class extends WebSocket {
    send(data) {
      const message = read(data);
      if (!message) return super.send(data);
      let times = 0;
      const pass = (other) => super.send(times++ ? renamed(other ?? data, times) : (other ?? data));
      decide(wire.going, wire.sent, message, pass);
    }
    get onmessage() {
      return super.onmessage;
    }
    set onmessage(fn) {
      super.onmessage = fn && ((event) => {
        const message = read(event.data);
        if (message) decide(wire.coming, wire.got, message, () => fn.call(this, event));
        else fn.call(this, event);
      });
    }
  };
})();
"""


def tap(context: BrowserContext) -> None:
    """Lets every page that is opened from now on have a `wire`."""
    context.add_init_script(WIRE)


class Wire:
    """The wire of one page, as a test uses it."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def rule(self, *, coming: str = "null", going: str = "null") -> None:
        """Sets what happens to frames and commands, as JavaScript functions, and forgets what was seen before."""
        self._page.evaluate(
            "() => { wire.held.length = wire.got.length = wire.sent.length = wire.lost.length = 0;"
            f" wire.coming = {coming}; wire.going = {going}; }}"
        )

    def release(self, order: str = "held => held") -> None:
        """Lets go what is held, in an order."""
        self._page.evaluate(f"() => wire.release({order})")

    def wait(self, condition: str, *, timeout: float = 20_000) -> None:
        """Waits until a JavaScript expression over `wire` is true."""
        self._page.wait_for_function(f"() => {condition}", timeout=timeout)

    def read(self, expression: str) -> Any:
        """The value of a JavaScript expression over `wire`."""
        return self._page.evaluate(f"() => {expression}")
