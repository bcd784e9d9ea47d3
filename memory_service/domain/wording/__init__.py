"""Reading short statements in Chinese and English well enough to tell what differs between two of them.

Owns everything below `domain.values`: word lists, notations of numbers and dates, tokens, phrases, and which of the
differences are changes of a state. Pure and self-contained; nothing outside `domain` is known here.
"""
