"""The public API for connectors: tasks, connectors around them, and what the worker offers to them.

A subclass of `SourceTask` or `SinkTask` does the work. A `Connector` class splits the work between several
tasks, or checks configurations further. The contexts are protocols that a worker implements.

A complete source:

    from pathlib import Path

    from penstock.connect import ConfigDef, ConfigType, SourceRecord, SourceTask

    class LinesOfFile(SourceTask):
        '''Sends each line of a file that grows, exactly once.'''

        definition = (
            ConfigDef()
            .define("file", ConfigType.STRING, doc="The file to follow.")
            .define("topic", ConfigType.STRING, doc="The topic that gets its lines.")
        )
        exactly_once = True

        def start(self, config):
            self.topic = config["topic"]
            self.partition = {"file": config["file"]}
            self.file = Path(config["file"]).open("rb")
            stored = self.context.offset(self.partition)
            self.file.seek(stored["position"] if stored else 0)

        def poll(self):
            records = []
            while (line := self.file.readline()).endswith(b"\\n"):
                records.append(self.record(line))
            self.file.seek(-len(line), 1)  # the writer has not finished this line
            return records

        def record(self, line):
            return SourceRecord(
                topic=self.topic,
                value=line[:-1].decode(),
                source_partition=self.partition,
                source_offset={"position": self.file.tell()},
            )

        def stop(self):
            self.file.close()

Nothing here knows a worker, a topic's bytes or other plugins.
"""
