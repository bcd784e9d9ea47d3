"""The summariser's prompts, read from the installation."""

from functools import cache
from importlib.resources import files

from assembler_service.domain.model import Language


@cache
def summary_template(language: Language) -> str:
    """The prompt for a conversation in Chinese, or (for anything else) in English, for `summary_input`."""
    name = "summary_zh.txt" if language is Language.ZH else "summary_en.txt"
    return (files("assembler_service.data") / name).read_text("utf-8")
