"""Word count: how often each word has occurred so far, updated with every line.

To run it beside a node:

    penstock topic create lines
    penstock topic create word-counts
    penstock streams run examples/word_count.py &
    echo 'to be or not to be' | penstock produce lines
    penstock consume word-counts --from-beginning --key
"""

import re

from penstock.streams import App, json, string

app = App("word-count", key=string, value=string)

words = app.stream("lines").flat_map_values(lambda line: re.findall(r"[\w']+", line.lower()))
counts = words.group_by(lambda _, word: word).count(store="counts")
counts.to_stream().to("word-counts", value=json)
