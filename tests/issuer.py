"""An issuer of bearer tokens: its keys, its tokens, and its endpoints over HTTPS."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from certificates import Authority, Identity

NAME = "https://issuer.example"
AUDIENCE = "kafka"
KINDS = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
SIZES: dict[str, Any] = {"RSA": 2048, "EC": "P-256", "OKP": "Ed25519"}
ALGORITHMS = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}
CONTENT_TYPE = "application/x-www-form-urlencoded"
IDENTITY_FIELDS = {"api-version", "resource", "client_id"}


def part(content: object) -> str:
    """A part of a token: JSON, or any bytes, in base64url."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def signed(key: Any, header: dict[str, Any], claims: object) -> str:
    """A token with any header, which need not be a valid one."""
    message = f"{part(header)}.{part(claims)}"
    return f"{message}.{part(jws.JWSRegistry.algorithms[header['alg']].sign(message.encode(), key))}"


class Issuer:
    """Keys and tokens; a key is made for each name when it is first asked for."""

    def __init__(self, kind: str = "EC") -> None:
        self.kind = kind
        self.keys: dict[str, Any] = {}

    def key(self, name: str = "first") -> Any:
        if name not in self.keys:
            self.keys[name] = KINDS[self.kind].generate_key(SIZES[self.kind], auto_kid=False)
        return self.keys[name]

    def jwks(self, *names: str) -> str:
        """The public keys, of all names or of these."""
        named = {name: self.key(name) for name in names} or self.keys
        entries = [{**key.as_dict(private=False), "kid": name, "use": "sig"} for name, key in named.items()]
        return json.dumps({"keys": entries})

    def claims(self, principal: str = "ann", lifetime_s: float = 600, **changed: Any) -> dict[str, Any]:
        """The claims of an acceptable token; a changed claim that is None is left out."""
        now_s = int(time.time())
        claims = {
            "iss": NAME,
            "aud": AUDIENCE,
            "sub": principal,
            "iat": now_s,
            "exp": now_s + lifetime_s,
            **changed,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, principal: str = "ann", key: str = "first", **changed: Any) -> str:
        header = {"alg": ALGORITHMS[self.kind], "kid": key}
        return signed(self.key(key), header, self.claims(principal, **changed))


class IssuerServer:
    """The endpoints of an issuer: ``/jwks`` and ``/token``, which knows clients by their secrets.

    A client may also prove itself by an assertion that the key ``assertions`` has signed, or ask as a virtual
    machine asks Azure's metadata service. ``answers`` are other answers by path: a status and a body for
    each. ``requests`` has the paths that were asked for, with the forms or queries. ``scopes`` are those that
    clients may ask for, or all if there are none.
    """

    def __init__(self, issuer: Issuer, authority: Authority, identity: Identity | None = None) -> None:
        self.issuer = issuer
        self.clients = {"ann": "ann-secret"}
        self.scopes: set[str] = set()
        self.lifetime_s = 600.0
        self.answers: dict[str, Callable[[], tuple[int, str]]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                self._answer(path, query)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                assert self.headers["Content-Type"] == CONTENT_TYPE
                self._answer(self.path, body)

            def _answer(self, path: str, encoded: str) -> None:
                form = {name: values[0] for name, values in parse_qs(encoded).items()}
                status, text = outer.answer(path, form, self.headers)
                self.send_response(status)
                if status // 100 == 3:
                    self.send_header("Location", text)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain((identity or authority.server).store)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_reason: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def url(self, path: str) -> str:
        return f"https://localhost:{self._server.server_port}{path}"

    def count(self, path: str) -> int:
        return sum(asked == path for asked, _ in self.requests)

    def answer(self, path: str, form: dict[str, str], headers: Message) -> tuple[int, str]:
        self.requests.append((path, form))
        if path in self.answers:
            return self.answers[path]()
        if path == "/jwks":
            return 200, self.issuer.jwks()
        if path != "/token":
            return 404, ""
        principal, scope = self._principal(form, headers), form.get("scope")
        if principal is None:
            return 401, '{"error":"invalid_client","error_description":"no such client"}'
        if scope and self.scopes and scope not in self.scopes:
            return 400, '{"error":"invalid_scope","error_description":"no such scope"}'
        lifetime_s = self.lifetime_s
        token = self.issuer.token(principal, lifetime_s=lifetime_s, scope=scope, client_id=principal)
        return self.granted(token)

    def granted(self, token: str) -> tuple[int, str]:
        """The answer that grants a token."""
        return 200, json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s})

    def _principal(self, form: dict[str, str], headers: Message) -> str | None:
        assertion = form.get("assertion") or form.get("client_assertion")
        if assertion is not None:
            return self._subject(assertion)
        if headers.get("Metadata") == "true":
            return form["client_id"] if form.keys() >= IDENTITY_FIELDS else None
        authorization = headers.get("Authorization", "").removeprefix("Basic ")
        name, _, secret = base64.b64decode(authorization).decode().partition(":")
        return name if self.clients.get(name) == secret else None

    def _subject(self, assertion: str) -> str | None:
        key, algorithms = self.issuer.key("assertions"), [ALGORITHMS[self.issuer.kind]]
        try:
            claims = json.loads(jws.deserialize_compact(assertion, key, algorithms).payload)
        except JoseError:
            return None
        return str(claims["sub"])
