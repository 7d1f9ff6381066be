"""The demo: a year of real flights through a streams application, and the proof that the result is right."""
