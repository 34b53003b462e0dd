"""One process of the crash test: opens the chat, keeps it busy with scripted turns, and is killed at some moment.

The model is a function of the request: it answers, calls actions, several at once, or asks for one that needs a person,
whatever the history is. Handlers and the recorded results that they lead to leave marks in files.
"""

CODE = r'''
import random
import time
from chatnb import Steering
from chatnb.errors import PendingError

rng = random.Random(job["seed"])
handled = 0

def entered(name, order):
    mark(f"{name} {order}")

@action(run_in="thread")
def pay(order: str) -> str:
    """Pay."""
    entered("pay", order)
    time.sleep(rng.random() * 0.01)
    return f"paid {order}"

@action(run_in="thread", parallel_safe=True)
def ship(order: str) -> str:
    """Ship."""
    entered("ship", order)
    time.sleep(rng.random() * 0.01)
    return f"shipped {order}"

@action(run_in="thread", needs_approval=True)
def refund(order: str) -> str:
    """Refund."""
    entered("refund", order)
    return f"refunded {order}"

def order():
    return f"{job['seed']}-{rng.randrange(10**9)}"

def call(name):
    made = order()
    return (name, {"order": made}, f"call-{made}")

def step(request):
    last = request.messages[-1]["role"] if request.messages else "user"
    known = ["some", "words", "that", "fill", "the", "answer"]
    words = " ".join(rng.choice(known) for _ in range(rng.randrange(1, 12)))
    kind = rng.random()
    delay = rng.choice([0.0, 0.0, 0.002, 0.01])
    if last == "tool" or kind < 0.35:
        return Reply(words, delay=delay)
    if kind < 0.55:
        return Reply(words, calls=[call("pay")], delay=delay)
    if kind < 0.75:
        return Reply(words, calls=[call("ship"), call("ship"), call("pay")], delay=delay)
    if kind < 0.9:
        return Reply(words, calls=[call("refund")], delay=delay)
    return Reply(words, calls=[call("pay"), call("refund"), call("ship")], delay=delay)

model = make_model(step, loop=True)
steering = Steering(should_inject=lambda batch: rng.random() < 0.7) if job["seed"] % 3 == 0 else None
policy = ["queue", "queue", "latest", "merge"][job["seed"] // 3 % 4]
agent = Agent(model, actions=[pay, ship, refund], store=str(folder / "chats.db"), steering=steering, concurrency=policy,
              recovery=Recovery(max_attempts=50, max_work=10**6))
'''

WORK = (
    CODE
    + r"""
import threading

def kill_later():
    time.sleep(job["after"])
    die()

threading.Thread(target=kill_later, daemon=True).start()
chat = agent.chat("c")
await chat.stable()
while True:
    for waiting in chat.pending:
        try:
            sent = chat.approve(waiting.id) if rng.random() < 0.7 else chat.reject(waiting.id)
        except PendingError:
            continue
        if rng.random() < 0.8:
            await sent
    sent = chat.send(f"message {order()}")
    if rng.random() < 0.3:
        sent = chat.send(f"message {order()}")
    if rng.random() < 0.1:
        chat.undo()
        if rng.random() < 0.5:
            chat.redo()
    if rng.random() < 0.1:
        asked = [m.id for m in chat.messages if m.role == "user"]
        if asked:
            sent = chat.edit(rng.choice(asked), f"message {order()}")
    if rng.random() < 0.1:
        sent = chat.regenerate()
    if rng.random() < 0.05:
        sent = chat.continue_last_turn()
    if rng.random() < 0.2:
        await asyncio.sleep(rng.random() * 0.02)
        chat.stop()
    await sent
"""
)

CHECK = (
    CODE
    + r"""
chat = agent.chat("c")
stable = await chat.stable(15)
while chat.pending:
    chat.reject(chat.pending[0].id)
    await chat.stable(15)
await chat.stable(15)
store = chat._engine.store
tree = chat._engine.tree
turns = store.load_turns("c")
rows = store.load_calls("c")
wires = store.load_messages("c", [n.node_id for n in store.load_nodes("c")])
tree_parts = [p for wire in wires.values() for p in wire["parts"] if p["type"].startswith("tool-")]
shown_results = {p["toolCallId"]: p for p in tree_parts if p["state"].startswith("output-")}
lost = [
    r.tool_call_id for r in rows
    if r.state == "done" and shown_results.get(r.tool_call_id, {}).get("output") != r.output
]
entries = (folder / "calls").read_text().split("\n") if (folder / "calls").exists() else []
recorded = {r.tool_call_id for r in rows}
lost += [entry for entry in entries if entry and "call-" + entry.split()[1] not in recorded]
said = {wire["id"]: wire for wire in wires.values() if wire["role"] == "user"}.values()
texts = [t for wire in said for p in wire["parts"] if p["type"] == "text" for t in p["text"].split("\n\n")]
steered = [p["data"]["text"] for wire in wires.values() for p in wire["parts"] if p["type"] == "data-steering-message"]
open_calls = [p["toolCallId"] for m in chat.messages for p in (x.to_wire() for x in m.parts)
              if p["type"].startswith("tool-") and not p["state"].startswith("output-")]
left = [i.kind for i in store.load_inputs("c", ("waiting", "taken", "held"))]
unended = [t.state for t in turns if t.state not in ("completed", "awaiting", "stopped", "error")]
from chatnb.messages import validate_messages
invalid = []
try:
    if chat.messages:
        validate_messages([m.to_wire() for m in chat.messages])
except Exception as error:
    invalid.append(str(error))
ids = [m.id for m in chat.messages]
if len(set(ids)) != len(ids):
    invalid.append("an id comes twice")
invalid += [f"open call {c}" for c in open_calls]
twice = [t for t in set(texts + steered) if (texts + steered).count(t) > 1]
result = {
    "stable": stable, "lost": lost, "left": left, "unended": unended, "invalid": invalid,
    "twice": twice, "turns": len(turns), "recovering": chat.is_recovering,
}
chat.close()
"""
)
