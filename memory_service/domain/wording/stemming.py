"""Forms of English words brought together, for comparison only.

Owns the endings of number and tense and the irregular forms that memories are full of. Lighter than the stemmer of the
keyword leg: what it joins is taken for the same word, so it rather joins too little.
"""

from typing import Final

from memory_service.domain.wording.wordlists import classes, words

_IRREGULAR: Final = classes("""
    ride ridden rode; eat eaten ate; drive driven drove; write written wrote; take taken took; break broken broke;
    give given gave; speak spoken spoke; sing sung sang; see seen saw; do done; make made; feed fed; hold held;
    build built; send sent; throw thrown threw; wear worn wore; draw drawn drew; buy bought; go went gone; come came;
    find found; tell told; say said; sell sold; meet met; pay paid; run ran; drink drank drunk; blow blown blew;
    grow grown grew; know known knew; shoot shot; catch caught; teach taught; bring brought; lead led; swim swam;
    spend spent; win won; begin began begun; live lives; use uses; potato potatoes; wolf wolves; knife knives
    """)
PARTICIPLES: Final = words("""
    ridden eaten driven written taken broken given spoken sung seen done made fed held built sent thrown worn drawn
    bought found told sold paid drunk blown grown known shot caught taught brought led spent won begun cut put read
    set hit shut
    """)
"""Participles that do not end in -ed."""


def stem(word: str) -> str:
    """A lower-case Latin word without its endings of number and tense: equal for forms of one word, not itself one."""
    word = _IRREGULAR.get(word, word)
    if len(word) > 4 and word.endswith(("ies", "ied")):
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith(("ss", "us", "is")):
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    return word.removesuffix("e") if len(word) > 3 else word
