"""Functions that the cases make with CREATE FUNCTION."""


def shout(word, times):
    return word.upper() + "!" * times


def parts(word):
    return {"FIRST": word[:1], "REST": word[1:]}
