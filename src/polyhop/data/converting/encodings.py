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

_OTHER_SCRIPTS = {
    "cp1251": "Windows-1251",
    "koi8_r": "KOI8-R",
    "cp866": "CP866",
    "cp1253": "Windows-1253",
    "cp1255": "Windows-1255",
    "cp1256": "Windows-1256",
    "cp874": "Windows-874",
    "cp932": "Shift-JIS",
    "euc_jp": "EUC-JP",
    "gb18030": "GB 18030",
    "big5": "Big5",
    "euc_kr": "EUC-KR",
}
"""Names of the encodings that are guessed for scripts other than Latin. Among those of Latin letters, a short text is
guessed wrong too often: it is read as Windows-1252."""
_BEYOND_ASCII = bytes(range(0x80, 0x100))
_RUN = re.compile(rb"(?:([\x80-\xff])(?!\1)){3,}")  # not a drawn line, of one byte

_SAMPLE = 4096
_MANY, _FEW = 0.4, 0.05  # shares of zero bytes at the even or odd positions of UTF-16


def decode_text(data: bytes, declared: str = "") -> tuple[str, str]:
    """Decode a text; return it with the name of its encoding if that is a guess, else "".

    >>> decode_text("café".encode()), decode_text("café".encode("cp1252")), decode_text("café".encode("utf-16-le"))
    (('café', ''), ('café', 'Windows-1252'), ('café', 'UTF-16'))
    >>> decode_text("Директор живёт в Казани.".encode("cp1251"))
    ('Директор живёт в Казани.', 'Windows-1251')

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
    guesses = [(_utf_16(data), "UTF-16")]
    if b"\0" not in data:
        other = _of_another_script(data)
        guesses = [(other, _OTHER_SCRIPTS.get(other, "")), ("cp1252", "Windows-1252"), ("latin-1", "Latin-1")]
    for name, guess in guesses:
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


def _of_another_script(data: bytes) -> str:
    """Return the encoding that a text in another script than Latin seems to have; "" if it seems to be in Latin
    letters, of which those beyond ASCII rarely follow each other."""
    beyond_ascii = len(data) - len(data.translate(None, _BEYOND_ASCII))
    if 2 * sum(len(run[0]) for run in _RUN.finditer(data)) < beyond_ascii:
        return ""
    from charset_normalizer import from_bytes

    best = from_bytes(data, cp_isolation=[*_OTHER_SCRIPTS]).best()
    return best.encoding if best and best.encoding in _OTHER_SCRIPTS else ""


def _utf_16(data: bytes) -> str:
    """Return the form of UTF-16 in which a text with many zero bytes seems to be; "" if in none."""
    sample = data[:_SAMPLE]
    even, odd = (sample[i::2].count(0) / max(1, len(sample[i::2])) for i in (0, 1))
    if min(even, odd) > _FEW or max(even, odd) < _MANY:
        return ""
    return "utf-16-le" if odd > even else "utf-16-be"
