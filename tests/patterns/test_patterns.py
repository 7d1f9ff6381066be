"""Patterns of clients: they match as in `re` where both have a feature, but in linear time."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.patterns import Pattern, PatternError

ATOMS = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\W", "", "^", "$"])


def composed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("({}|{})".format, inner, inner),
        st.builds("(?:{}){}".format, inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"])),
    )


@settings(max_examples=600)
@given(st.recursive(ATOMS, composed, max_leaves=12), st.lists(st.text("abc1\n", max_size=8), min_size=1))
def test_it_fits_what_python_fits(pattern: str, texts: list[str]) -> None:
    ours = Pattern(pattern)
    # Python's $ also matches before a final newline; here, as in RE2, it matches only at the end.
    theirs = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    for text in texts:
        assert ours.fullmatch(text) is (theirs.fullmatch(text) is not None), text


@settings(max_examples=600)
@given(st.recursive(ATOMS, composed, max_leaves=12), st.lists(st.text("abc1\nü", max_size=8), min_size=1))
def test_it_replaces_what_python_finds(pattern: str, texts: list[str]) -> None:
    ours = Pattern(pattern, captures=True)
    theirs = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    assert ours.group_count == theirs.groups
    for text in texts:
        replaced = ours.replace_all(text, lambda groups: f"<{groups[0]}>")
        assert replaced == replaced_as_in_java(theirs, text), text


def replaced_as_in_java(pattern: re.Pattern[str], text: str) -> str:
    """Unlike `re.sub`, Java looks for no second match where an empty one is."""
    parts: list[str] = []
    copied = at = 0
    while at <= len(text) and (match := pattern.search(text, at)):
        parts += text[copied : match.start()], f"<{match[0]}>"
        copied = match.end()
        at = match.end() + (match.end() == match.start())
    return "".join(parts) + text[copied:]


def test_replacements_are_given_groups() -> None:
    pattern = Pattern("(a)|(?P<word>[ü🙂]+)", captures=True)
    found: list[object] = []
    assert pattern.replace_all("aü🙂-a", lambda groups: found.append(groups) or "") == "-"
    assert found == [("a", "a", None), ("ü🙂", None, "ü🙂"), ("a", "a", None)]
    assert pattern.group_names == {"word": 2}


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        ("app-.*", ["app-", "app-1"], ["app", "my-app-1"]),
        ("(?i)App[a-c]", ["aPPB"], ["appd"]),
        (".", ["ü", "🙂"], ["\n", "", "ab"]),
        ("(?s).", ["\n"], [""]),
        (r"a\.b\x41\x{1F642}\t", ["a.bA🙂\t"], ["axbA🙂\t"]),
        ("[]a-]+", ["]a-"], ["b"]),
        (r"[\d\-x-]+", ["1-x"], ["y"]),
        ("[[:alpha:]_]+", ["a_Z"], ["a1"]),
        ("(?P<n>a)(?<m>b)(?:c)", ["abc"], ["ab"]),
        ("a{2,3}", ["aa", "aaa"], ["a", "aaaa"]),
        ("a{,3}", ["a{,3}"], ["aaa"]),
        (r"\Aa\z", ["a"], ["aa"]),
        ("", [""], ["a"]),
        ("a||b", ["a", "", "b"], ["ab"]),
    ],
)
def test_what_fits(pattern: str, fits: list[str], does_not: list[str]) -> None:
    compiled = Pattern(pattern)
    assert [text for text in fits if not compiled.fullmatch(text)] == []
    assert [text for text in does_not if compiled.fullmatch(text)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "(",
            "a)",
            "[a",
            "*",
            "a**",
            "a{2}{3}",
            "a{3,2}",
            "a{1001}",
            "(?=a)",
            r"(a)\1",
            "[b-a]",
            "\\",
        ),
        *("((a{100}){100}){100}", r"\x{110000}", "(?<!a)b", "[[:nothing:]]", "(" * 50_000),
    ],
)
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(.*)*x(.*)*y", "(a?){500}a{500}"])
def test_no_text_takes_for_ever(pattern: str) -> None:
    """Python's `re` would take forever on these texts."""
    assert not Pattern(pattern).fullmatch("a" * 300)


def test_many_states_fit_into_the_memory_of_a_pattern() -> None:
    pattern = Pattern("(a|b)*a(a|b){14}")
    for number in range(2_000):
        pattern.fullmatch(f"{number:020b}".translate(str.maketrans("01", "ab")))
    assert pattern.fullmatch("b" * 30 + "a" + "b" * 14)


def test_a_pattern_may_be_nested_deeply() -> None:
    assert Pattern("(" * 50_000 + ")" * 50_000).fullmatch("")


def test_json_may_contain_lone_surrogates() -> None:
    assert Pattern("a.*").fullmatch("a\ud800")
    assert Pattern("\ud800").fullmatch("\ud800")
