"""Settings for the property tests."""

from hypothesis import settings

# A busy machine is no failure: pytest-timeout ends what hangs.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")
