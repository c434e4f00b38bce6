"""Answers without a model: a question and sources in, quotes with markers out.

1. `question.read_question` finds the terms of the question: "What does the saw weigh?" has `saw` and `weigh`.
2. `block_reader` and `sentences` split the text of each source into sentences.
3. `candidates` matches each sentence with the terms, and `scoring` turns the matches into scores.
4. `selection.choose_by_words` chooses a few sentences. With models, `reranking.choose_by_models` may choose others.
5. `selection.make_quotes` orders the chosen sentences, and `rendering` writes them as Markdown. For a report,
   `report_passages` chooses whole passages, and `report` divides them among its sections.

`named_document` answers a question that only names a document, `row_questions` a question about the rows of a whole table, and
`named_rows` and `named_cells` a question that names a row.
"""
