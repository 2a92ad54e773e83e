"""A campaign of single faults, then a storm of many commands at once. `make faults` runs both."""

from __future__ import annotations

import argparse
import os
import random
import sys

from bench.faults import campaign, storm


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few faults of each kind, no storm")
    parser.add_argument("--seed", type=int, default=None, help="to do the same again")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--only", default="", help="kinds or names that contain this; `storm`")
    parser.add_argument(
        "--storm", type=float, default=storm.SECONDS, metavar="SECONDS", help="how long it lasts"
    )
    args = parser.parse_args()
    seed = random.randrange(1 << 30) if args.seed is None else args.seed
    is_well = True
    if args.only != "storm":
        is_well = campaign.run(args.quick, seed, args.workers, args.only)
    if args.only == "storm" or not (args.quick or args.only):
        is_well = storm.run(args.storm, seed) and is_well
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
