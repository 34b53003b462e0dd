"""Secrets in the texts of errors: nobody put them there on purpose, so they go no further.

A text that an exception carries is shown, stored, sent to models and logged; a value of the environment in it is not.
"""

from __future__ import annotations

import logging
import os

from .redaction import REDACTED, SECRET_VALUES

_ENVIRONMENT_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_MIN_LENGTH = 8


def hide_secrets(text: str) -> str:
    """Return a text without the environment's secrets and strings in the form of known keys."""
    values = {
        value
        for name, value in os.environ.items()
        if len(value) >= _MIN_LENGTH and any(part in name.upper() for part in _ENVIRONMENT_NAMES)
    }
    # The longest first, so that a secret within another leaves nothing behind.
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, REDACTED)
    return SECRET_VALUES.sub(REDACTED, text)


class SecretFilter(logging.Filter):
    """Keeps secrets out of what the logger's records say, their tracebacks included."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace them in place; every record passes."""
        said = record.getMessage()
        hidden = hide_secrets(said)
        if hidden != said:
            record.msg, record.args = hidden, None
        if record.exc_info and not record.exc_text:
            trace = logging.Formatter().formatException(record.exc_info)
            hidden = hide_secrets(trace)
            if hidden != trace:
                record.exc_text = hidden  # what formatters use instead of making the text themselves
        return True


def guard_log(name: str = "chatnb") -> None:
    """Add the filter to a logger, once."""
    logger = logging.getLogger(name)
    if not any(type(known).__name__ == SecretFilter.__name__ for known in logger.filters):
        logger.addFilter(SecretFilter())
