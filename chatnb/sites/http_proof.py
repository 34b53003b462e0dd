"""Proof that a person clicks in the served page: a short-lived signed cookie (spec/actions.md, 11.1)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from ..actions import Identity

COOKIE = "chatnb_ui"
HEADER = "x-chatnb-ui"
SECONDS = 600
PATH = "/actions"


class Proof:
    """Mints and checks the cookie.

    Args:
        secret: Signs it; None: a secret of this process.
    """

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secret or secrets.token_bytes(32)

    def mint(self, response: Response, identity: Identity, *, secure: bool) -> None:
        """Give a person's browser the cookie."""
        response.set_cookie(
            COOKIE,
            self._token(identity.id, int(time.time()) + SECONDS),
            max_age=SECONDS,
            path=PATH,
            httponly=True,
            secure=secure,
            samesite="strict",
        )

    def is_claimed(self, request: Request) -> bool:
        """Tell whether a request says that it comes from the page."""
        return request.headers.get(HEADER) == "1"

    def holds(self, request: Request, identity: Identity | None) -> bool:
        """Tell whether a request is proven: from this origin, by a person, with the cookie of that person."""
        if identity is None or identity.kind != "user" or not self.is_claimed(request):
            return False
        return is_same_origin(request) and self._is_valid(request.cookies.get(COOKIE, ""), identity.id)

    def _token(self, identity_id: str, until: int) -> str:
        who = base64.urlsafe_b64encode(hashlib.sha256(identity_id.encode("utf-8", "replace")).digest()[:12]).decode()
        body = f"{until}.{who}.{secrets.token_urlsafe(9)}"
        return f"{body}.{self._sign(body, identity_id)}"

    def _is_valid(self, token: str, identity_id: str) -> bool:
        body, _, signature = token.rpartition(".")
        until = body.partition(".")[0]
        if not hmac.compare_digest(self._sign(body, identity_id).encode(), signature.encode("utf-8", "replace")):
            return False
        return until.isascii() and until.isdigit() and time.time() < int(until)

    def _sign(self, body: str, identity_id: str) -> str:
        text = f"chatnb.ui.v1\n{len(identity_id)}\n{identity_id}\n{body}".encode("utf-8", "surrogatepass")
        return base64.urlsafe_b64encode(hmac.new(self._secret, text, hashlib.sha256).digest()).decode().rstrip("=")


def is_same_origin(request: Request) -> bool:
    """Tell whether a request names its own server as the page's origin."""
    try:
        origin = urlsplit(request.headers.get("origin", ""))
    except ValueError:
        return False
    return bool(origin.netloc) and (origin.scheme, origin.netloc.lower()) == (
        request.scope["scheme"],
        request.headers.get("host", "").lower(),
    )
