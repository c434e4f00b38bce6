"""Train the answer model: a cross-encoder that reads a question and a sentence, and says whether the sentence answers.

    python -m scripts.support_model.train_answers GROUPS.jsonl.gz… TOKENIZER START OUT --steps 900 [--level]

A batch has sixteen questions, each with at most two right sentences and seven wrong ones, most of them near the question. The
loss is the sum of two: whether each sentence answers, and which one of a question's sentences does. START is what
`answer_base` wrote, or an earlier stage. The vectors of the pieces are rounded to four bits and stay as they are, so `export`
can store them so. The model computes in bfloat16, which a processor with AMX does twice as fast; the weights are kept as floats.
With `--floats` it computes in floats, which is faster on other processors.
"""

import argparse
import gzip
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoModelForSequenceClassification

TOKENS: Final = 112
QUESTION_CHARS: Final = 400
QUESTIONS: Final = 16  # of a batch
RIGHT, WRONG = 2, 7  # sentences of a question, at most
OF_OTHERS: Final = 2  # at least so many of the wrong ones are from other passages, if there are so many
CHUNK: Final = 32  # pairs of similar length that are read at once
SMOOTHING: Final = 0.02
RIGHT_WEIGHT: Final = 2.0  # there is one right sentence to six wrong ones
OTHER_WEIGHT: Final = 0.5  # a sentence of another passage may answer by chance
CHOICE_WEIGHT: Final = 0.5
KEPT_MEAN: Final = 0.99  # of the running mean of the weights, which is what is written
PRINTED_EVERY: Final = 50  # steps
BLOCK: Final = 32  # numbers of four bits with one scale

Batch = TypeVar("Batch")


@dataclass(frozen=True)
class Pair:
    tokens: Sequence[int]
    types: Sequence[int]
    answers: bool
    is_own: bool


def read_groups(paths: Sequence[Path], tokenizer: Tokenizer) -> list[list[Pair]]:
    """Return the pairs of each question, the nearest sentence first."""
    groups = []
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                asked = row["question"][:QUESTION_CHARS]
                encoded = tokenizer.encode_batch([(asked, one["text"]) for one in row["sentences"]])
                told = zip(encoded, row["sentences"], strict=True)
                groups.append([Pair(e.ids, e.type_ids, one["answers"], one["is_own"]) for e, one in told])
    return groups


def draw_pairs(group: Sequence[Pair], drawn: np.random.Generator) -> list[Pair]:
    """Return right and wrong sentences of a question. The nearer a wrong one is, the likelier it is drawn."""

    def draw(among: Sequence[int], count: int) -> list[Pair]:
        odds = np.array([(1 + place) ** -0.5 for place in among])
        count = min(count, len(among))
        return [group[at] for at in drawn.choice(among, count, replace=False, p=odds / odds.sum())] if count > 0 else []

    right = [at for at, one in enumerate(group) if one.answers]
    own = [at for at, one in enumerate(group) if not one.answers and one.is_own]
    others = [at for at, one in enumerate(group) if not one.answers and not one.is_own]
    wrong = draw(own, WRONG - OF_OTHERS)
    return [*(group[at] for at in drawn.permutation(right)[:RIGHT]), *wrong, *draw(others, WRONG - len(wrong))]


def draw_batches(groups: Sequence[Sequence[Pair]], seed: int, questions: int = QUESTIONS) -> Iterator[list[list[Pair]]]:
    drawn = np.random.default_rng(seed)
    waiting: list[int] = []
    while True:
        while len(waiting) < questions:
            waiting += drawn.permutation(len(groups)).tolist()
        yield [draw_pairs(groups[waiting.pop(0)], drawn) for _ in range(questions)]


def pad(pairs: Sequence[Pair]) -> dict[str, torch.Tensor]:
    length = -(-max(len(one.tokens) for one in pairs) // 8) * 8
    ids = np.zeros((len(pairs), length), dtype=np.int64)
    types, mask = np.zeros_like(ids), np.zeros_like(ids)
    for row, one in enumerate(pairs):
        count = len(one.tokens)
        ids[row, :count], types[row, :count], mask[row, :count] = one.tokens, one.types, 1
    return {
        name: torch.from_numpy(one)
        for name, one in (("input_ids", ids), ("token_type_ids", types), ("attention_mask", mask))
    }


def read_scores(model: Any, pairs: Sequence[Pair]) -> torch.Tensor:
    """Return the log-odds of the pairs, a column for each head. Pairs of similar length are read together."""
    order = sorted(range(len(pairs)), key=lambda at: len(pairs[at].tokens))
    read = [
        model(**pad([pairs[at] for at in order[first : first + CHUNK]])).logits.float()
        for first in range(0, len(order), CHUNK)
    ]
    places = torch.empty(len(order), dtype=torch.long)
    places[torch.tensor(order)] = torch.arange(len(order))
    return torch.cat(read)[places]


def measure_loss(scores: torch.Tensor, batch: Sequence[Sequence[Pair]]) -> torch.Tensor:
    """Return the loss of the scores of all sentences of a batch, in their order."""
    pairs = [one for group in batch for one in group]
    right = torch.tensor([float(one.answers) for one in pairs])
    weights = torch.tensor([1.0 if one.is_own else OTHER_WEIGHT for one in pairs]) * (1 + (RIGHT_WEIGHT - 1) * right)
    wanted = right * (1 - 2 * SMOOTHING) + SMOOTHING
    loss: torch.Tensor = torch.nn.functional.binary_cross_entropy_with_logits(scores, wanted, weight=weights)
    choices, first = [], 0
    for group in batch:
        own, is_right = scores[first : first + len(group)], right[first : first + len(group)] > 0
        first += len(group)
        if is_right.any():
            choices.append(torch.logsumexp(own, 0) - torch.logsumexp(own[is_right], 0))
    return loss + CHOICE_WEIGHT * torch.stack(choices).mean() if choices else loss


def round_to_four_bits(words: torch.Tensor) -> torch.Tensor:
    """Return the vectors of the pieces as `export` can store them."""
    blocks = words.reshape(len(words), -1, BLOCK)
    largest = blocks.gather(-1, blocks.abs().argmax(-1, keepdim=True))
    scales = torch.where(largest == 0, 1, largest / -8)
    return ((blocks / scales).round().clamp(-8, 7) * scales).reshape(words.shape)


class FloatCopies:
    """Float copies of the parameters that are trained in bfloat16, and their running means."""

    def __init__(self, model: Any, start: Path) -> None:
        stored = load_file(start / "model.safetensors")
        named = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
        self.names, self.parameters = [name for name, _ in named], [one for _, one in named]
        self.floats = [
            stored[name].clone() if name in stored and stored[name].shape == one.shape else one.detach().float()
            for name, one in named
        ]
        self.means = [one.clone() for one in self.floats]

    def take_gradients(self) -> None:
        for one, copy in zip(self.parameters, self.floats, strict=True):
            copy.grad, one.grad = None if one.grad is None else one.grad.float(), None

    def give_values(self) -> None:
        with torch.no_grad():
            for one, copy in zip(self.parameters, self.floats, strict=True):
                one.copy_(copy)

    def add_to_means(self) -> None:
        with torch.no_grad():
            for mean, copy in zip(self.means, self.floats, strict=True):
                mean.lerp_(copy, 1 - KEPT_MEAN)


def save(model: Any, copies: FloatCopies, words: torch.Tensor, out: Path) -> None:
    state = {name: value.detach().float().clone() for name, value in model.state_dict().items()}
    state |= {name: mean.clone() for name, mean in zip(copies.names, copies.means, strict=True)}
    (name,) = (name for name in state if name.endswith("word_embeddings.weight"))
    state[name] = words
    out.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(out)
    save_file(state, out / "model.safetensors", metadata={"format": "pt"})


def rate_at(step: int, steps: int, *, is_level: bool) -> float:
    warm = 40 if is_level else max(1, steps // 15)
    if step < warm or is_level:
        return min(1.0, (step + 1) / warm)
    return 0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))


class Training:
    """A model, in bfloat16 or floats, with its optimizer. The pieces of the tokenizer keep their vectors, rounded to four bits.

    `rates` returns the share of the rate at each step.
    """

    def __init__(
        self, model: Any, start: Path, rate: float, rates: Callable[[int], float], dtype: torch.dtype = torch.bfloat16
    ) -> None:
        pieces = model.get_input_embeddings().weight.requires_grad_(False)
        pieces.copy_(round_to_four_bits(pieces))
        self._words = pieces.detach().clone()
        self._copies = FloatCopies(model, start)
        self.model = model.to(dtype)
        self._optimizer = torch.optim.AdamW(self._copies.floats, lr=rate, weight_decay=0.01, fused=True)
        self._schedule = torch.optim.lr_scheduler.LambdaLR(self._optimizer, rates)

    def run(self, batches: Iterable[Batch], steps: int, measure: Callable[[Batch], Sequence[torch.Tensor]]) -> None:
        """Learn from one batch a step. `measure` returns the losses of a batch, whose sum is made smaller.

        Prints the mean of each loss every PRINTED_EVERY steps.
        """
        began, printed = time.monotonic(), []
        for step, batch in zip(range(1, steps + 1), batches, strict=False):
            losses = measure(batch)
            self._take_step(torch.stack(tuple(losses)).sum(), counts=step > steps // 10)
            printed.append([loss.item() for loss in losses])
            if step % PRINTED_EVERY == 0:
                print(
                    f"{step} steps, {time.monotonic() - began:.0f} s, loss {np.mean(printed, 0).round(3)}", flush=True
                )
                printed.clear()

    def _take_step(self, loss: torch.Tensor, *, counts: bool) -> None:
        """Learn from a loss. If it `counts`, the weights are added to the running means, which `save` writes."""
        loss.backward()
        self._copies.take_gradients()
        torch.nn.utils.clip_grad_norm_(self._copies.floats, 1.0)
        self._optimizer.step()
        self._schedule.step()
        self._copies.give_values()
        if counts:
            self._copies.add_to_means()

    def save(self, out: Path) -> None:
        save(self.model, self._copies, self._words, out)


def add_arguments(parser: argparse.ArgumentParser, *, steps: int, rate: float) -> None:
    """Add what all trainings of English take after their pairs."""
    for name in ("tokenizer", "start", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--rate", type=float, default=rate)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--floats", action="store_true", help="compute in floats, not in bfloat16")


def load_tokenizer(path: Path, strategy: str, tokens: int = TOKENS) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(tokens, strategy=strategy)
    return tokenizer


def load_model(start: Path, heads: int) -> Any:
    return AutoModelForSequenceClassification.from_pretrained(
        start, num_labels=heads, ignore_mismatched_sizes=True, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, attn_implementation="eager",
    ).train()  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", type=Path, nargs="+")
    add_arguments(parser, steps=900, rate=5e-5)
    parser.add_argument("--level", action="store_true", help="keep the rate, because another stage follows")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of a pair: 128 for the model of several languages")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    groups = read_groups(a.groups, load_tokenizer(a.tokenizer, "only_second", a.tokens))
    print(f"{len(groups)} questions, {sum(map(len, groups))} pairs", flush=True)
    dtype = torch.float32 if a.floats else torch.bfloat16
    training = Training(
        load_model(a.start, 1), a.start, a.rate, lambda step: rate_at(step, a.steps, is_level=a.level), dtype
    )

    def measure(batch: Sequence[Sequence[Pair]]) -> Sequence[torch.Tensor]:
        scores = read_scores(training.model, [one for group in batch for one in group])
        return [measure_loss(scores[:, 0], batch)]

    training.run(draw_batches(groups, a.seed), a.steps, measure)
    training.save(a.out)


if __name__ == "__main__":
    main()
