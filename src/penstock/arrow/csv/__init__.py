"""Columns of CSV lines to Arrow and back."""
