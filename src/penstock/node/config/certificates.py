"""Loads the certificate files that the settings of a listener name into TLS contexts (TLS 1.2 or newer)."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from penstock.errors import NodeError

if TYPE_CHECKING:
    from penstock.node.config.schema import Listener


def context(listener: Listener) -> ssl.SSLContext:
    """Make the TLS context of a listener; NodeError names the file that does not load."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    # Renegotiation costs the server more than the client; compression reveals secrets by length (CRIME).
    made.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    load(made, listener)
    return made


def load(into: ssl.SSLContext, listener: Listener) -> None:
    """Load the files of a listener into a context; open connections keep the certificates they have."""
    try:
        into.load_cert_chain(listener.certificate, listener.key or None, password=_no_password)
    except (OSError, ValueError) as error:
        raise NodeError(
            f"certificate {listener.certificate}{f' with key {listener.key}' if listener.key else ''}: "
            f"{_reason(error)}"
        ) from None
    if not listener.client_ca:
        return
    try:
        into.load_verify_locations(listener.client_ca)
    except (OSError, ValueError) as error:
        raise NodeError(f"client_ca {listener.client_ca}: {_reason(error)}") from None
    into.verify_mode = ssl.CERT_REQUIRED


def _no_password() -> str:
    raise ValueError("the key is encrypted, and a node cannot ask for its password")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        known = {
            "KEY_VALUES_MISMATCH": "the key does not belong to the certificate",
            "NO_CERTIFICATE_OR_CRL_FOUND": "there is no certificate in it",
        }
        return known.get(error.reason or "", f"is not a PEM file for TLS ({error.reason or 'damaged'})")
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
