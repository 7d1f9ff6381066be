"""Write the generated cases again: `python tests/sql/freeze_cases.py`. The oracle gives the expectations."""

import sys

from record_cases import RECORDS, written
from record_generator import KINDS, generated, with_outputs
from record_runner import oracle_of

CASES_OF_A_KIND = 18
RECORDS_OF_A_CASE = 6


def frozen(kind: str) -> str:
    """The first cases, in order of seeds, whose queries write enough records to be useful."""
    texts: list[str] = []
    seed = 0
    while len(texts) < CASES_OF_A_KIND:
        case = generated(kind, seed, RECORDS_OF_A_CASE)
        outputs = oracle_of(case)
        if len(outputs) >= 2:
            texts.append(written(with_outputs(case, outputs)).replace(f"generated: {kind} ", "seed "))
        seed += 1
    return f"row: {KINDS[kind][1]}\n\n" + "\n".join(texts)


def main() -> int:
    folder = RECORDS / "generated"
    folder.mkdir(exist_ok=True)
    for kind in KINDS:
        (folder / f"{kind}.txt").write_text(frozen(kind))
    return 0


if __name__ == "__main__":
    sys.exit(main())
