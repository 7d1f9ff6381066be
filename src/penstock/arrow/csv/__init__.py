"""Convert columns of CSV lines to Arrow and back; only code specific to CSV belongs here."""
