"""Delivers the batches of a sink task: `lanes` in parallel, `redelivery` only what is still missing."""
