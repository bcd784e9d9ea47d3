"""One tokenizer for all tests of the assembler."""

import pytest

from assembler_service.adapters.tokenizer import Counter, Tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """The shipped vocabularies."""
    return Tokenizer()


@pytest.fixture(scope="session")
def count(tokenizer: Tokenizer) -> Counter:
    """Counts in o200k_base."""
    return tokenizer.counter()
