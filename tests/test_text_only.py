from text_only import skeleton

BEFORE = '''
"""A module."""
LIMIT = 3
"""A limit."""

def refuse(name: str) -> None:
    """Refuse it."""
    raise ValueError(f"no {name!r} here: {LIMIT}")  # noqa: TRY003
'''


def test_docstrings_and_comments_are_no_part_of_a_skeleton() -> None:
    after = (
        BEFORE.replace("Refuse it.", "Raise ValueError.")
        .replace("A limit.", "The most.")
        .replace("LIMIT = 3", "# why three\nLIMIT = 3")
    )
    assert skeleton(after) == skeleton(BEFORE)


def test_code_is() -> None:
    assert skeleton(BEFORE.replace("= 3", "= 4")) != skeleton(BEFORE)
    assert skeleton(BEFORE.replace("= 3", "= 4"), without_strings=True) != skeleton(
        BEFORE, without_strings=True
    )


def test_comments_that_tools_read_are() -> None:
    assert skeleton(BEFORE.replace("  # noqa: TRY003", "")) != skeleton(BEFORE)


def test_words_of_strings_are_unless_they_are_left_out() -> None:
    after = BEFORE.replace("no {name!r} here: {LIMIT}", "expected another name than {name!r}, of {LIMIT}")
    assert skeleton(after) != skeleton(BEFORE)
    assert skeleton(after, without_strings=True) == skeleton(BEFORE, without_strings=True)
    other_field = after.replace("{LIMIT}", "{LIMIT + 1}")
    assert skeleton(other_field, without_strings=True) != skeleton(BEFORE, without_strings=True)
