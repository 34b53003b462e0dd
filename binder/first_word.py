"""Measures what a reader waits for: from the start of a kernel to the first streamed word of the offline model."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from jupyter_client.manager import start_new_kernel

CODE = """
from chatnb import Agent
submission = Agent("offline").chat("first-word").send("hello")
async for chunk in submission:
    if chunk["type"] == "text-delta":
        print(chunk["delta"])
        break
"""


def main() -> None:
    """Prints the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CHATNB_STORE"] = str(Path(folder, "chats.db"))
        began = time.perf_counter()
        manager, client = start_new_kernel(kernel_name="python3")
        seen: list[float] = []

        def look(message: dict[str, object]) -> None:
            if message["header"]["msg_type"] == "stream":  # type: ignore[index]
                seen.append(time.perf_counter() - began)

        client.execute_interactive(CODE, output_hook=look, timeout=120)
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    print(f"first word after {seen[0]:.1f} s" if seen else "no word came")


if __name__ == "__main__":
    main()
