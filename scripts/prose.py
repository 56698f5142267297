# SPDX-License-Identifier: BSD-2-Clause
"""Sentences that name no actor: the rule of check-style for comments, of check-docs for documents."""
import re

SENTENCE_END = re.compile(r"(?<=[.;:!?])[*_)\"]*\s+")
MARKUP = "*_([\""
PRONOUN = re.compile(r"(What|Whatever|Who|Whoever|Whom|Whose|Those)\b.*(?<!\?)$")
NO_ONE = re.compile(r"\b(nobody|somebody|someone)\b", re.I)


def nameless(words):
    """Of the text of a comment or a paragraph, on one line: the sentences whose subject is a relative
    pronoun, or that speak of no one in particular."""
    for sentence in SENTENCE_END.split(words):
        sentence = sentence.lstrip(MARKUP)
        if PRONOUN.match(sentence) or NO_ONE.search(sentence):
            yield sentence
