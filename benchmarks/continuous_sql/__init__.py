"""The SQL server under load: what its queries read a second, and how long rows take through them."""
