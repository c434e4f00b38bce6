"""The few sentences that we say ourselves around what a model or the sources say, in the reader's language."""

from __future__ import annotations

from dataclasses import dataclass

FALLBACK_LANGUAGE = "en"


@dataclass(frozen=True, slots=True)
class Messages:
    """Our own words in one language: finished sentences, sentences with a colon before what they announce, and headings."""

    nothing_found: str
    not_answered: str
    go_deeper: str
    disagree: str
    can_mean: str  # holds {subject}
    model_failed: str
    quotes_only: str
    disagreements: str  # a heading
    not_found: str  # a heading
    unanswered: str
    told_above: str
    left_out: str  # holds {what}: calls by stage
    stood_in: str  # holds {count}
    late: str

    def readings_of(self, subject: str) -> str:
        """The line before the readings of an ambiguous word."""
        return self.can_mean.replace("{subject}", subject)


def messages_for(language: str) -> Messages:
    """Our words in the language of a BCP 47 tag; English where we do not speak it."""
    return _WORDS.get(language.partition("-")[0].lower(), _WORDS[FALLBACK_LANGUAGE])


_WORDS = {
    "en": Messages(
        nothing_found="Nothing was found.",
        not_answered="The sources found do not answer this.",
        go_deeper="A deeper search may find more: ask with depth deep.",
        disagree="The sources disagree:",
        can_mean="“{subject}” can mean:",
        model_failed="The language model failed: these are quotes from the sources.",
        quotes_only="These are quotes from the sources, chosen without a language model.",
        disagreements="Where the sources disagree",
        not_found="What could not be found",
        unanswered="The sources found do not answer these questions:",
        told_above="What the sources say on this is quoted above.",
        left_out="The limits of this report left out calls of the language model: {what}.",
        stood_in="Search results scored without the language model: {count}.",
        late="Not everything could be searched, read and ranked in the time allowed.",
    ),
    "de": Messages(
        nothing_found="Es wurde nichts gefunden.",
        not_answered="Die gefundenen Quellen beantworten das nicht.",
        go_deeper="Eine tiefere Suche findet vielleicht mehr: mit depth deep fragen.",
        disagree="Die Quellen widersprechen sich:",
        can_mean="„{subject}“ kann bedeuten:",
        model_failed="Das Sprachmodell ist ausgefallen: Das sind Zitate aus den Quellen.",
        quotes_only="Das sind Zitate aus den Quellen, ohne Sprachmodell ausgewählt.",
        disagreements="Worin sich die Quellen widersprechen",
        not_found="Was nicht gefunden wurde",
        unanswered="Die gefundenen Quellen beantworten diese Fragen nicht:",
        told_above="Was die Quellen dazu sagen, steht weiter oben.",
        left_out="Wegen der Grenzen dieses Berichts wurden Aufrufe des Sprachmodells ausgelassen: {what}.",
        stood_in="Ohne Sprachmodell bewertete Suchergebnisse: {count}.",
        late="In der erlaubten Zeit konnte nicht alles gesucht, gelesen und bewertet werden.",
    ),
    "fr": Messages(
        nothing_found="Rien n’a été trouvé.",
        not_answered="Les sources trouvées ne répondent pas à cette question.",
        go_deeper="Une recherche plus approfondie peut en trouver davantage : demandez avec depth deep.",
        disagree="Les sources se contredisent :",
        can_mean="« {subject} » peut désigner :",
        model_failed="Le modèle de langage a échoué : ce sont des citations des sources.",
        quotes_only="Ce sont des citations des sources, choisies sans modèle de langage.",
        disagreements="Où les sources se contredisent",
        not_found="Ce qui n’a pas été trouvé",
        unanswered="Les sources trouvées ne répondent pas à ces questions :",
        told_above="Ce que les sources en disent est cité plus haut.",
        left_out="Les limites de ce rapport ont fait omettre des appels au modèle de langage : {what}.",
        stood_in="Résultats de recherche notés sans le modèle de langage : {count}.",
        late="Tout n’a pas pu être cherché, lu et classé dans le temps imparti.",
    ),
    "es": Messages(
        nothing_found="No se ha encontrado nada.",
        not_answered="Las fuentes encontradas no responden a esta pregunta.",
        go_deeper="Una búsqueda más profunda puede encontrar más: pregunte con depth deep.",
        disagree="Las fuentes se contradicen:",
        can_mean="«{subject}» puede significar:",
        model_failed="El modelo de lenguaje ha fallado: son citas de las fuentes.",
        quotes_only="Son citas de las fuentes, elegidas sin modelo de lenguaje.",
        disagreements="En qué se contradicen las fuentes",
        not_found="Lo que no se ha encontrado",
        unanswered="Las fuentes encontradas no responden a estas preguntas:",
        told_above="Lo que dicen las fuentes sobre esto se cita más arriba.",
        left_out="Por los límites de este informe se omitieron llamadas al modelo de lenguaje: {what}.",
        stood_in="Resultados de búsqueda valorados sin el modelo de lenguaje: {count}.",
        late="No todo se pudo buscar, leer y valorar en el tiempo permitido.",
    ),
    "it": Messages(
        nothing_found="Non è stato trovato nulla.",
        not_answered="Le fonti trovate non rispondono a questa domanda.",
        go_deeper="Una ricerca più approfondita può trovare di più: chiedere con depth deep.",
        disagree="Le fonti si contraddicono:",
        can_mean="«{subject}» può significare:",
        model_failed="Il modello linguistico non ha risposto: sono citazioni dalle fonti.",
        quotes_only="Sono citazioni dalle fonti, scelte senza modello linguistico.",
        disagreements="Dove le fonti si contraddicono",
        not_found="Che cosa non è stato trovato",
        unanswered="Le fonti trovate non rispondono a queste domande:",
        told_above="Ciò che le fonti dicono al riguardo è citato sopra.",
        left_out="Per i limiti di questo rapporto sono state omesse chiamate al modello linguistico: {what}.",
        stood_in="Risultati di ricerca valutati senza il modello linguistico: {count}.",
        late="Non tutto è stato cercato, letto e valutato nel tempo concesso.",
    ),
    "pt": Messages(
        nothing_found="Nada foi encontrado.",
        not_answered="As fontes encontradas não respondem a esta pergunta.",
        go_deeper="Uma pesquisa mais profunda pode encontrar mais: pergunte com depth deep.",
        disagree="As fontes se contradizem:",
        can_mean="“{subject}” pode significar:",
        model_failed="O modelo de linguagem falhou: são citações das fontes.",
        quotes_only="São citações das fontes, escolhidas sem modelo de linguagem.",
        disagreements="Onde as fontes se contradizem",
        not_found="O que não foi encontrado",
        unanswered="As fontes encontradas não respondem a estas perguntas:",
        told_above="O que as fontes dizem sobre isto está citado acima.",
        left_out="Pelos limites deste relatório, foram omitidas chamadas ao modelo de linguagem: {what}.",
        stood_in="Resultados de pesquisa avaliados sem o modelo de linguagem: {count}.",
        late="Nem tudo pôde ser pesquisado, lido e avaliado no tempo permitido.",
    ),
    "nl": Messages(
        nothing_found="Er is niets gevonden.",
        not_answered="De gevonden bronnen beantwoorden dit niet.",
        go_deeper="Een diepere zoekopdracht vindt misschien meer: vraag met depth deep.",
        disagree="De bronnen spreken elkaar tegen:",
        can_mean="‘{subject}’ kan betekenen:",
        model_failed="Het taalmodel is uitgevallen: dit zijn citaten uit de bronnen.",
        quotes_only="Dit zijn citaten uit de bronnen, gekozen zonder taalmodel.",
        disagreements="Waar de bronnen elkaar tegenspreken",
        not_found="Wat niet is gevonden",
        unanswered="De gevonden bronnen beantwoorden deze vragen niet:",
        told_above="Wat de bronnen hierover zeggen, staat hierboven.",
        left_out="Door de limieten van dit rapport zijn aanroepen van het taalmodel weggelaten: {what}.",
        stood_in="Zoekresultaten beoordeeld zonder taalmodel: {count}.",
        late="Niet alles kon binnen de toegestane tijd worden gezocht, gelezen en beoordeeld.",
    ),
    "pl": Messages(
        nothing_found="Nic nie znaleziono.",
        not_answered="Znalezione źródła nie odpowiadają na to pytanie.",
        go_deeper="Głębsze wyszukiwanie może znaleźć więcej: zapytaj z depth deep.",
        disagree="Źródła są sprzeczne:",
        can_mean="„{subject}” może oznaczać:",
        model_failed="Model językowy zawiódł: to są cytaty ze źródeł.",
        quotes_only="To są cytaty ze źródeł, wybrane bez modelu językowego.",
        disagreements="W czym źródła są sprzeczne",
        not_found="Czego nie znaleziono",
        unanswered="Znalezione źródła nie odpowiadają na te pytania:",
        told_above="To, co mówią o tym źródła, zacytowano powyżej.",
        left_out="Z powodu limitów tego raportu pominięto wywołania modelu językowego: {what}.",
        stood_in="Wyniki wyszukiwania ocenione bez modelu językowego: {count}.",
        late="Nie wszystko udało się wyszukać, przeczytać i ocenić w dozwolonym czasie.",
    ),
    "ru": Messages(
        nothing_found="Ничего не найдено.",
        not_answered="Найденные источники не отвечают на этот вопрос.",
        go_deeper="Более глубокий поиск может найти больше: спросите с depth deep.",
        disagree="Источники противоречат друг другу:",
        can_mean="«{subject}» может означать:",
        model_failed="Языковая модель не ответила: это цитаты из источников.",
        quotes_only="Это цитаты из источников, выбранные без языковой модели.",
        disagreements="В чём источники расходятся",
        not_found="Что не удалось найти",
        unanswered="Найденные источники не отвечают на эти вопросы:",
        told_above="То, что говорят об этом источники, приведено выше.",
        left_out="Из-за ограничений этого отчёта пропущены обращения к языковой модели: {what}.",
        stood_in="Результатов поиска, оценённых без языковой модели: {count}.",
        late="Не всё удалось найти, прочитать и оценить за отведённое время.",
    ),
    "uk": Messages(
        nothing_found="Нічого не знайдено.",
        not_answered="Знайдені джерела не відповідають на це запитання.",
        go_deeper="Глибший пошук може знайти більше: запитайте з depth deep.",
        disagree="Джерела суперечать одне одному:",
        can_mean="«{subject}» може означати:",
        model_failed="Мовна модель не відповіла: це цитати з джерел.",
        quotes_only="Це цитати з джерел, вибрані без мовної моделі.",
        disagreements="У чому джерела розходяться",
        not_found="Що не вдалося знайти",
        unanswered="Знайдені джерела не відповідають на ці запитання:",
        told_above="Те, що кажуть про це джерела, наведено вище.",
        left_out="Через обмеження цього звіту пропущено звернення до мовної моделі: {what}.",
        stood_in="Результатів пошуку, оцінених без мовної моделі: {count}.",
        late="Не все вдалося знайти, прочитати й оцінити за відведений час.",
    ),
    "zh": Messages(
        nothing_found="没有找到任何内容。",
        not_answered="找到的来源没有回答这个问题。",
        go_deeper="更深入的搜索可能会找到更多：请使用 depth deep 提问。",
        disagree="来源之间存在矛盾：",
        can_mean="“{subject}”可以指：",
        model_failed="语言模型未能回答：以下内容引自来源。",
        quotes_only="以下内容引自来源，未经语言模型挑选。",
        disagreements="来源之间的分歧",
        not_found="未能找到的内容",
        unanswered="找到的来源没有回答这些问题：",
        told_above="来源对此的说法已在上文引用。",
        left_out="受本报告限额所限，省略了对语言模型的调用：{what}。",
        stood_in="未经语言模型评分的搜索结果：{count}。",
        late="在允许的时间内未能完成全部搜索、阅读和评分。",
    ),
    "ja": Messages(
        nothing_found="何も見つかりませんでした。",
        not_answered="見つかった情報源はこの質問に答えていません。",
        go_deeper="より深い検索でさらに見つかるかもしれません：depth deep で質問してください。",
        disagree="情報源の内容が食い違っています：",
        can_mean="「{subject}」には次の意味があります：",
        model_failed="言語モデルが応答しませんでした：以下は情報源からの引用です。",
        quotes_only="以下は情報源からの引用で、言語モデルを使わずに選ばれました。",
        disagreements="情報源の食い違い",
        not_found="見つからなかったこと",
        unanswered="見つかった情報源は次の質問に答えていません：",
        told_above="これについて情報源が述べていることは上に引用しました。",
        left_out="このレポートの上限により、言語モデルの呼び出しを省きました：{what}。",
        stood_in="言語モデルを使わずに採点した検索結果：{count}件。",
        late="許された時間内に、すべてを検索し、読み、採点することはできませんでした。",
    ),
    "ko": Messages(
        nothing_found="아무것도 찾지 못했습니다.",
        not_answered="찾은 출처는 이 질문에 답하지 않습니다.",
        go_deeper="더 깊이 검색하면 더 찾을 수 있습니다: depth deep으로 질문하세요.",
        disagree="출처들의 내용이 서로 다릅니다:",
        can_mean="“{subject}”의 뜻:",
        model_failed="언어 모델이 응답하지 않았습니다: 출처에서 인용한 내용입니다.",
        quotes_only="언어 모델 없이 고른 출처의 인용문입니다.",
        disagreements="출처들이 서로 다른 점",
        not_found="찾지 못한 것",
        unanswered="찾은 출처는 다음 질문에 답하지 않습니다:",
        told_above="이에 대해 출처가 말하는 내용은 위에 인용했습니다.",
        left_out="이 보고서의 한도 때문에 언어 모델 호출을 생략했습니다: {what}.",
        stood_in="언어 모델 없이 평가한 검색 결과: {count}건.",
        late="주어진 시간 안에 모든 것을 검색하고 읽고 평가하지는 못했습니다.",
    ),
}
