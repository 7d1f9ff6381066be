"""`python -m penstock.cli.child COMMAND ARGS`: run `penstock COMMAND ARGS` until the parent process ends.

The parent holds the write end of this process's standard input and writes nothing. When the parent ends in
any way, the read end reports end-of-file and the server shuts down. (`PR_SET_PDEATHSIG` would not work: it
fires when the *thread* that started the child ends.)
"""

import os
import signal
import sys
import threading

from penstock.cli.main import main


def run() -> None:
    """Run the command in `sys.argv`."""
    threading.Thread(target=_stop_at_end_of_input, name="parent-watch", daemon=True).start()
    main()


def _stop_at_end_of_input() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    run()
