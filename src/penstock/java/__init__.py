"""Java's library in Python, as far as Kafka's formats, orders and texts depend on it.

    strings      hash codes, lengths and the order of strings
    numbers      casts, rounding and texts of numbers
    hash_order   the order in which HashMap and HashSet iterate
    patterns     regular expressions of java.util.regex (needs the package `regex`)
    replacements replacements for their matches
    calendar     the fields of GregorianCalendar
    dates        the texts of dates by the patterns of SimpleDateFormat

A module enters this package if it repeats the behaviour of a class of the JDK, whoever needs it.
"""
