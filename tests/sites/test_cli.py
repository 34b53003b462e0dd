"""`chatnb action` (spec/actions.md, 11.6): the real command, in a pseudo-terminal and without one."""

from __future__ import annotations

import json
import os
import select
import shlex
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from chatnb.sites.cli import main

if sys.platform == "win32":
    pytest.skip("pseudo-terminals", allow_module_level=True)

import pty

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-c", "from chatnb.sites.cli import main; main(prog_name='chatnb')", "action"]
# Makes the pseudo-terminal that of the new session, so that Ctrl-C in it is a signal.
# As a shell starts a program: a worker of a test run ignores Ctrl-C, and so would what it starts.
OWN_TERMINAL = (
    "import fcntl, signal, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "signal.signal(signal.SIGINT, signal.default_int_handler)"
)
MODULE = '''
import threading
from pathlib import Path
from typing import Any

from chatnb import ActionContext, Agent, Identity, action


def note(text):
    """Each action counts its runs in a file."""
    with open("ran.txt", "a") as file:
        file.write(text + "\\n")


@action(needs_approval=lambda args, ctx: args["amount"] > 100)
def refund(order: str, amount: float) -> dict:
    """Refund an order."""
    note(f"refund {order} {amount}")
    return {"order": order, "amount": amount}


@action(read_only=True)
def echo(value: Any = None, tags: list[str] | None = None, numbers: list[int] = [], live: bool = False,
         limit: int = 10, text: str = "", max_rows: int = 0) -> dict:
    """Return the arguments."""
    print("printed by the action")
    note("echo")
    return {"value": value, "tags": tags, "numbers": numbers, "live": live, "limit": limit, "text": text,
            "max_rows": max_rows}


@action(needs_approval=lambda args, ctx: 1 / 0)
def fragile() -> str:
    """Always asks: the predicate is broken."""
    note("fragile")
    return "ran"


@action(authorize=lambda args, ctx: note(f"guard {ctx.identity.id} {ctx.site}"))
def guarded() -> str:
    """Only for those who are known."""
    note("guarded")
    return "ran"


@action(ui_only=True)
def secret_button() -> str:
    """Only a click."""
    note("secret_button")
    return "ran"


@action
def fails() -> str:
    """Raise."""
    raise ValueError("no such order")


@action
def main_thread(ctx: ActionContext) -> dict:
    """Tell about the call."""
    ctx.log("looking")
    ctx.progress(1, 2, "half")
    return {"main": threading.current_thread() is threading.main_thread(), "site": ctx.site}


@action(read_only=True)
def pictures() -> dict:
    """Return a picture for the model."""
    return {"rows": 3, "_agent_images": [{"url": "https://example.org/a.png", "media_type": "image/png"}]}


@action
def endless() -> None:
    """Wait until interrupted."""
    print("READY", flush=True)
    while True:
        threading.Event().wait(0.05)


ACTIONS = [refund, echo, fragile, guarded, secret_button, fails, main_thread, pictures, endless]
agent = Agent("offline", actions=ACTIONS)
robot = Agent("offline", actions=ACTIONS, identity=Identity("robot", kind="service"))
not_an_agent = 3
'''


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a module `shop`, in which the command runs."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "shop.py").write_text(MODULE, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CHATNB_IDENTITY", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield tmp_path
    sys.modules.pop("shop", None)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command without a terminal, in this process: much quicker."""
    done = CliRunner().invoke(main, ["action", *words], prog_name="chatnb")
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


def run_command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the real command without a terminal."""
    return subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False
    )


def run_on_terminal(*words: str, answer: str = "", interrupt_at: str | None = None) -> tuple[int, str]:
    """Run the command in a pseudo-terminal; answer its question, if it asks one."""
    # Not `pty.fork`: this process may have threads by now, and a fork of it could stand still before it is another.
    terminal, inner = pty.openpty()
    command = [sys.executable, "-c", f"{OWN_TERMINAL}; {COMMAND[2]}", *COMMAND[3:], *words]
    child = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, start_new_session=True)
    os.close(inner)
    shown, is_answered, until = b"", False, time.monotonic() + 60
    try:
        while True:
            if not select.select([terminal], [], [], max(0, until - time.monotonic()))[0]:
                pytest.fail(f"no end in sight after: {shown.decode(errors='replace')}")
            try:
                data = os.read(terminal, 4096)
            except OSError:  # Linux: the other side is gone
                break
            if not data:
                break
            shown += data
            if b"[y/N]" in shown and not is_answered:
                is_answered = True
                os.write(terminal, answer.encode())
            if interrupt_at is not None and interrupt_at.encode() in shown:
                interrupt_at = None
                os.write(terminal, b"\x03")
        return child.wait(30), shown.decode()
    finally:
        child.kill()
        child.wait()
        os.close(terminal)


def ran() -> list[str]:
    """What ran, by the actions' own count."""
    path = Path("ran.txt")
    return path.read_text().splitlines() if path.exists() else []


def audit() -> list[dict[str, object]]:
    """The audit rows of the test's store."""
    import sqlite3

    with sqlite3.connect(os.environ["CHATNB_STORE"]) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("select * from audit")]


class TestResult:
    """Result as JSON on stdout; an error on stderr, exit 1."""

    def test_stdout_has_the_result_alone(self) -> None:
        done = run_command("shop:agent", "refund", "--order", "7", "--amount", "50")
        assert (done.returncode, json.loads(done.stdout)) == (0, {"order": "7", "amount": 50.0})
        assert ran() == ["refund 7 50.0"]

    def test_what_an_action_prints_goes_to_stderr(self) -> None:
        done = run_command("shop:agent", "echo")
        assert "printed by the action" in done.stderr
        assert json.loads(done.stdout)["limit"] == 10

    def test_an_exception_is_type_and_message(self) -> None:
        """Section 6: the CLI gets `Type: message`, no traceback."""
        done = run_command("shop:agent", "fails")
        assert (done.returncode, done.stdout) == (1, "")
        assert "ValueError: no such order" in done.stderr
        assert "effect: committed" in done.stderr
        assert "Traceback" not in done.stderr

    def test_invalid_arguments_run_nothing(self) -> None:
        """C1: nothing runs; the error names what is missing."""
        done = run("shop:agent", "refund", "--amount", "5")
        assert done.returncode == 1
        assert "missing: order" in done.stderr
        assert ran() == []

    def test_progress_and_log_are_on_stderr(self) -> None:
        """9.5: the CLI shows them on stderr; the handler runs on the main thread, at the site "cli"."""
        done = run("shop:agent", "main_thread")
        assert json.loads(done.stdout) == {"main": True, "site": "cli"}
        assert "looking" in done.stderr
        assert "1/2 half" in done.stderr

    def test_images_are_notes(self) -> None:
        """Section 11: `_agent_images` are printed as notes."""
        done = run("shop:agent", "pictures")
        assert json.loads(done.stdout) == {"rows": 3}
        assert "[image: https://example.org/a.png]" in done.stderr

    def test_a_call_is_written_down(self) -> None:
        """Section 12: a write is audited, with its site."""
        run("shop:agent", "refund", "--order", "7", "--amount", "50")
        (row,) = audit()
        assert (row["action"], row["site"], row["status"]) == ("refund", "cli", "success")

    def test_ctrl_c_ends_the_call_and_says_so(self) -> None:
        """Section 10: Ctrl-C in a handler is the call's error."""
        status, shown = run_on_terminal("shop:agent", "endless", interrupt_at="READY")
        assert status == 1
        assert "Interrupted by the user." in shown


class TestWords:
    """Flags win, a repeated flag is a list, a bare one true."""

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["--limit", "5"], {"limit": 5}),
            (["--limit=5"], {"limit": 5}),
            (["--limit", "-5"], {"limit": -5}),
            (['{"limit": 5, "text": "a"}', "--limit", "6"], {"limit": 6, "text": "a"}),
            (["--limit", "6", '{"limit": 5}'], {"limit": 6}),
            (["--numbers", "1", "--numbers", "2"], {"numbers": [1, 2]}),
            (["--tags", "a"], {"tags": ["a"]}),
            (["--tags", '["a", "b"]'], {"tags": ["a", "b"]}),
            (["--live"], {"live": True}),
            (["--live", "--limit", "5"], {"live": True, "limit": 5}),
            (["--live", "false"], {"live": False}),
            (["--text", "true"], {"text": "true"}),
            (["--text="], {"text": ""}),
            (["--text=--approved"], {"text": "--approved"}),
            (["--text", "a=b"], {"text": "a=b"}),
            (["--max-rows", "3"], {"max_rows": 3}),
            (["--approved", "--limit", "5"], {"limit": 5}),
            (["--approved", '{"limit": 5}'], {"limit": 5}),
        ],
        ids=" ".join,
    )
    def test_are_read(self, words: list[str], expected: dict[str, object]) -> None:
        done = run("shop:agent", "echo", *words)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert {key: result[key] for key in expected} == expected

    @pytest.mark.parametrize(
        "words",
        [
            ["shop:agent", "echo", "{}", "{}"],
            ["shop:agent", "echo", "{"],
            ["shop:agent", "echo", "hidden-value"],
            ["shop:agent", "echo", "[1]"],
            ["shop:agent", "echo", '{"limit": NaN}'],
            ["shop:agent", "echo", "--"],
            ["shop:agent", "echo", "--=1"],
            ["shop:agent"],
            [],
            ["shop", "echo"],
            ["shop:nobody", "echo"],
            ["shop:not_an_agent", "echo"],
            ["nowhere_to_be_found:agent", "echo"],
        ],
        ids=" ".join,
    )
    def test_bad_ones_exit_2(self, words: list[str]) -> None:
        """Two JSON arguments, bad JSON or a non-object: exit 2, nothing run, no value in the text."""
        done = run(*words)
        assert (done.returncode, done.stdout, ran()) == (2, "", [])
        assert "Traceback" not in done.stderr
        assert "hidden-value" not in done.stderr

    @pytest.mark.parametrize("name", ["secret_button", "nothing_of_the_kind"])
    def test_a_hidden_name_is_unknown(self, name: str) -> None:
        """Section 11: a `ui_only` action is not in the CLI; no approval brings it back."""
        done = run("shop:agent", name, "--approved", "0" * 64)
        assert done.returncode == 1
        assert "unknown_action" in done.stderr
        assert ran() == []


class TestWithoutTerminal:
    """Elsewhere a gated call exits 3 and prints the arguments, the hash and the command."""

    CALL = ("shop:agent", "refund", '{"order": "7"}', "--amount", "250")
    HASH = "26757a05306a1ba48578c3df2572809c2b8acf3d674235ac0c8e081dd1cf6841"

    def test_the_printed_command_runs(self) -> None:
        """C25 of actions.md: exit 3, prints the hash; with `--approved` that hash it runs."""
        done = run_command(*self.CALL)
        assert (done.returncode, done.stdout, ran()) == (3, "", [])
        assert self.HASH in done.stderr
        assert '"order": "7"' in done.stderr
        assert "approval_required" in done.stderr
        words = shlex.split(done.stderr.strip().splitlines()[-1])
        assert words[:2] == ["chatnb", "action"]
        again = run_command(*words[2:])
        assert (again.returncode, json.loads(again.stdout)) == (0, {"order": "7", "amount": 250.0})
        assert ran() == ["refund 7 250.0"]

    @pytest.mark.parametrize("place", [0, 2, 5], ids=["first", "middle", "last"])
    def test_approved_may_stand_anywhere(self, place: int) -> None:
        """`--approved` is removed before parsing."""
        done = run(*self.CALL[:place], "--approved", self.HASH, *self.CALL[place:])
        assert done.returncode == 0, done.stderr
        assert run(*self.CALL[:place], f"--approved={self.HASH}", *self.CALL[place:]).returncode == 0

    @pytest.mark.parametrize("approved", ["--approved", "--approved=", f"--approved={HASH}"])
    def test_it_binds_to_the_arguments(self, approved: str) -> None:
        """C25, C26: with changed arguments, and bare: exit 3, `approval_mismatch`, the right hash."""
        done = run("shop:agent", "refund", '{"order": "8"}', "--amount", "250", approved)
        assert (done.returncode, ran()) == (3, [])
        assert "approval_mismatch" in done.stderr
        assert self.HASH not in done.stderr
        assert len([word for word in done.stderr.split() if len(word) == 64]) >= 1

    def test_it_is_ignored_on_ungated_calls(self) -> None:
        """C26: on an ungated call a bare one runs, and the handler never sees it."""
        done = run("shop:agent", "refund", "--order", "7", "--amount", "5", "--approved")
        assert (done.returncode, ran()) == (0, ["refund 7 5.0"])

    def test_a_broken_predicate_asks(self) -> None:
        """C2: it fails closed."""
        assert run("shop:agent", "fragile").returncode == 3
        assert ran() == []

    def test_a_service_never_approves(self) -> None:
        """2.7: a service identity may call, never approve."""
        done = run("shop:robot", *self.CALL[1:], "--approved", self.HASH)
        assert (done.returncode, ran()) == (3, [])

    def test_a_refusal_is_audited(self) -> None:
        run(*self.CALL)
        (row,) = audit()
        assert (row["status"], row["error_code"]) == ("denied", "approval_required")


class TestOnTerminal:
    """With stdin and stdout both terminals it asks; only `y` and `yes` run."""

    CALL = TestWithoutTerminal.CALL

    @pytest.mark.parametrize("answer", ["y\n", "YES\n"], ids=["y", "YES"])
    def test_yes_runs(self, answer: str) -> None:
        status, shown = run_on_terminal(*self.CALL, answer=answer)
        assert status == 0
        assert "refund" in shown
        assert '"order": "7"' in shown
        assert ran() == ["refund 7 250.0"]

    @pytest.mark.parametrize(
        "answer", ["n\n", "\n", "yep\n", "\x04", "\x03"], ids=["n", "enter", "yep", "eof", "ctrl-c"]
    )
    def test_anything_else_does_not(self, answer: str) -> None:
        status, _ = run_on_terminal(*self.CALL, answer=answer)
        assert (status, ran()) == (3, [])

    def test_a_wrong_hash_does_not_ask(self) -> None:
        status, shown = run_on_terminal(*self.CALL, "--approved", "0" * 64)
        assert (status, ran()) == (3, [])
        assert "[y/N]" not in shown

    def test_arguments_can_not_paint_the_terminal(self) -> None:
        """4.8: the person is shown all arguments in full: control characters and turned text are written out."""
        _, shown = run_on_terminal("shop:agent", "refund", "--order", "\x1b[2K\u202e7", "--amount", "250", answer="n\n")
        assert "\x1b" not in shown
        assert "\\u001b[2K\\u202e7" in shown

    def test_an_ungated_call_does_not_ask(self) -> None:
        status, shown = run_on_terminal("shop:agent", "refund", "--order", "7", "--amount", "5")
        assert (status, ran()) == (0, ["refund 7 5.0"])
        assert "[y/N]" not in shown


class TestIdentity:
    """2.7: `Agent(identity=)`, `CHATNB_IDENTITY`, on a terminal the login user; else nobody."""

    def test_nobody_is_denied_before_the_guard(self) -> None:
        """C11 of actions.md: a guarded action, no terminal, no identity: denied before the guard, audited."""
        done = run_command("shop:agent", "guarded")
        assert done.returncode == 1
        assert "forbidden" in done.stderr
        assert ran() == []
        (row,) = audit()
        assert (row["status"], row["error_code"]) == ("denied", "forbidden")

    def test_the_environment_names_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CHATNB_IDENTITY", "ann")
        assert run("shop:agent", "guarded").returncode == 0
        assert ran() == ["guard ann cli", "guarded"]

    def test_a_terminal_has_its_login_user(self) -> None:
        import getpass

        status, _ = run_on_terminal("shop:agent", "guarded")
        assert status == 0
        assert ran() == [f"guard local:{getpass.getuser()} cli", "guarded"]

    def test_the_agent_names_one(self) -> None:
        assert run("shop:robot", "guarded").returncode == 0
        assert ran() == ["guard robot cli", "guarded"]


class TestTarget:
    """TARGET is `module:agent`, with the working directory searched first."""

    def test_a_module_that_fails_is_not_hidden(self, shop: Path) -> None:
        (shop / "broken.py").write_text(textwrap.dedent("import nothing_of_the_kind"), "utf-8")
        done = run_command("broken:agent", "echo")
        assert done.returncode == 1
        assert "nothing_of_the_kind" in done.stderr

    def test_help_says_how(self) -> None:
        done = run_command("--help")
        assert done.returncode == 0
        assert "TARGET NAME" in done.stdout
        assert "--approved" in done.stdout

    @pytest.mark.parametrize("words", [("shop:agent", "--help"), ("shop:agent",), ("shop:agent", "ecoh", "--x", "1")])
    def test_the_actions_are_listed(self, shop: Path, words: tuple[str, ...]) -> None:
        """`TARGET --help` lists the actions; so does an error for a name that is missing or unknown."""
        done = run(*words)
        assert "  refund(order: string, amount: number)  Refund an order." in done.stdout + done.stderr
        assert ("hidden" in done.stdout + done.stderr) is False
        assert done.returncode == {"--help": 0}.get(words[-1], 2 if len(words) == 1 else 1)

    def test_one_action_is_explained(self, shop: Path) -> None:
        """`TARGET NAME --help` runs nothing: it says what the action takes."""
        done = run("shop:agent", "refund", "--help")
        assert done.returncode == 0
        assert "refund(order: string, amount: number)" in done.stdout
        assert "approval" in done.stdout
        assert ran() == []

    def test_another_name_in_the_module(self, shop: Path) -> None:
        """A wrong agent's name: the text says which agents the module has."""
        done = run("shop:agnt", "echo")
        assert done.returncode == 2
        assert "agent" in done.stderr.partition("It has:")[2]
