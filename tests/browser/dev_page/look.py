"""Shows the built panel with a scripted kernel, and takes its pictures.

`python tests/browser/dev_page/look.py` serves the page on 127.0.0.1; `--shots` takes every state in four sizes, light
and dark, into `tests/browser/shots/panel/`, which git ignores and CI keeps. Build first: `npm run build` in `widgets/`.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import os
import shutil
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATIC = Path(os.environ.get("CHATNB_STATIC") or HERE.parents[2] / "chatnb" / "widget" / "static")
SHOTS = HERE.parent / "shots" / "panel"
SCENARIOS = (
    "empty submitted streaming thinking talk approval cards error recovering offered gone branches history steered "
    "clientTool banners exhausted unsaved waiting rich menu editing form runAction"
).split()
SIZES = ((1200, 800), (900, 600), (480, 600), (320, 560))
THEMES = ("light", "dark")
ARGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves this folder, and the built files under `/static/`."""

    def translate_path(self, path: str) -> str:
        if path.startswith("/static/"):
            return str(STATIC / Path(path.split("?")[0]).name)
        return super().translate_path(path)

    def do_GET(self) -> None:
        # The same page where a host forbids modules from blobs.
        if self.path.startswith("/strict.html"):
            text = (HERE / "index.html").read_text("utf-8").replace("script-src 'self' blob:", "script-src 'self'")
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())
        else:
            super().do_GET()

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return None


def serve(port: int) -> http.server.ThreadingHTTPServer:
    """A server in a thread of its own; `server_port` tells where."""
    handler = functools.partial(Handler, directory=str(HERE))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def take(names: list[str], port: int) -> None:
    """Takes the pictures of the named scenarios."""
    from playwright.sync_api import ConsoleMessage, sync_playwright

    def tell(message: ConsoleMessage) -> None:
        # Markup is cleaned in a document of its own, where the policy already refuses its handlers.
        if message.type == "error" and "inline event handler" not in message.text:
            print("console:", message.text)

    errors: list[str] = []
    SHOTS.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=found, args=ARGS)
        context = browser.new_context(locale="en-US")
        for theme in THEMES:
            for name in names:
                page = context.new_page()
                page.set_viewport_size({"width": SIZES[0][0], "height": SIZES[0][1]})
                page.on("pageerror", lambda error: errors.append(str(error)))
                page.on("console", tell)
                page.goto(f"http://127.0.0.1:{port}/index.html?scenario={name}&theme={theme}")
                page.wait_for_selector(".chatnb-view:not([data-connection=connecting])")
                # Until the script has been played, and what it needs besides the core is there and drawn.
                page.wait_for_function("() => window.kernel.isPlayed")
                page.evaluate("() => new Promise(done => setTimeout(() => requestAnimationFrame(done), 250))")
                for width, height in SIZES:
                    page.set_viewport_size({"width": width, "height": height})
                    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                    page.screenshot(path=SHOTS / f"{name}-{width}-{theme}.png", animations="disabled")
                page.close()
        browser.close()
    if errors:
        raise SystemExit("\n".join(["The page met errors:", *errors]))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shots", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    server = serve(options.port)
    if options.shots:
        take(options.names or SCENARIOS, server.server_port)
        return
    print(f"http://127.0.0.1:{server.server_port}/index.html?scenario=talk")
    threading.Event().wait()


if __name__ == "__main__":
    main()
