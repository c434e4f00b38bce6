"""Write the mean of two trained weights: what a new stage learnt beside what it forgot of the one that it began with.

python -m scripts.support_model.mix NEW OLD OUT --share 0.6
"""

import argparse
from pathlib import Path

from transformers import AutoModelForSequenceClassification


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("new", "old", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--share", type=float, required=True, help="of the new weights")
    a = parser.parse_args()
    new, old = (AutoModelForSequenceClassification.from_pretrained(path) for path in (a.new, a.old))
    earlier = old.state_dict()
    mixed = {name: a.share * one + (1 - a.share) * earlier[name] for name, one in new.state_dict().items()}
    new.load_state_dict(mixed)
    new.save_pretrained(a.out)


if __name__ == "__main__":
    main()
