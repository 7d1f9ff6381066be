"""Lists of regular expressions and masks of columns, as all connectors for databases configure them. Pure."""
