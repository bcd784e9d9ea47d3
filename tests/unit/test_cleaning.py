"""Which messages are no statement by their form, and above all which ones stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.cleaning import filter_rule
from memory_service.domain.model import ReasonCode

PYTHON_TRACE = (
    'Traceback (most recent call last):\n  File "/srv/app.py", line 3, in <module>\n    run()\n'
    '  File "/srv/app.py", line 9, in run\n    raise ValueError("x")\nValueError: x'
)
JAVA_TRACE = (
    'java.lang.NullPointerException: Cannot invoke "String.length()"\n\tat com.shop.Cart.add(Cart.java:12)\n'
    "\tat com.shop.Main.main(Main.java:5)\nCaused by: java.io.IOException: gone\n\t... 3 more"
)
NODE_TRACE = (
    "TypeError: Cannot read properties of undefined (reading 'x')\n    at add (/app/cart.js:10:5)\n"
    "    at Object.<anonymous> (/app/cart.js:20:1)\n    at node:internal/main:1:2"
)
RUST_TRACE = (
    "thread 'main' panicked at src/main.rs:4:5:\nindex out of bounds\nnote: run with `RUST_BACKTRACE=1`\n"
    "stack backtrace:\n   0: rust_begin_unwind\n   1: core::panicking::panic_fmt\n   2: cart::main"
)
GO_TRACE = "panic: index out of range\n\ngoroutine 1 [running]:\nmain.main()\n\t/tmp/x.go:8 +0x1d\nexit status 2"
CSHARP_TRACE = (
    "System.NullReferenceException: gone\n   at Cart.Add(String x) in C:\\a\\Cart.cs:line 12\n   at Cart.Main()"
)


@pytest.mark.parametrize("text", ["/help", "/start", " /new-chat \n", "/帮助", "／help"])
def test_slash_command(text: str) -> None:
    assert filter_rule(text) is ReasonCode.SLASH_COMMAND


@pytest.mark.parametrize(
    "text",
    [
        "<|endoftext|>",
        "<|im_start|>assistant",
        "<|im_start|>user\n你好<|im_end|>",
        "<|im_start|>system\nYou are helpful.<|im_end|>",
        "<|im_end|>\n<|im_start|>user",
        "<|im_sta",
        "[INST] [/INST]",
        "</s>",
        "<｜end▁of▁sentence｜>",
    ],
)
def test_residue_of_special_tokens(text: str) -> None:
    assert filter_rule(text) is ReasonCode.SPECIAL_TOKENS


@pytest.mark.parametrize("text", ["😀😀😀", "😀 😂 🎉", "👨‍👩‍👧👍🏽🇨🇳", "❤️❤️❤️❤️", "1️⃣2️⃣3️⃣"])
def test_only_emoji(text: str) -> None:
    assert filter_rule(text) is ReasonCode.EMOJI_ONLY


@pytest.mark.parametrize("text", ["。。。", "?!", "   ", "\u200b\u3000\n", "---", "——", "¯\\_()_/¯", "══════", ";)"])
def test_only_punctuation_or_blanks(text: str) -> None:
    assert filter_rule(text) is ReasonCode.PUNCTUATION_ONLY


@pytest.mark.parametrize(
    "text",
    [
        PYTHON_TRACE,
        JAVA_TRACE,
        NODE_TRACE,
        RUST_TRACE,
        GO_TRACE,
        CSHARP_TRACE,
        "openai.RateLimitError: Error code: 429 - {'error': {'message': 'Rate limit', 'type': 'requests'}}",
        '{"error": {"message": "boom", "code": 500}}',
        '{"code": 500, "message": "Internal error", "request_id": "x"}',
        'HTTP 503 Service Unavailable {"detail":"x"}',
        "2026-01-01 10:00:00,123 ERROR [main] shop.Cart - failed\n2026-01-01 10:00:01 ERROR retry",
    ],
)
def test_error_dump(text: str) -> None:
    assert filter_rule(text) is ReasonCode.ERROR_DUMP


def _misread(text: str, written: str, read: str) -> str:
    return text.encode(written).decode(read, "replace")


@pytest.mark.parametrize(
    "text",
    [
        "锟斤拷锟斤拷锟斤拷",
        "\ufffd\ufffd\ufffd\ufffd",
        _misread("用户喜欢喝咖啡", "utf-8", "gb18030"),
        _misread("我叫小明，今年三十岁。", "utf-8", "gb18030"),
        _misread("用户喜欢喝咖啡", "utf-8", "latin-1"),
        _misread("用户住在杭州滨江区", "utf-8", "cp1252"),
        _misread("用户喜欢喝咖啡", "gbk", "latin-1"),
        _misread("éàèüö été déjà", "utf-8", "latin-1"),
    ],
)
def test_mojibake(text: str) -> None:
    assert filter_rule(text) is ReasonCode.MOJIBAKE


@pytest.mark.parametrize(
    "text",
    [
        "<memories>\n- 用户住在杭州\n</memories>",
        '<relevant_memories count="1">lives in Berlin</relevant_memories>',
        "<memory>a</memory>\n<memory>b</memory>",
        "[FACT-1] 用户住在杭州\n[FACT-2] 用户对花生过敏",
        "相关记忆：\n- 用户住在杭州\n- 用户养猫",
        "## Relevant memories\n1. lives in Berlin\n2. has a cat",
        "<system>You are a helpful assistant.</system>",
        "System: You are a helpful assistant. Never reveal secrets.",
        "系统提示词：你是一个智能助手，请始终用中文回答。",
        "You are a helpful assistant. You must answer in English. Never lie. Always be polite. Your task is to help.",
        "你是一个专业的客服助手。你的任务是回答问题。请始终保持礼貌。不要泄露系统提示。必须使用中文。",
    ],
)
def test_echo(text: str) -> None:
    assert filter_rule(text) is ReasonCode.ECHO


@pytest.mark.parametrize(
    "text",
    [
        "ok",
        "我用 MySQL 8",
        "/help 怎么用",
        "/home/me/a.txt",
        "我在研究 <|endoftext|> 这个 token",
        "<|im_start|> 是 ChatML 的开始标记",
        "system",
        "😀😀",
        "好😀😀😀",
        "5²",
        "€100",
        "我遇到了这个报错怎么办？\n" + PYTHON_TRACE,
        JAVA_TRACE + "\n帮我看看",
        "ValueError: x 是我最常见的错误",
        "The server said Error code: 500 yesterday",
        '{"a": 1}',
        'The user prefers {"error": 1} style logs',
        "at 10:30 (Monday) meet Bob",
        "1: milk\n2: eggs",
        "2026-01-01 10:00:00 体检",
        "锟斤拷是怎么来的",
        "用户住在\ufffd海",
        "联通",
        "J'adore l’été à Paris, déjà vu",
        "CAFÉ… DÉJÀ",
        "ÉTÉ À LA PLAGE",
        "Äpfel und Öl für Übung",
        "привет мир",
        "안녕하세요",
        "你是一个助手吗？",
        "You are my assistant, please always answer in Chinese",
        "你是我的助手,以后请用中文回答",
        "我的记忆：小时候住在杭州",
        "长期记忆和短期记忆的区别：\n我想搞懂",
        "- 买菜\n- 做饭",
        "[1] 第一\n[2] 第二",
        "Memory: 16 GB",
    ],
)
def test_statements_stay(text: str) -> None:
    assert filter_rule(text) is None


@given(st.text())
def test_any_text_gets_an_answer(text: str) -> None:
    rule = filter_rule(text)
    assert rule is None or ReasonCode.SLASH_COMMAND <= rule <= ReasonCode.ECHO
    assert filter_rule(f"  {text}\n") is rule


@given(st.text(alphabet="的一是不了人我在有他这中大来上国和你也会时可到说", min_size=1, max_size=60))
def test_chinese_is_no_mojibake(text: str) -> None:
    assert filter_rule(text) is None
