"""The encoding of a text: by its byte order mark or the document's declaration, else UTF-8, else a guess."""

from __future__ import annotations

import re
from codecs import lookup
from contextlib import suppress

from polyhop.errors import DataError

_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_CHARSET = re.compile(rb"(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_CODECS = (
    frozenset(
        """utf-8 utf-16 utf-16-le utf-16-be ascii cp866 koi8-r koi8-u mac-roman mac-cyrillic gbk gb2312 gb18030 big5
    big5hkscs euc_jp iso2022_jp shift_jis cp932 euc_kr cp949 tis-620 cp874""".split()
    )
    | {f"iso8859-{part}" for part in range(1, 17)}
    | {f"cp125{page}" for page in range(9)}
)
"""Python's names of the encodings that browsers know. Its others are no charsets (``punycode``, slow on long texts;
``unicode_escape``) or obscure the text (``utf-7``)."""

_SAMPLE = 4096
_MANY, _FEW = 0.4, 0.05  # shares of zero bytes at the even or odd positions of UTF-16


def decode_text(data: bytes, declared: str = "") -> tuple[str, str]:
    """Decode a text; return it with the name of its encoding if that is a guess, else "".

    >>> decode_text("café".encode()), decode_text("café".encode("cp1252")), decode_text("café".encode("utf-16-le"))
    (('café', ''), ('café', 'Windows-1252'), ('café', 'UTF-16'))

    Raises:
        DataError: it holds zero bytes, as no text does.
    """
    mark = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "")
    for name in (mark, declared, "utf-8"):
        try:
            if name and (name == mark or lookup(name).name in _CODECS) and "\0" not in (text := data.decode(name)):
                return text, ""
        except (LookupError, UnicodeError, ValueError):
            continue
    zeros = b"\0" in data
    for name, guess in ((_utf_16(data), "UTF-16"),) if zeros else (("cp1252", "Windows-1252"), ("latin-1", "Latin-1")):
        with suppress(LookupError, UnicodeError):
            return data.decode(name), guess
    raise DataError("not a text: it holds zero bytes")


def decode_page(data: bytes) -> tuple[str, str]:
    """Decode a page of HTML by the charset it declares, else as ``decode_text`` does.

    >>> decode_page(b"<meta charset='iso-8859-1'>caf\\xe9")[0][-4:]
    'café'
    """
    declared = _CHARSET.search(data, 0, 2048)
    return decode_text(data, declared[1].decode("ascii") if declared else "")


def _utf_16(data: bytes) -> str:
    """Return the form of UTF-16 in which a text with many zero bytes seems to be; "" if in none."""
    sample = data[:_SAMPLE]
    even, odd = (sample[i::2].count(0) / max(1, len(sample[i::2])) for i in (0, 1))
    if min(even, odd) > _FEW or max(even, odd) < _MANY:
        return ""
    return "utf-16-le" if odd > even else "utf-16-be"
