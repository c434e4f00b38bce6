"""The few sentences that we say ourselves around what a model or the sources say, in the reader's language."""

from __future__ import annotations

from dataclasses import dataclass

FALLBACK_LANGUAGE = "en"


@dataclass(frozen=True, slots=True)
class OwnWords:
    """Our own words in one language; each is a finished sentence, or ends in a colon before what it announces."""

    nothing_found: str
    not_answered: str
    go_deeper: str
    disagree: str
    can_mean: str  # holds {subject}
    model_failed: str

    def readings_of(self, subject: str) -> str:
        """The line before the readings of an ambiguous word."""
        return self.can_mean.replace("{subject}", subject)


def own_words(language: str) -> OwnWords:
    """Our words in the language of a BCP 47 tag; English where we do not speak it."""
    return _WORDS.get(language.partition("-")[0].lower(), _WORDS[FALLBACK_LANGUAGE])


_WORDS = {
    "en": OwnWords(
        nothing_found="Nothing was found.",
        not_answered="The sources found do not answer this.",
        go_deeper="A deeper search may find more: ask with depth deep.",
        disagree="The sources disagree:",
        can_mean="“{subject}” can mean:",
        model_failed="The language model failed: these are quotes from the sources.",
    ),
    "de": OwnWords(
        nothing_found="Es wurde nichts gefunden.",
        not_answered="Die gefundenen Quellen beantworten das nicht.",
        go_deeper="Eine tiefere Suche findet vielleicht mehr: mit depth deep fragen.",
        disagree="Die Quellen widersprechen sich:",
        can_mean="„{subject}“ kann bedeuten:",
        model_failed="Das Sprachmodell ist ausgefallen: Das sind Zitate aus den Quellen.",
    ),
    "fr": OwnWords(
        nothing_found="Rien n’a été trouvé.",
        not_answered="Les sources trouvées ne répondent pas à cette question.",
        go_deeper="Une recherche plus approfondie peut en trouver davantage : demandez avec depth deep.",
        disagree="Les sources se contredisent :",
        can_mean="« {subject} » peut désigner :",
        model_failed="Le modèle de langage a échoué : ce sont des citations des sources.",
    ),
    "es": OwnWords(
        nothing_found="No se ha encontrado nada.",
        not_answered="Las fuentes encontradas no responden a esta pregunta.",
        go_deeper="Una búsqueda más profunda puede encontrar más: pregunte con depth deep.",
        disagree="Las fuentes se contradicen:",
        can_mean="«{subject}» puede significar:",
        model_failed="El modelo de lenguaje ha fallado: son citas de las fuentes.",
    ),
    "it": OwnWords(
        nothing_found="Non è stato trovato nulla.",
        not_answered="Le fonti trovate non rispondono a questa domanda.",
        go_deeper="Una ricerca più approfondita può trovare di più: chiedere con depth deep.",
        disagree="Le fonti si contraddicono:",
        can_mean="«{subject}» può significare:",
        model_failed="Il modello linguistico non ha risposto: sono citazioni dalle fonti.",
    ),
    "pt": OwnWords(
        nothing_found="Nada foi encontrado.",
        not_answered="As fontes encontradas não respondem a esta pergunta.",
        go_deeper="Uma pesquisa mais profunda pode encontrar mais: pergunte com depth deep.",
        disagree="As fontes se contradizem:",
        can_mean="“{subject}” pode significar:",
        model_failed="O modelo de linguagem falhou: são citações das fontes.",
    ),
    "nl": OwnWords(
        nothing_found="Er is niets gevonden.",
        not_answered="De gevonden bronnen beantwoorden dit niet.",
        go_deeper="Een diepere zoekopdracht vindt misschien meer: vraag met depth deep.",
        disagree="De bronnen spreken elkaar tegen:",
        can_mean="‘{subject}’ kan betekenen:",
        model_failed="Het taalmodel is uitgevallen: dit zijn citaten uit de bronnen.",
    ),
    "pl": OwnWords(
        nothing_found="Nic nie znaleziono.",
        not_answered="Znalezione źródła nie odpowiadają na to pytanie.",
        go_deeper="Głębsze wyszukiwanie może znaleźć więcej: zapytaj z depth deep.",
        disagree="Źródła są sprzeczne:",
        can_mean="„{subject}” może oznaczać:",
        model_failed="Model językowy zawiódł: to są cytaty ze źródeł.",
    ),
    "ru": OwnWords(
        nothing_found="Ничего не найдено.",
        not_answered="Найденные источники не отвечают на этот вопрос.",
        go_deeper="Более глубокий поиск может найти больше: спросите с depth deep.",
        disagree="Источники противоречат друг другу:",
        can_mean="«{subject}» может означать:",
        model_failed="Языковая модель не ответила: это цитаты из источников.",
    ),
    "uk": OwnWords(
        nothing_found="Нічого не знайдено.",
        not_answered="Знайдені джерела не відповідають на це запитання.",
        go_deeper="Глибший пошук може знайти більше: запитайте з depth deep.",
        disagree="Джерела суперечать одне одному:",
        can_mean="«{subject}» може означати:",
        model_failed="Мовна модель не відповіла: це цитати з джерел.",
    ),
    "zh": OwnWords(
        nothing_found="没有找到任何内容。",
        not_answered="找到的来源没有回答这个问题。",
        go_deeper="更深入的搜索可能会找到更多：请使用 depth deep 提问。",
        disagree="来源之间存在矛盾：",
        can_mean="“{subject}”可以指：",
        model_failed="语言模型未能回答：以下内容引自来源。",
    ),
    "ja": OwnWords(
        nothing_found="何も見つかりませんでした。",
        not_answered="見つかった情報源はこの質問に答えていません。",
        go_deeper="より深い検索でさらに見つかるかもしれません：depth deep で質問してください。",
        disagree="情報源の内容が食い違っています：",
        can_mean="「{subject}」には次の意味があります：",
        model_failed="言語モデルが応答しませんでした：以下は情報源からの引用です。",
    ),
    "ko": OwnWords(
        nothing_found="아무것도 찾지 못했습니다.",
        not_answered="찾은 출처는 이 질문에 답하지 않습니다.",
        go_deeper="더 깊이 검색하면 더 찾을 수 있습니다: depth deep으로 질문하세요.",
        disagree="출처들의 내용이 서로 다릅니다:",
        can_mean="“{subject}”의 뜻:",
        model_failed="언어 모델이 응답하지 않았습니다: 출처에서 인용한 내용입니다.",
    ),
}
