"""`python -m penstock.cli.child COMMAND ARGS`: run `penstock COMMAND ARGS` until the parent process ends."""

from penstock.cli.main import main
from penstock.processes.children import end_with_parent


def run() -> None:
    """Run the command in `sys.argv`."""
    end_with_parent()
    main()


if __name__ == "__main__":
    run()
