"""Output, `run_code`, snapshots and variables of chats in a real kernel (spec/notebook.md, 3 to 6; C17 to C30)."""

from __future__ import annotations

import json
import time

import pytest

from tests.notebook.kernel_driver import Kernel

pytestmark = pytest.mark.kernel

SETUP = """
from chatnb.kernel.actions import notebook_actions
import pandas as pd
_made = []
def _coder(name, *codes, actions=(), snapshot=False, approve=False, **options):
    "A chat whose model runs these codes, one a turn, and says something after each."
    steps = []
    for code in codes:
        steps += [Reply(calls=[("run_code", {"code": code})]), "done"]
    agent = Agent(ScriptedModel(steps, loop=True),
                  actions=[*actions, *notebook_actions(snapshot=snapshot, approve_code=approve)], name=name, **options)
    _made.append(agent)
    return agent.chat(name)
"""


@pytest.fixture(autouse=True)
def setup(kernel: Kernel) -> None:
    kernel.ok(SETUP)


class TestOutput:
    """What a call prints and draws is in its card, and in no cell."""

    def test_two_that_print(self, kernel: Kernel) -> None:
        """C17: an action prints 5 lines while another cell prints 5: each has its own, neither the other's."""
        kernel.ok(
            "async def talks() -> str:\n    'Talk.'\n    for n in range(5):\n        print('card', n)\n"
            "        await asyncio.sleep(0.03)\n    return 'said'\n"
            "chat = Agent(ScriptedModel([Reply(calls=[('talks', {})]), 'done']), actions=[talks]).chat('c17')"
        )
        cell = kernel.ok(
            "s = chat.send('go')\nfor n in range(5):\n    print('cell', n)\n    await asyncio.sleep(0.03)\nawait s;"
        )
        assert cell.text == "".join(f"cell {n}\n" for n in range(5))
        assert kernel.value("told(chat)[0]['shown']") == [
            {"stream": "stdout", "text": "".join(f"card {n}\n" for n in range(5))}
        ]

    def test_prints_between_cells(self, kernel: Kernel) -> None:
        """Section 3: what a call prints while a cell waits in `.result()`, or between cells, is in no cell."""
        kernel.ok("chat = _coder('prints', 'print(1)')")
        assert kernel.ok("chat.send('go').result();").text == ""
        assert kernel.value("told(chat)[0]['shown']") == [{"stream": "stdout", "text": "1\n"}]

    def test_figure(self, kernel: Kernel) -> None:
        """C18: an action that makes and leaves one figure: the card has one PNG, the next cell's output none."""
        kernel.ok(
            "%matplotlib inline\nimport matplotlib.pyplot as plt\n"
            "def draws() -> str:\n    'Draw.'\n    plt.figure(); plt.plot([1, 2]); return 'drawn'\n"
            "chat = Agent(ScriptedModel([Reply(calls=[('draws', {})]), 'done']), actions=[draws]).chat('c18')"
        )
        cell = kernel.ok("await chat.send('go');")
        assert "image/png" not in json.dumps(cell.outputs)
        assert "image/png" not in json.dumps(kernel.ok("1 + 1").outputs)
        shown = kernel.value("told(chat)[0]['shown']")
        assert sum("image/png" in item for item in shown) == 1
        assert kernel.value("len(plt.get_fignums())") == 0


class TestCode:
    """`run_code`, asked for by a model."""

    def test_approval_and_error(self, kernel: Kernel) -> None:
        """C27: `x = 1/0` waits and nothing runs; approved: `ZeroDivisionError`, no frame of chatnb."""
        kernel.ok("chat = _coder('c27', 'before = 1\\nx = 1/0', approve=True)")
        assert kernel.ok("print((await chat.send('go')).status, 'before' in dir())").text == "awaiting False\n"
        assert kernel.ok("print((await chat.approve()).status)").text == "completed\n"
        [call] = kernel.value("told(chat)")
        assert call["state"] == "output-available"
        assert call["output"]["error"]["type"] == "ZeroDivisionError"
        assert "chatnb" not in call["output"]["error"]["traceback"]
        assert call["output"]["added"] == ["before"]

    def test_edited(self, kernel: Kernel) -> None:
        """Section 6: an edited version replaces the code everywhere."""
        kernel.ok("chat = _coder('edited', 'shown = 1', approve=True)\nawait chat.send('go')")
        kernel.ok("await chat.approve(args={'code': 'shown = 2'})")
        assert kernel.value("[shown, told(chat)[0]['input'], told(chat)[0]['state']]") == [
            2, {"code": "shown = 2"}, "output-available",
        ]  # fmt: skip

    def test_diff(self, kernel: Kernel) -> None:
        """C28: added c, changed a and l, deleted b; `In`, `_` and the count are as before."""
        kernel.ok("chat = _coder('c28', 'a=2; del b; l.append(1); c=3')\na, b, l = 1, 1, []")
        kernel.ok("'last'")
        kernel.ok("_shell = get_ipython(); _before = [len(In), _, _shell.execution_count]")
        kernel.ok("await chat.send('go');")
        kernel.ok("_after = [len(In), _, _shell.execution_count]")
        before, after = kernel.value("[_before, _after]")
        assert [after[0] - before[0], after[1], after[2] - before[2]] == [2, before[1], 2]
        output = kernel.value("told(chat)[0]['output']")
        assert (output["added"], output["changed"], output["deleted"]) == (["c"], ["a", "l"], ["b"])

    def test_plot_and_names(self, kernel: Kernel) -> None:
        """Section 6: a plot of a frame that a cell made: one figure, counted; new names are in the kernel."""
        kernel.ok(
            "orders = pd.DataFrame({'n': [1, 2, 90]})\nchat = _coder('plot', 'import matplotlib.pyplot as plt\\n"
            "outliers = orders[orders.n > 50]\\nfig, ax = plt.subplots()\\nax.plot(orders.n)')"
        )
        kernel.ok("await chat.send('go');")
        [call] = kernel.value("told(chat)")
        assert call["output"]["figures"] == 1
        assert "outliers" in call["output"]["added"]
        assert sum("image/png" in item for item in call["shown"]) == 1
        assert kernel.value("len(outliers)") == 1

    def test_stop(self, kernel: Kernel) -> None:
        """Section 2: Stop ends `while True: pass` within 3 s, and the kernel lives."""
        kernel.ok(
            "chat = _coder('endless', 'inside.set()\\nwhile True: pass')\nonce_inside(chat.stop); s = chat.send('go')"
        )
        began = time.monotonic()
        assert kernel.ok("print(s.result(10).status)").text == "stopped\n"
        assert time.monotonic() - began < 3

    def test_interrupt(self, kernel: Kernel) -> None:
        """Section 2: Interrupt ends that call, and the turn goes on to its answer."""
        kernel.ok("chat = _coder('loop', 'note(\"in\")\\nwhile True: pass')\ns = chat.send('go')")
        kernel.until("in")
        kernel.interrupt()
        assert kernel.ok("print((await s).status, chat.messages[-1].text)").text == "completed done\n"

    def test_exit(self, kernel: Kernel) -> None:
        """Section 6: `exit()` is that call's error, never the kernel's end."""
        kernel.ok("chat = _coder('exit', 'exit()')\nawait chat.send('go')")
        assert kernel.value("told(chat)[0]['output']['error']['type']") == "SystemExit"

    def test_top_level_await_in_result(self, kernel: Kernel) -> None:
        """Sections 1 and 6: code that awaits runs, also while a cell blocks in `.result()`."""
        kernel.ok("chat = _coder('awaits', 'await asyncio.sleep(0.01)\\nslept = 1')\nawait chat.send('go')")
        assert kernel.value("slept") == 1


class TestSnapshots:
    """The former bindings can be brought back after an undo."""

    def test_restore(self, kernel: Kernel) -> None:
        """C29: undone, `df` is still the new one; `restore_variables()` brings the old object back."""
        kernel.ok("df = old = pd.DataFrame({'a': [1]})\nchat = _coder('c29', 'df = 5; fresh = 1', snapshot=True)")
        kernel.ok("await chat.send('go');\nundone = (await chat.undo()).status")
        assert kernel.value("[undone, df, len(chat.restorable), len(chat.messages)]") == ["applied", 5, 1, 0]
        kernel.ok("restored = chat.restore_variables()")
        assert kernel.value("[df is old, 'fresh' in dir(), len(chat.restorable)]") == [True, False, 0]
        assert kernel.value("sorted(restored.restored)") == ["df", "fresh"]

    def test_bound_anew(self, kernel: Kernel) -> None:
        """Section 6: a name that was bound anew since is skipped, unless forced."""
        kernel.ok(
            "v = 1\nchat = _coder('anew', 'v = 2', snapshot=True)\nawait chat.send('go'); await chat.undo(); v = 3"
        )
        kernel.ok("r = chat.restore_variables()")
        assert kernel.value("[v, list(r.restored), list(r.skipped)]") == [3, [], ["v"]]

    def test_forced(self, kernel: Kernel) -> None:
        """Section 6: ... unless `force`."""
        kernel.ok(
            "v = 1\nchat = _coder('force', 'v = 2', snapshot=True)\nawait chat.send('go'); await chat.undo(); v = 3"
        )
        kernel.ok("r = chat.restore_variables(force=True)")
        assert kernel.value("v") == 1


class TestVariables:
    """Kernel variables by name."""

    def test_list_and_names(self, kernel: Kernel) -> None:
        """C22, C23: the list has `df` with its columns and no value, not `_df` and `n`; wrong names are refused."""
        kernel.ok(
            "df = pd.DataFrame({'colour': ['crimson'], 'n': [1]}); _df = df; n = 3\n"
            "def f(df: pd.DataFrame) -> int:\n    'Rows.'\n    return len(df)\n"
            "model = ScriptedModel([Reply(calls=[('f', {'df': 'dff'}), ('f', {'df': 'n'}), ('f', {'df': 'df.T'}),"
            " ('f', {'df': 'df'})]), 'done'])\n"
            "chat = Agent(model, actions=[f]).chat('c22')\nawait chat.send('go')"
        )
        listed = kernel.value("[dict(v) for v in model.requests[0].variables]")
        assert "df" in [v["name"] for v in listed]
        assert not {"_df", "n"} & {v["name"] for v in listed}
        assert "colour" in json.dumps(listed)
        last = kernel.value("model.requests[0].messages[-1]")
        assert "colour" in json.dumps(last)
        assert "crimson" not in json.dumps([listed, last])
        calls = kernel.value("told(chat)")
        codes = [json.dumps(call["output"] or call["error"]) for call in calls]
        assert "unknown_variable" in codes[0]
        assert "wrong_type" in codes[1]
        assert "unknown_variable" in codes[2]
        assert calls[3]["output"] == 1
        assert "Candidates: df" in codes[0]

    def test_schemas(self, kernel: Kernel) -> None:
        """C24: ten turns that rebind variables: the tool schemas of the ten requests are equal."""
        kernel.ok(
            "def g(df: pd.DataFrame) -> int:\n    'Rows.'\n    return len(df)\n"
            "model = ScriptedModel(['ok'], loop=True); chat = Agent(model, actions=[g]).chat('c24')\n"
            "for k in range(10):\n    globals()[f'frame{k}'] = pd.DataFrame({'a': range(k)})\n"
            "    await chat.send(str(k))"
        )
        assert kernel.value("len({str(r.actions) for r in model.requests})") == 1
        assert kernel.value("len(model.requests)") == 10

    def test_secrets_answer_as_nothing(self, kernel: Kernel) -> None:
        """C25: `inspect_variable` of `api_key` and of `nope` give the same kind of answer."""
        kernel.ok(
            "api_key = 'x'\nmodel = ScriptedModel([Reply(calls=[('inspect_variable', {'name': 'api_key'}),"
            " ('inspect_variable', {'name': 'nope'})]), 'done'])\n"
            "chat = Agent(model, actions=notebook_actions()).chat('c25')\nawait chat.send('go')"
        )
        first, second = [call["error"].split("Candidates")[0] for call in kernel.value("told(chat)")]
        assert "unknown_variable" in first
        assert first.replace("api_key", "nope") == second
        assert "api_key" not in json.dumps(kernel.value("told(chat)[1]"))

    def test_mention(self, kernel: Kernel) -> None:
        """C26: after `df` changed and the message was edited, the first version holds the old summary."""
        kernel.ok(
            "df = pd.DataFrame({'v': [41]})\nmodel = ScriptedModel(['ok'], loop=True)\n"
            "chat = Agent(model).chat('c26')\nawait chat.send('see @df')\nfirst = chat.messages[0]\n"
            "df = pd.DataFrame({'v': [42]}); other = pd.DataFrame({'w': [43]})\n"
            "await chat.edit(first.id, 'see @df and @other')"
        )
        parts = "[p['data'] for p in chat.messages[0].to_wire()['parts'] if p['type'] == 'data-variable']"
        old, new = kernel.value(parts)
        assert (old["name"], new["name"]) == ("df", "other")
        assert "41" in old["summary"]
        assert "43" in new["summary"]
        exported = kernel.value("json.loads(chat.export('json', branches=True))")
        held = [part["data"]["summary"] for part in _parts(exported["tree"]) if part.get("type") == "data-variable"]
        assert len(held) == 3
        assert not any("42" in summary for summary in held)
        assert "41" in kernel.value("json.dumps(model.requests[0].messages)")
        assert "43" in kernel.value("json.dumps(model.requests[1].messages)")

    def test_changed_meanwhile(self, kernel: Kernel) -> None:
        """Section 5: a gated call whose name means another object when it is due does not run: `variable_changed`."""
        kernel.ok(
            "df = pd.DataFrame({'v': [1]})\n@action(needs_approval=True)\n"
            "def drop(df: pd.DataFrame) -> int:\n    'Drop.'\n    note('ran'); return len(df)\n"
            "chat = Agent(ScriptedModel([Reply(calls=[('drop', {'df': 'df'})]), 'done']), actions=[drop])"
            ".chat('gated')\nawait chat.send('go'); df = pd.DataFrame({'v': [1]})\nawait chat.approve()"
        )
        assert "variable_changed" in kernel.value("json.dumps(told(chat)[0])")
        assert kernel.events(event="ran") == []


def _parts(value: object) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    if isinstance(value, dict):
        found += [value] if "type" in value else []
        for item in value.values():
            found += _parts(item)
    if isinstance(value, list):
        for item in value:
            found += _parts(item)
    return found
