"""The source of local files.

definition      its configuration keys
discovery       finds the files of a configuration, and those of one task
identity        tells whether the file at a path is the one whose position is stored
complete_files  reads files that do not grow, one after the other, and cleans them up
cleanup         deletes or moves files whose records are all stored
rotation        the names of rotated files
growing_files   follows a log that grows, through its rotations
task            the task, in either mode
connector       the connector, which gives each task its share
"""
