"""Which language a short text is in: by script first, then by function words; unsure is None.

The word lists are short on purpose. A question has ten words, three of which are function words: that is what tells
Dutch from German, and what a keyword search leaves out.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

from modules.llm_platform.domain.text.tokens import words

# Function words of the languages that we tell apart, and the English names of languages. Data only.
# Lower case, separated by blanks; question words and the auxiliary verbs of questions included, since they say nothing
# about what is asked for.


FUNCTION_WORDS: dict[str, str] = {
    "en": (
        "a about after all also am an and any are aren't as at be because been before being between both but "
        "by can can't could did didn't do does doesn't doing don't down each few for from further had has "
        "have having he her here hers him his how i if in into is isn't it it's its just me more most my no "
        "nor not of off on once only or other our out over own per please same she should so some such tell "
        "than that the their them then there these they this those through to too under until up upon us "
        "very was wasn't we were what what's when where which while who whom whose why will with within "
        "without would you your explain describe give"
    ),
    "de": (
        "aber alle allem allen aller alles als also am an auch auf aus bei beim bin bis bist da damit dann "
        "das dass dein deine dem den denn der des dessen die dies diese diesem diesen dieser dieses doch "
        "dort du durch ein eine einem einen einer eines er es etwas für gegen gibt hat hatte habe haben hier "
        "ich ihr ihre ihm ihn im in ins ist ja jede jeder kann kein keine können man mehr mein mit muss "
        "müssen nach nicht noch nur ob oder ohne sehr sein seine seit sich sie sind so soll sollte über um "
        "und uns unser unter vom von vor wann war waren warum was welche welchem welchen welcher welches wem "
        "wen wenn wer werden wie wieso wieviel wird wo wofür woher wohin wurde wurden zu zum zur zwischen "
        "erkläre"
    ),
    "fr": (
        "à au aux avec ce ceci cela ces cet cette c'est comme comment d'un d'une dans de des du donc elle "
        "elles en entre est est-ce et été être eu eux fait faut il ils j'ai je l'on la le les leur leurs lui "
        "mais me même mes moi mon ne nos notre nous on ont ou où par pas peut plus pour pourquoi qu'est qu'est-ce "
        "qu'il qu'un quand que quel quelle quelles quels qui quoi sa sans se sera ses si son sont sous sur "
        "ta te tes toi ton tous tout toute toutes très tu un une vos votre vous y combien lequel laquelle"
    ),
    "es": (
        "a al algo ante antes aquí así aunque cada como cómo con contra cual cuál cuáles cuando cuándo "
        "cuanto cuánto cuántos de del desde donde dónde durante e el él ella ellas ellos en entre era es esa "
        "ese eso esta está están este esto estos fue ha hace hacer hasta hay la las le les lo los más me mi "
        "muy no nos o otra otro para pero por porque puede puedo que qué quien quién quiénes se sea ser si "
        "sí sin sobre son su sus también te tiene todo todos tu un una uno unos y ya"
    ),
    "it": (
        "a agli ai al alla alle allo anche che chi ci come con cosa cos'è così da dagli dai dal dalla dalle "
        "degli dei del della delle dello di dove dov'è è e ed era fra gli ha hanno ho i il in io l'ha la le "
        "lei lo loro lui ma mi mia mio nei nel nella nelle nello noi non nostro o ogni per perché più può "
        "qual quale quali quando quanti quanto quella quello questa questi questo se sei si sia sono sta su "
        "sua sui sul sulla suo tra tu tutti tutto un una uno viene voi"
    ),
    "pt": (
        "a ao aos as às até com como da das de dela dele depois do dos e é ela elas ele eles em entre era "
        "essa esse esta está estão este eu foi for há isso isto já lhe mais mas me mesmo meu minha muito na "
        "não nas nem no nos nós o onde os ou para pela pelas pelo pelos pode por porque porquê qual quais "
        "quando quanto quantos que quem são se seja sem ser seu sobre sua também tem têm ter um uma você "
        "vocês"
    ),
    "nl": (
        "aan al alle als altijd bij dan dat de deze die dit doen door dus een en er geen had hebben heeft "
        "heb het hij hoe hoeveel hun ik in is ja je jij kan kun kunnen maar meer men met mijn moet moeten na "
        "naar niet nog nu of om omdat onder ons ook op over te tegen toch toen tot u uit uw van veel voor "
        "waar waarom wanneer was wat we welk welke werd wie wij wil worden wordt ze zich zij zijn zo zonder "
        "zou"
    ),
    "pl": (
        "a aby albo ale ani bardzo bez być był była było były co czy czego czym dla dlaczego do gdy gdzie go "
        "i ich ile im ja jak jaka jaki jakie jako jego jej jest już kiedy kto która które którego której "
        "który lub ma mają mnie może można my na nad nie niż o od on ona oni oraz po pod przed przez przy "
        "również są się skąd tak także tego tej ten też to tu tylko tym w we wszystko więc z za ze że"
    ),
    "sv": (
        "alla att av blev bli blir de dem den denna det detta dig din du där efter ej eller en ett för från "
        "ha hade han har hon hur här i icke ifrån inte jag kan kommer man med mellan men mig min mot mycket "
        "ni nu när och om oss på samt sig sin ska skulle som så till under upp ut vad var varför vem vi vid "
        "vilka vilken vilket är över"
    ),
    "da": (
        "af alle at blev blive bliver da de dem den denne der deres det dette dig du efter eller en er et "
        "for fra før god han har have hun hvad hvem hvilke hvilken hvilket hvis hvor hvordan hvorfor hvornår "
        "i ikke ind jeg kan man med meget mellem men mere mig min når og også om op over på sig skal som til "
        "ud under var ved vi vil være"
    ),
    "no": (
        "alle at av bare ble bli blir da de dem den denne der det dette du eller en er et etter for fra før "
        "ha hadde han har hun hva hvem hvilke hvilken hvilket hvis hvor hvordan hvorfor i ikke jeg kan man "
        "med meg mellom men mer mot må når noe og også om opp over på seg skal som så til ut under var ved "
        "vi vil være"
    ),
    "fi": (
        "ei eivät että he hän ja joka jos jotka kanssa koska kuin kuinka kuka kun me mikä miksi millainen "
        "missä mitä mitkä miten mutta myös ne niin nyt ole oli olla on ovat se sekä sen siitä sitä tai tämä "
        "tämän te vai vain voi voiko milloin onko minä sinä"
    ),
    "cs": (
        "a aby ale ani asi až bez bude být byl byla bylo byly co či do ho i jak jaká jaké jaký jako je jeho "
        "její jen ještě již jsem jsou k kde kdo kdy kolik která které který ma má mezi může na nad ne nebo "
        "není o od on po pod podle pro proč protože při s se si tak také tato ten to tu u v ve však z za ze "
        "že"
    ),
    "ro": (
        "a acest această aceste al ale are au ca când care cât câte ce cei cel cine cu cum că da dar de "
        "decât din după e ea ei el este eu fi fost fără iar în între îl îi la le lor lui mai mult nu o ori "
        "pe pentru prin să sau se și sunt te un una unde unei unui"
    ),
    "hu": (
        "a az azt csak de ez ezt egy el én és ha hogy hogyan hol is itt kell ki lehet lesz ma már meg mely "
        "melyik mert mi miért mikor milyen mint mit nagyon nem olyan ő ők sem sok van vannak vagy volt"
    ),
    "tr": (
        "acaba ama ancak bana bazı ben beni benim bir biri biz bu bunu çok çünkü da daha de değil diye en "
        "gibi göre hangi hangisi hem her hiç için ile ise kaç kadar ki kim kimin mı mi mu mü nasıl ne neden "
        "nedir nerede nereye niçin niye o olan olarak oldu olur onu onun sen siz şey şu tüm var ve veya ya "
        "yani yok zaman"
    ),
    "id": (
        "ada adalah agar akan anda apa apakah atau bagaimana bahwa bisa dalam dan dapat dari dengan di ini "
        "itu jika juga kami kapan karena ke kita lebih mana mengapa mereka oleh pada para saja sangat saya "
        "sebagai seperti siapa sudah tentang tidak untuk yang berapa"
    ),
    "vi": (
        "bao bị bằng các cái cho có của cùng đã đang đây để đến được gì giữa hay khi không là làm mà một nào "
        "này nếu những như ở ra sao sẽ tại thế thì theo trong từ và về vì với"
    ),
    "ca": (
        "amb això aquest aquesta com de del dels el els en és està hi i la les més no on però per perquè què "
        "quan quin quina qui se si són també un una"
    ),
    "ru": (
        "а без более был была были было быть в вам вас весь во вот все всего вы где да для до его ее её если "
        "есть еще ещё же за здесь и из или им их к каждый как какая какие каков какова какой какую ко когда "
        "кого кто куда ли между меня мне можно мой мы на над надо нам нас не него нет ни них но ну о об "
        "однако он она они оно от откуда очень по под почему при про с сам свой себя сколько со так такое "
        "такой там тем то того тоже той только том тут ты у уже чего чей чем через что чтобы эта эти это "
        "этого этой этом этот я"
    ),
    "uk": (
        "а але би без був була були було бути в вам вас весь ви від він вона вони воно все всі де для до є ж "
        "за з зі і із її їх й його як яка яке який які якщо ким коли кого котрий кожен куди ли ми між мене "
        "мені можна на над нам нас не нема немає ні них о об од ось по під при про свій себе скільки так "
        "також таке там те ти тільки то того тут у хто це цей ці цього цьому через чи чого чому що щоб я"
    ),
    "bg": (
        "а аз ако ала бе без беше бил в все всички вие във да до докато е ето за защо и из или им има какво "
        "каква какви какъв как кога кого кой която които който колко къде към ли между ми може му на над най "
        "не него нещо ни но обаче от по повече под при с са само се си след сме съм със също така тази там "
        "те ти това този той трябва тук тя ще"
    ),
    "sr": (
        "а али би био бити где да до за зашто и из или иде је јер када како који која које ко ли мој на над "
        "не него о од он она они по под са се су та тај те то у уз шта што"
    ),
    "el": (
        "αλλά αν από αυτή αυτό αυτός για γιατί δεν εγώ εδώ είναι εκεί ένα ένας έχει έχουν ή η θα και κάθε "
        "κατά με μετά μη μια μπορεί να ο οι όπως όταν ότι που πού πόσο πότε ποια ποιες ποιο ποιος πρέπει "
        "προς πώς πως σας σε στα στη στην στις στο στον τα τη την της τι τις το τον του τους των ως"
    ),
    "ar": (
        "أن أو أي أين إذا إلى إن إنه التي الذي الذين الى ان او اين بعد بين تكون تلك ثم حتى حيث ذلك عن عند "
        "على غير في فيه قبل قد كان كانت كل كم كما كيف كيفية لا لكن لم لماذا له لها ليس ما ماذا مثل مع من منذ "
        "متى نحن هذا هذه هل هم هنا هناك هو هي و وما يكون يمكن"
    ),
    "he": (
        "אבל או אותו אז איך איפה אך אל אם אני אנחנו את אתה בין גם הוא היא היה הם זאת זה זו יש כאשר כאן כדי "
        "כי כך כל כמה כמו לא לאן למה לפני מאוד מדוע מה מי מן מתי על עד עם רק של שלו שלה"
    ),
    "fa": (
        "آن از است اگر ان اند او اين این با باید بر برای به بود تا چرا چند چه چگونه چیست خود در را شد شده "
        "شما کجا کدام که کی کند ما من می نیست ها هر هم همه و ولی یا یک"
    ),
    "hi": (
        "अगर अपना अपने अब आप इन इस इसका इसके इसे उन उनके उस उसके एक और कब कर करता करते करना करने कहाँ का कि "
        "कितना कितने किस किसने की कुछ के कैसे को कोई कौन कौनसा क्या क्यों गया जब जा जो तक तथा तब तो था थी थे "
        "दो द्वारा न नहीं ने पर बहुत बाद भी में मैं यदि यह यहाँ या ये रहा लिए वह वहाँ वे साथ से हम ही हुआ "
        "हूँ है हैं हो होता होती होते"
    ),
    "zh": (
        "的 了 是 在 和 与 與 及 或 也 都 就 而 但 不 没 有 我 你 他 她 它 我们 你们 他们 这 那 这个 那个 "
        "这些 那些 什么 什麼 怎么 怎麼 怎样 如何 为什么 為什麼 为何 哪 哪个 哪些 哪里 谁 多少 几 吗 呢 吧 啊 "
        "可以 能 能够 应该 请 请问 以及 之 其 于 被 把 对 从 到 向 是什么 什么是 是否 有什么 有哪些 么是 "
        "么样 一个 我的 你的"
    ),
    "ja": (
        "の に は を た が で て と し れ さ ある いる も する から な こと として い や など なっ ない この "
        "ため その あっ よう また もの あり まで られ なる へ か だ これ によって により おり より による ず "
        "なり られる において なかっ それ しかし です ます ですか ますか とは 何 何が 何で 何の なに なぜ "
        "どう どうやって どのように どこ どれ どの いつ だれ 誰 いくつ ください について しています している "
        "した して との には では でしょうか"
    ),
    "ko": (
        "은 는 이 가 을 를 의 에 에서 에게 으로 로 와 과 도 만 까지 부터 그리고 그러나 하지만 또는 및 이것 "
        "그것 저것 여기 거기 무엇 무엇을 무엇인가 무엇인가요 무엇입니까 뭐 왜 어떻게 어디 어디서 언제 누가 "
        "누구 어느 어떤 얼마 얼마나 몇 있다 없다 하다 한다 합니다 입니다 있습니다 있나요 하나요 인가요 "
        "되나요 대해 대한 위해 수 것 등"
    ),
    "th": (
        "และ ของ ที่ เป็น ใน การ มี ได้ ให้ ว่า จะ ไม่ กับ จาก ก็ แต่ หรือ โดย อะไร ทำไม อย่างไร ยังไง "
        "เมื่อไร เมื่อไหร่ ที่ไหน ใคร เท่าไร เท่าไหร่ คือ นี้ นั้น"
    ),
}

LANGUAGE_NAMES: dict[str, str] = {
    "af": "Afrikaans", "am": "Amharic", "ar": "Arabic", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali",
    "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish",
    "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "gl": "Galician",
    "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian",
    "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ka": "Georgian", "kk": "Kazakh",
    "km": "Khmer", "kn": "Kannada", "ko": "Korean", "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian",
    "mk": "Macedonian", "ml": "Malayalam", "mr": "Marathi", "ms": "Malay", "my": "Burmese", "nb": "Norwegian",
    "ne": "Nepali", "nl": "Dutch", "nn": "Norwegian", "no": "Norwegian", "pa": "Punjabi", "pl": "Polish",
    "pt": "Portuguese", "pt-BR": "Brazilian Portuguese", "ro": "Romanian", "ru": "Russian", "si": "Sinhala",
    "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "sw": "Swahili",
    "ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Filipino", "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu",
    "uz": "Uzbek", "vi": "Vietnamese", "zh": "Chinese", "zh-Hans": "Simplified Chinese",
    "zh-Hant": "Traditional Chinese", "zh-TW": "Traditional Chinese",
}  # fmt: skip


LOOKED_AT = 2000  # characters: a page's language shows in its first paragraphs
DENSE_LETTER = 3  # one Han, Kana, Hangul or Thai letter says about as much as three of an alphabet
SCRIPT_SHARE = 0.5  # of the letters: the script decides alone
QUOTED_SHARE = 0.15  # of the letters: it decides when no function word of another script speaks against it
CLEAR_LEAD = 1.3  # times the evidence of the next language
ENOUGH = 0.5  # evidence: one function word that two languages share
USUAL_PRIOR = 1.5  # how often a language is met: `for` is English rather than Danish
PRIOR = {"en": 3.0, "ro": 1.0, "ca": 0.3} | dict.fromkeys(("pl", "sv", "da", "no", "fi", "cs", "hu", "id"), 0.7)
LETTER_EVIDENCE = 0.6  # what a letter counts that only one of our languages uses

_SCRIPTS = {
    "kana": "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f",
    "han": "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3005",
    "ko": "\u1100-\u11ff\u3131-\u318e\uac00-\ud7af",
    "cyrillic": "\u0400-\u052f",
    "arabic": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff",
    "he": "\u0590-\u05ff",
    "el": "\u0370-\u03ff\u1f00-\u1fff",
    "th": "\u0e00-\u0e7f",
    "devanagari": "\u0900-\u097f",
    "bn": "\u0980-\u09ff",
    "pa": "\u0a00-\u0a7f",
    "gu": "\u0a80-\u0aff",
    "ta": "\u0b80-\u0bff",
    "te": "\u0c00-\u0c7f",
    "kn": "\u0c80-\u0cff",
    "ml": "\u0d00-\u0d7f",
    "si": "\u0d80-\u0dff",
    "lo": "\u0e80-\u0eff",
    "my": "\u1000-\u109f",
    "km": "\u1780-\u17ff",
    "ka": "\u10a0-\u10ff",
    "hy": "\u0530-\u058f",
    "am": "\u1200-\u137f",
    "latin": "A-Za-zªº\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff",
}
_RUNS = re.compile("|".join(f"(?P<{name}>[{letters}]+)" for name, letters in _SCRIPTS.items()))
_ASCII_RUNS = re.compile(r"[\x00-\x7f]+")
_ASCII_OTHERS = bytes(code for code in range(128) if not chr(code).isalpha())
_DENSE = frozenset({"kana", "han", "ko", "th", "lo", "km", "my"})
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_LETTERS_APART = bytes(code if code > 127 or chr(code).isalpha() or chr(code) == "'" else 32 for code in range(256))

_JAPANESE_HAN = re.compile("[々込畑働峠匂駅気図売対広応関実変単戦発総経済沢浜円択]")  # shapes that Chinese does not use
_CYRILLIC_LETTERS = {"uk": "іїєґ", "be": "ў", "sr": "ђћџљњј", "ru": "ыэё", "kk": "әғқңөұүһ", "mk": "ѓќѕ"}
_ARABIC_LETTERS = {"ur": "ٹڈڑںےھ", "fa": "پچژگکی"}
_DEVANAGARI_WORDS = {
    "mr": frozenset({"आहे", "आणि", "काय", "कसे", "मध्ये"}),
    "ne": frozenset({"छ", "हो", "के", "कसरी", "भने"}),
}
_LATIN_LETTERS = {
    "de": "ß", "es": "ñ¿¡", "pt": "ãõ", "pl": "łąęśźżń", "tr": "ğış", "ro": "șțăţş", "cs": "řěů", "hu": "őű",
    "vi": "ơưđạảấầẩẫậắằẳẵặẹẻẽếềểễệịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ", "fr": "œ", "da": "æø", "no": "æø", "sv": "å",
}  # fmt: skip


def detect(text: str) -> str | None:
    """The primary language subtag of the text (`en`, `zh`), None when nothing tells. Never raises."""
    text = text[:LOOKED_AT]
    if text.isascii():
        return _by_function_words(text, "latin")
    letters = _letters_by_script(text)
    if not letters:
        return None
    script, share = _leading_foreign_script(letters)
    if script == "latin":
        return _by_function_words(text, "latin")
    if share < SCRIPT_SHARE and (latin := _by_function_words(text, "latin")):
        return latin
    return _of_script(script, letters, text)


def stop_words(language: str) -> frozenset[str]:
    """The function words of a language, folded, question words included; empty for one that we hold no list of.

    Also the pieces that `domain.text.words` makes of them, such as the bigrams of scripts without blanks.
    """
    return _stop_words(language.partition("-")[0].lower())


def language_name(tag: str) -> str:
    """The English name as prompts use it: `de-AT` gives German; the tag itself when we do not know it."""
    return LANGUAGE_NAMES.get(tag) or LANGUAGE_NAMES.get(tag.partition("-")[0].lower()) or tag


@cache
def _stop_words(language: str) -> frozenset[str]:
    listed = FUNCTION_WORDS.get(language, "").split()
    return frozenset(listed).union(*map(words, listed))


def _letters_by_script(text: str) -> Counter[str]:
    rest = _ASCII_RUNS.sub(" ", text)  # most of a text, and there is no question whose it is
    ascii_letters = len(text.encode("ascii", "ignore").translate(None, _ASCII_OTHERS))
    letters: Counter[str] = Counter({"latin": ascii_letters} if ascii_letters else {})
    for run in _RUNS.finditer(rest):
        script = run.lastgroup or ""
        letters[script] += (run.end() - run.start()) * (DENSE_LETTER if script in _DENSE else 1)
    return letters


def _leading_foreign_script(letters: Counter[str]) -> tuple[str, float]:
    """The script to decide by and its share: another than Latin also when Latin names and code outweigh it."""
    foreign = Counter({script: count for script, count in letters.items() if script != "latin"})
    foreign["han"] += foreign.pop("kana", 0) if foreign["han"] else 0
    if not foreign or not any(foreign.values()):
        return "latin", 1.0
    script, count = foreign.most_common(1)[0]
    share = count / sum(letters.values())
    return (script, share) if share >= QUOTED_SHARE else ("latin", 1.0)


def _of_script(script: str, letters: Counter[str], text: str) -> str | None:
    if script in {"han", "kana"}:
        return "ja" if letters["kana"] or _JAPANESE_HAN.search(text) else "zh"
    if script == "cyrillic":
        return _by_letters(text, _CYRILLIC_LETTERS) or _by_function_words(text, "cyrillic") or "ru"
    if script == "arabic":
        return _by_letters(text, _ARABIC_LETTERS) or "ar"
    if script == "devanagari":
        found = set(text.split())
        return next((language for language, own in _DEVANAGARI_WORDS.items() if len(own & found) > 1), "hi")
    return script


def _by_letters(text: str, letters: dict[str, str]) -> str | None:
    lowered = text.lower()
    counts = {language: sum(map(lowered.count, own)) for language, own in letters.items()}
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] else None


def _by_function_words(text: str, script: str) -> str | None:
    """The language whose function words the text uses most; a word of several languages counts a part for each."""
    table = _languages_of_words(script)
    evidence: dict[str, float] = {}
    for word, times in _counted(text.lower()).items():
        for language, weight in table.get(word, ()):
            evidence[language] = evidence.get(language, 0.0) + weight * times
    if script == "latin" and not text.isascii():
        _add_letters(text.lower(), evidence)
    if not evidence:
        return None
    (best, most), *others = sorted(evidence.items(), key=lambda item: -item[1])
    clear = not others or most >= CLEAR_LEAD * others[0][1]
    return best if clear and most >= ENOUGH else None


def _counted(lowered: str) -> dict[str, int]:
    """How often each word comes, in the order of the text; found between blanks, since the pattern takes twice as long."""
    apart = lowered.encode("utf-8", "surrogatepass").translate(_LETTERS_APART).decode("utf-8", "surrogatepass")
    counts: dict[str, int] = {}
    for found, times in Counter(apart.split()).items():
        for word in (found,) if found.isalpha() else _WORD.findall(found):
            counts[word] = counts.get(word, 0) + times
    return counts


def _add_letters(lowered: str, evidence: dict[str, float]) -> None:
    present = set(lowered)
    for language, own in _LATIN_LETTERS.items():
        if not present.isdisjoint(own):
            evidence[language] = evidence.get(language, 0.0) + LETTER_EVIDENCE


@cache
def _languages_of_words(script: str) -> dict[str, tuple[tuple[str, float], ...]]:
    """For each function word of the script's languages: (language, weight), the weights of a word adding up to one."""
    own = re.compile(f"[{_SCRIPTS[script]}'’]+")
    owners: dict[str, list[str]] = {}
    for language, listed in FUNCTION_WORDS.items():
        for word in set(listed.split()):
            if own.fullmatch(word):
                owners.setdefault(word, []).append(language)
    return {word: _weights(found) for word, found in owners.items()}


def _weights(languages: list[str]) -> tuple[tuple[str, float], ...]:
    priors = [PRIOR.get(language, USUAL_PRIOR) for language in languages]
    return tuple((language, prior / sum(priors)) for language, prior in zip(languages, priors, strict=True))
