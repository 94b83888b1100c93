"""The promises about fences (docs/security.md): each form is defused in data, however it is disguised, and what is
none is left as it is."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from polyhop.prompts.show import harmless, one_line

FORMS = [
    # our own fences
    *("<passage>", "</passage>", "<passage 1>", "</passage 1>", "<passage id=1>", "<evidence 2>", "</evidence>"),
    *("<pathway 1>", "</pathway 1>", "</passage", "<passage\n"),
    # control tokens
    *("<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "<|channel|>", "<｜User｜>", "<|", "< | x"),
    *("<s>", "</s>", "<s/>", "<bos>", "<eos>", "<pad>", "<unk>", "<start_of_turn>", "<end_of_turn>"),
    # turns and tools as tags, with attributes or without
    *("<system>", "</system>", "<system/>", "<system role=x>", '<system role="x" y>', "</system foo>", "<system foo>"),
    *("<user>", "<user/>", "<user />", "</user>", "<assistant>", "<developer>", "</developer>", "<developer role=x>"),
    *("<model>", "<human>", "<think>", "</think>", "<think budget=1>", "<thinking>", "</thinking>", "<tool>"),
    *("<thought>", "</thought>", "<reasoning>", "</reasoning>"),
    *("<tools>", "<tool name=x>", "<tools name=x>", "<tool_call>", "</tool_call>", "<tool_call id=1>", "<tool_calls>"),
    *("<tool_response>", "<tool_result>", "<function_call>", "<function_calls>", "<<SYS>>", "<</SYS>>"),
    *("<function=search>", "<parameter=query>"),
    # codes in square brackets
    *("[INST]", "[/INST]", "[ INST ]", "[/ INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]"),
    *("[TOOL_CALLS]", "[TOOL_RESULTS]", "[TOOL_CONTENT]", "[THINK]", "[/THINK]", "[TOOL_REQUEST]"),
    *("[END_TOOL_REQUEST]",),
]
"""One of each form that is promised."""
LEFT = [
    *(
        "<b>",
        "<passages>",
        "<systems>",
        "<users x>",
        "<thinker>",
        "<toolbox>",
        "<function>",
        "a < b and c > d",
        "cout << s;",
    ),
    *("[1]", "[REC]", "[instance]", "[citation needed]", "x[0]", "<https://example.org/system>", "<em>user</em>"),
    *("if (s<t) u>v", "5 < 6", "[sic]", "<sub>", "<strong>", "{system}", "(INST)", "user>", "</p>"),
]
UNSEEN = "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180e\u200b\u200d\u200f\u202a\u202e\u2060\u2064\u2066\u206a"
UNSEEN += "\u206f\u3164\ufe00\ufe0f\ufeff\uffa0\ufff0\U0001bca0\U0001d173\U000e0001\U000e0020\U000e007f\U000e0100"
UNSEEN += "\U000e0fff\x00\x1b\x7f\x85\u00a0\u2003\u3000"
WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
OPENERS = {"<": "‹", "＜": "‹", "﹤": "‹", "[": "⁅", "［": "⁅", "﹇": "⁅"}


def defused(text: str) -> bool:
    """Return True if the bracket of the form, its last opening one, is replaced, and nothing but brackets is."""
    shown = harmless(text)
    last = max(text.rfind(opener) for opener in OPENERS)
    assert [b for a, b in zip(text, shown, strict=True) if a != b] == [
        OPENERS[a] for a, b in zip(text, shown, strict=True) if a != b
    ]
    return shown[last] == OPENERS[text[last]]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_defused_in_every_disguise(form: str) -> None:
    start = max(form.rfind("<"), form.rfind("["))
    disguises = {form, form.upper(), form.lower(), form.translate(WIDE), form.replace("/", "／"), f"a{form} b\nc"}
    disguises |= {form.replace("<", "﹤").replace(">", "﹥"), form.replace("[", "﹇").replace("]", "﹈")}
    for unseen in UNSEEN:
        disguises |= {
            form[: start + 1] + unseen + form[start + 1 :],
            form[: start + 1] + unseen * 3 + form[start + 1 :],
            unseen.join(form),
        }
    for text in disguises:
        assert defused(text), ascii(text)
        assert one_line(harmless(text)) == one_line(text)


@pytest.mark.parametrize("text", LEFT)
def test_other_text_is_unchanged(text: str) -> None:
    assert harmless(text) == text


def test_every_format_character_is_unseen() -> None:
    """The standard library knows the general category Cf: all of it is ignorable but the signs that show."""
    shown = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0xFFF9, 0xFFFC)}
    shown |= set(range(0x13430, 0x13440))
    for code in set(range(sys.maxunicode + 1)) - shown:
        if unicodedata.category(chr(code)) == "Cf":
            assert defused(f"<{chr(code)}/passage>"), hex(code)
