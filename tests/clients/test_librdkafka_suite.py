"""The run of librdkafka's tests finds in a test's log whether all its subtests passed."""

from librdkafka_suite import all_passed

BEGUN = "[0126 / 0.0s] [ do_test_first:58: with a file ]\n"
PASSED = "[0126 / 6.0s] [ do_test_first:58: with a file: PASS (6.0s) ]\n"
BEGUN_WITH_BREAK = "[0126 / 6.0s] [ do_test_second:58: with a break\n ]\n"
PASSED_WITH_BREAK = "[0126 / 12.0s] [ do_test_second:58: with a break\n: PASS (6.0s) ]\n"


def test_every_subtest_that_begins_must_pass() -> None:
    assert all_passed(BEGUN + PASSED)
    assert not all_passed(BEGUN)


def test_a_title_may_have_a_line_break() -> None:
    assert all_passed(BEGUN + PASSED + BEGUN_WITH_BREAK + PASSED_WITH_BREAK)
    assert not all_passed(BEGUN + PASSED + BEGUN_WITH_BREAK)


def test_a_run_without_subtests_has_not_passed() -> None:
    assert not all_passed("")
    assert not all_passed("[0126 / 0.0s] Test 0126 PASSED\n")
