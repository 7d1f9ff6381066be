"""How Penstock serves HTTP: whoever has an application for starlette's kind of server runs it with this."""
