"""The words that models put before, beside and instead of questions, in the languages they answer in; all in small letters."""

from __future__ import annotations

from typing import Final


def _phrases(*lines: str) -> frozenset[str]:
    return frozenset(phrase for line in lines for phrase in line.split("|"))


# Before a question, `Question 1:`, and as the key of one.
LABELS: Final = _phrases(
    "question|sub-question|subquestion|sub question|query|sub-query|subquery|sub query|search|search query|topic|subtopic",
    "запрос|подзапрос|поисковый запрос|вопрос|подвопрос|тема|подтема",
    "frage|unterfrage|teilfrage|anfrage|suchanfrage|suche|suchbegriff",
    "sous-question|requête|recherche|sous-requête",
    "pregunta|subpregunta|consulta|búsqueda|subconsulta",
    "domanda|sottodomanda|ricerca|pergunta|subpergunta|pesquisa|vraag|deelvraag|zoekopdracht|zoekvraag",
    "pytanie|podpytanie|zapytanie|питання|підпитання|запит|підзапит|soru|alt soru|sorgu|arama",
    "问题|子问题|查询|子查询|搜索|搜索查询|質問|サブ質問|検索|クエリ|질문|하위 질문|검색|검색어|سؤال|استعلام|प्रश्न|खोज",
)
# As the key of several, or of one where there is no label.
KEYS: Final = LABELS | _phrases(
    "questions|sub-questions|subquestions|sub questions|queries|sub-queries|subqueries|sub queries|searches|search queries",
    "topics|subtopics|plan|items|list|results|q|text|title|запросы|подзапросы|поисковые запросы|вопросы|подвопросы|темы",
    "план|текст|fragen|unterfragen|teilfragen|suchanfragen|requêtes|sous-questions|preguntas|consultas|domande|perguntas",
    "vragen|pytania|zapytania|питання|запити|问题列表|查询列表",
)
# As the key of what is not a question.
BESIDE: Final = _phrases(
    "id|n|no|index|number|lang|language|type|status|reason|reasoning|goal|why|rationale|explanation|purpose|note|notes",
    "comment|comments|aspect|thought|thoughts|номер|язык|тип|цель|причина|пояснение|комментарий|аспект|обоснование",
)
# Instead of a question.
NOTHING: Final = LABELS | _phrases(
    "none|null|nil|n/a|nan|undefined|true|false|ok|нет|ничего|keine|keiner|aucun|aucune|ninguna|ninguno|nada|nessuna|无"
)
REFUSALS: Final = (
    *("sorry", "i'm sorry", "i am sorry", "i cannot", "i can not", "i can't", "i am unable", "i won't", "as an ai"),
    *("unfortunately", "извините", "простите", "к сожалению", "я не могу", "не могу", "es tut mir leid", "leider"),
    *("ich kann nicht", "désolé", "je ne peux", "lo siento", "no puedo", "mi dispiace", "desculpe", "抱歉", "对不起"),
    *("申し訳", "죄송"),
)
