"""Times as Java's `java.time` formats, parses and resolves them, because ksqlDB's patterns are Java's.

`patterns` reads a pattern and has the formatter, whose parts are in `numbers`, `texts` and `zone_texts`.
`moments` has the fields of dates and times. `resolving` makes a date, a time and an instant of parsed fields.
`zones` has time zones, with their names. `lenient_dates` reads the patterns of PARSE_DATE, which is based on
another class in Java.

Java's formatter has a language. ksqlDB formats in the language of the machine, which is American English here
(en_US), and so do PARSE_TIME and STRINGTODATE parse. Timestamps are parsed without a language (Locale.ROOT),
where the name of a month has three letters even for MMMM. The names are those of Java 17.
"""
