"""The JSON form of every value that crosses the store.

Inputs, results, step outputs, event payloads and progress are stored as JSON text
and nothing else: nothing that is stored can name code to run. What a body sees is
always the decoded text, never the live object, so a first run and a replay after a
crash see the same values.

With an annotation a value comes back with the type and value it had: Decimal, UUID,
datetime, date, timedelta, bytes, set, tuple, enum, dataclass and Pydantic models
included. Validation is strict at every depth: ``"7"`` is not an ``int``.

Without one (or with ``Any`` or ``object``, also deep inside a typed value) JSON's own
types are taken: None, bool, int, finite float, str, list and dict with text keys. A
tuple becomes a list. Anything else, subclasses of those types included, is refused,
because it would come back as something else.

Refused with the path and never with the value, before any SQL:

- NUL characters and lone surrogates, in text and in keys: PostgreSQL stores neither.
- NaN and infinity, also as Decimal.
- Whole numbers beyond 4300 digits; smaller ones are exact.
- Nesting beyond 100 levels, and values that contain themselves.
- A naive datetime while ``USE_TZ`` is on. While it is off, it is kept naive.
- A value whose annotation cannot tell it from another one in JSON, such as a
  datetime for ``str | datetime``.
- More bytes than ``DURABLE_JOBS["MAX_PAYLOAD"]``.

An aware datetime keeps its instant and offset; the name of its zone is not stored.
"""

from .codec import Codec
from .preview import preview

__all__ = ["Codec", "preview"]
