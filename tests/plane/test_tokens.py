"""Texts that begin alike are encoded as if each were encoded whole, whatever stands where they part."""

import logging

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from solarjax.plane.placement import tokens

# Patterns after those of three families of models; the third has digits one by one.
FORWARD = {
    "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "llama3": pre_tokenizers.Sequence([
        pre_tokenizers.Split(
            Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                  r"\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]),
    "digits": pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False),
    ]),
}  # fmt: skip
OTHERS = {
    "a piece depends on what is before it": pre_tokenizers.Split(Regex(r"(?<=\s)\S+"), "isolated"),
    "the beginning is special": pre_tokenizers.Metaspace(prepend_scheme="first"),
    "a blank is put in front": pre_tokenizers.ByteLevel(add_prefix_space=True),
}
WORDS = ["the memory says", " that", "it's", "we'll", "12", "345", ".", "?!", "...", "é€", "\n", "\n\n", " ", "    ",
         "\t", "<|end|>", "<|e", "'", "'l", "x"]  # fmt: skip
COMMON = "<|end|>Memory:\n[fact v1] the memory says that we'll need 12345 of it.\n[other v2] it's so, is it?   \n  x "


def made(step):
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = step
    trainer = BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, special_tokens=[]
    )
    tokenizer.train_from_iterator([COMMON, "".join(WORDS), "time and time"] * 3, trainer)
    tokenizer.add_special_tokens([AddedToken("<|end|>", normalized=False)])
    return tokenizer


@pytest.fixture(scope="module", params=FORWARD)
def tokenizer(request):
    return made(FORWARD[request.param])


endings = st.lists(st.sampled_from(WORDS), max_size=12).map("".join)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(first=endings, second=endings, repeats=st.integers(1, 3))
@example(first=" \n   y", second=" \n   \ny", repeats=2)
@example(first="'tis" * 12 + "b", second="'tis" * 12 + "c", repeats=1)
@example(first="'tis" * 12 + "ab", second="'tis" * 12 + "ac", repeats=1)
@example(first="'tis" * 12 + "'ab", second="'tis" * 12 + "'ac", repeats=1)
@example(first="'tis" * 12 + "'tab", second="'tis" * 12 + "'tac", repeats=1)
@example(first=" \n" + " " * 40 + "y", second=" \n" + " " * 40 + "\ny", repeats=1)
@example(first="<|e", second="<|end|>", repeats=2)
@example(first="'lx", second="'ll", repeats=2)
def test_sharing_changes_no_token_and_no_end(tokenizer, first, second, repeats):
    encoder = tokens.SharedBeginnings(tokenizer)
    encoder._compared = tokens._COMPARED  # no second look that would put it right
    for text in (COMMON * repeats + first, COMMON * repeats + second):
        ids, ends = encoder.encode(text)
        whole = tokenizer.encode(text, add_special_tokens=False)
        assert ids == whole.ids and list(ends) == [end for _, end in whole.offsets]
        assert len(ends) == len(ids) and ends[len(ids) - 1] == ends[-1]


def test_what_is_shared_is_not_encoded_again(tokenizer):
    class Counting:
        seen = 0

        def to_str(self):
            return tokenizer.to_str()

        def encode(self, text, **options):
            Counting.seen += len(text)
            return tokenizer.encode(text, **options)

    encoder = tokens.SharedBeginnings(Counting())
    encoder._compared = tokens._COMPARED
    for number in range(20):
        encoder.encode(COMMON * 20 + f"Question {number}?")
    assert Counting.seen < 2 * len(COMMON * 20), "once, and then the ends"
    for number in range(200):  # and it does not grow with what was seen
        encoder.encode(f"{number} {COMMON * 2}")
    assert len(encoder._known) == tokens._KEPT


@pytest.mark.parametrize("name", OTHERS)
def test_tokenizers_of_another_kind_encode_whole_texts(name, caplog):
    tokenizer = made(OTHERS[name])
    encoder = tokens.SharedBeginnings(tokenizer)
    assert not encoder.shares
    encoder.shares = True  # as if its definition had been misread
    with caplog.at_level(logging.WARNING, logger="solarjax.plane.placement"):
        for text in (COMMON * 3 + " the memory says", COMMON * 3 + " that 12 it's x"):
            assert encoder.encode(text)[0] == tokenizer.encode(text, add_special_tokens=False).ids
    assert encoder.shares == (not caplog.records), "a difference ends it"
