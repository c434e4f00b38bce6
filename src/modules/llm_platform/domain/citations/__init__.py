"""Citations: an answer and its sources in, a verdict and a quote for each cited sentence out.

1. `forms` rewrites the citation forms of other authors as markers `[n]`. Answers of our own have markers already.
2. `read.sentences` splits the answer into sentences with the numbers of their sources, and `read.claims` reads a sentence.
3. `compare.alignment` finds the passage of the source that shares most with the claim.
4. `compare.facts` compares numbers, dates, names and denials, and `compare.score` computes a probability from what is shared.
5. `compare.verdicts.judge` decides from both. A support model may decide what is left undecided (`compare.undecided_claims`).
6. `show` prepares the citations for readers.

`checker.CitationChecker` runs steps 2 to 5 for a whole answer.
"""
