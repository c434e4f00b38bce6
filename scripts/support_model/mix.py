"""Write the mean of two trained weights: what a new stage learnt beside what it forgot of the one that it began with.

    python -m scripts.support_model.mix NEW OLD OUT --share 0.6 [--keep-words]

With `--keep-words`, the vectors of the tokenizer's pieces are those of NEW, which `export` can store in four bits.
"""

import argparse
from pathlib import Path

from transformers import AutoModelForSequenceClassification


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("new", "old", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--share", type=float, required=True, help="of the new weights")
    parser.add_argument("--keep-words", action="store_true")
    a = parser.parse_args()
    new, old = (AutoModelForSequenceClassification.from_pretrained(path) for path in (a.new, a.old))
    earlier = old.state_dict()
    mixed = {name: a.share * one + (1 - a.share) * earlier[name] for name, one in new.state_dict().items()}
    words = new.get_input_embeddings().weight.detach().clone()
    new.load_state_dict(mixed)
    if a.keep_words:
        new.get_input_embeddings().weight.data = words
    new.save_pretrained(a.out)


if __name__ == "__main__":
    main()
