"""A certificate authority for TLS tests and its certificates, made with the openssl command."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

KEY_PASSWORD = "of-the-key"
_RSA = ("-newkey", "rsa:2048", "-nodes")


@dataclass(frozen=True)
class Identity:
    """PEM files: ``store`` has key and chain; in ``locked`` the key is encrypted with KEY_PASSWORD."""

    chain: Path
    key: Path
    store: Path
    locked: Path


@dataclass(frozen=True)
class Authority:
    """``server`` is for 127.0.0.1 and localhost, ``elsewhere`` for another host."""

    certificate: Path
    server: Identity
    elsewhere: Identity
    client: Identity


def make_authority(directory: Path) -> Authority:
    """Create the certificates, or skip the test if openssl is not installed."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    directory.mkdir()
    key, certificate = directory / "ca.key", directory / "ca.pem"
    _openssl(
        "req",
        "-x509",
        *_RSA,
        "-days",
        "3650",
        "-keyout",
        key,
        "-out",
        certificate,
        "-subj",
        "/CN=penstock-ca",
    )

    def identity(name: str, names: str) -> Identity:
        own, request, chain = (directory / f"{name}.{ending}" for ending in ("key", "csr", "pem"))
        extensions = directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\n")
        _openssl("req", *_RSA, "-keyout", own, "-out", request, "-subj", f"/CN={name}")
        authority = ("-CA", certificate, "-CAkey", key, "-CAcreateserial")
        _openssl(
            "x509", "-req", "-in", request, *authority, "-out", chain, "-days", "3650", "-extfile", extensions
        )
        store, locked = directory / f"{name}-store.pem", directory / f"{name}-locked.pem"
        store.write_text(own.read_text() + chain.read_text())
        encrypted = ("pkcs8", "-topk8", "-v2", "aes-256-cbc", "-passout", f"pass:{KEY_PASSWORD}")
        _openssl(*encrypted, "-in", own, "-out", locked)
        locked.write_text(locked.read_text() + chain.read_text())
        return Identity(chain, own, store, locked)

    return Authority(
        certificate,
        identity("server", "IP:127.0.0.1,DNS:localhost"),
        identity("elsewhere", "DNS:elsewhere.example"),
        identity("client", "DNS:client"),
    )


def _openssl(*words: object) -> None:
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
