"""The bot's account: its password, its encryption, who may talk to it, and the library that speaks for it."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import MissingTool, NodeError

if TYPE_CHECKING:
    from penstock.node.telling.settings import Xmpp as Settings

VARIABLE: Final = "PENSTOCK_XMPP_PASSWORD"
"""Of the environment: the password, if the configuration has none."""


def password_of(settings: Settings) -> str:
    """The bot's password, from wherever it is; NodeError says where it was looked for."""
    found = settings.password
    if not found and settings.password_file:
        try:
            found = Path(settings.password_file).read_text().splitlines()[0].strip()
        except (OSError, UnicodeDecodeError, IndexError) as error:
            raise NodeError(f"telling.xmpp.password_file: {settings.password_file}: {error}") from None
    found = found or os.environ.get(VARIABLE, "")
    if not found:
        raise NodeError(f"telling.xmpp: no password: set password, password_file or the variable {VARIABLE}")
    return found


def may_talk(settings: Settings, bare: str) -> bool:
    """Whether somebody may use the bot."""
    domain = bare.rpartition("@")[2].lower()
    own = settings.jid.partition("/")[0].rpartition("@")[2].lower()
    accepted = [one.lower() for one in settings.accept] or [own]
    return bare.lower() in accepted or domain in accepted


def made(slixmpp: Any, settings: Settings, password: str) -> Any:
    """A client of the library that is not connected yet."""
    bot = slixmpp.ClientXMPP(settings.jid, password, ssl_context=_context(settings))
    bot.enable_direct_tls = settings.tls == "direct"
    bot.enable_starttls = settings.tls == "starttls"
    bot.enable_plaintext = settings.tls == "off"
    if settings.tls == "off":
        for setting in ("unencrypted_plain", "unencrypted_scram"):
            bot.plugin["feature_mechanisms"].config[setting] = True
    bot.roster.auto_authorize = None
    bot.roster.auto_subscribe = False
    bot.register_plugin("xep_0198", {"allow_resume": False})
    bot.register_plugin("xep_0199", {"keepalive": True, "interval": 60, "timeout": 20})
    return bot


def library() -> Any:
    """Slixmpp; MissingTool says how to get it."""
    try:
        import slixmpp  # noqa: PLC0415  # a part of the extra `web`
    except ImportError:
        raise MissingTool(
            "telling.xmpp needs the package slixmpp; install it with: pip install 'penstock[web]'"
        ) from None
    logging.getLogger("slixmpp").setLevel(logging.CRITICAL)  # what matters is logged here
    return slixmpp


def _context(settings: Settings) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=settings.ca or None)
    except (OSError, ssl.SSLError) as error:
        raise NodeError(f"telling.xmpp.ca: {settings.ca}: {error}") from None


def quiet(bot: Any) -> None:
    """End what the library leaves running."""
    filters = bot._run_out_filters  # noqa: SLF001  # it has no other way
    if filters is not None:
        filters.cancel()
