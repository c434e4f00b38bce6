"""What makes a sentence unfit to stand in an answer by itself, in the languages that we know (patterns over plain text)."""

from __future__ import annotations

import re
from functools import cache

_FLAGS = re.IGNORECASE

# A first word that means something said before: the sentence is only whole together with the one before it.
_HANGING = {
    "en": "(?:without|with|for|by|from|after|before|of|on|to|like|besides) (?:it|this|that|them|these|those)"
    "|this|these|those|that|it|its|they|their|them|he|she|his|her|such|here|however|therefore|thus|hence|then"
    "|but|and|so"
    "|or|also|otherwise|instead|moreover|furthermore|additionally|similarly|likewise|meanwhile|conversely|consequently"
    "|nevertheless|nonetheless|both|another|the (?:former|latter|same)|for (?:example|instance|this)|in (?:this|that"
    "|such"
    "|addition|contrast|other words)|as (?:a result|such)|on the other hand|because of (?:this|that)|afterwards?|yet"
    "|still"
    "|specifically|in particular|finally|next|second(?:ly)?|third(?:ly)?|which|further"
    "|(?:primarily|mainly|mostly|partly|simply|just|only) because|to do (?:this|so|that)|doing "
    "(?:this|so)|if so|if not"
    "|unlike (?:this|that|it|them)|the (?:above|result)|one of them|neither|alternatively|besides|indeed|even so|at "
    "that",
    "de": "(?:ohne|mit|nach|bei|von|für) (?:es|sie|ihn|ihm|ihr|ihnen|dies\\w*)|"
    "dies(?:e[srnm]?)?|es|sie|er|ihre?[srnm]?|sein(?:e[srnm]?)?|das (?:ist|sind|wird|bedeutet|heißt|kann"
    "|macht)|jene[srnm]?"
    "|solche[srnm]?|daher|deshalb|deswegen|jedoch|allerdings|außerdem|zudem|dadurch|damit|dabei|dafür|hierbei|hier"
    "|dort|aber"
    "|und|oder|denn|also|dann|trotzdem|dennoch|ebenso|beide|stattdessen|zum beispiel|in diesem",
    "fr": "(?:sans|avec|pour|après) (?:lui|elle|cela|ceci|eux|elles)|"
    "il|elle|ils|elles|ce(?:t|tte|s)?|c['’]est|cela|ceci|ça|son|sa|ses|leurs?|cependant|toutefois|donc|ainsi"
    "|mais|et|ou"
    "|puis|ensuite|alors|de plus|en outre|par conséquent|en revanche|par exemple|pourtant|néanmoins|celle?s?-ci"
    "|celui-ci",
    "es": "(?:sin|con|para|tras) (?:él|ella|ello|esto|eso|ellos|ellas)|"
    "est[eao]s?|es[eao]s?|aquel(?:la|los|las)?|él|ella|ellos|ellas|ello|su|sus|sin embargo|además|por (?:lo "
    "tanto|eso"
    "|ejemplo|ello)|pero|y|o|así|entonces|también|no obstante|asimismo|en cambio|ambos|ambas",
    "it": "quest[oaie]|quell[oaie]|ess[oaie]|egli|lui|lei|loro|il suo|la sua|tuttavia|inoltre|quindi|perciò|ma|però"
    "|e|così"
    "|dunque|poi|anche|ad esempio|per esempio|invece|entramb[ie]",
    "pt": "est[ea]s?|isto|ess[ea]s?|isso|aquel[ea]s?|ele|ela|eles|elas|seu|sua|seus|suas|no entanto|porém|além disso"
    "|portanto"
    "|mas|e|ou|assim|então|também|contudo|por exemplo|ambos|ambas",
    "nl": "dit|deze|die|dat|het is|hij|zij|ze|hun|zijn|haar|echter|daarom|dus|maar|en|of|ook|daarnaast|bovendien"
    "|hierdoor"
    "|daardoor|toch|bijvoorbeeld|beide",
    "pl": "to|ten|ta|te|ci|on|ona|ono|oni|one|jego|jej|ich|jednak|dlatego|ponadto|więc|ale|i|oraz|także|również"
    "|zatem|tak"
    "|wtedy|na przykład|natomiast",
    "ru": "(?:без|с|для|после|до) (?:него|неё|нее|них|этого|этой)|"
    "это|эт(?:от|а|и|ого|ой|их|им|ому)|он|она|оно|они|его|её|ее|их|однако|поэтому|кроме того|также|тоже|но|и|а"
    "|так"
    "|таким образом|тогда|затем|потом|при этом|тем не менее|например|напротив|оба|обе|там|здесь|такой|такая|такие",
    "uk": "це|ц(?:ей|я|і|ього|ієї|их)|він|вона|воно|вони|його|її|їх|однак|тому|крім того|також|але|і|й|а|так|таким "
    "чином"
    "|тоді|потім|при цьому|наприклад|проте",
    "zh": "这|该|此|它|他|她|其|但|然而|因此|所以|此外|另外|同时|而且|并且|于是|例如|后者|前者",
    "ja": "これ|それ|この|その|あれ|あの|しかし|また|そのため|したがって|だから|そして|さらに|ただし|彼|例えば|なお|一方",
    "ko": "이것|그것|이는|그는|그녀|그러나|하지만|따라서|또한|그리고|그래서|예를 들어|이러한|그러한",
}

# Of those words the ones that, right below a heading, mean what the heading names.
_MEANS_SUBJECT = {
    "en": "this|these|it|they",
    "de": "dies(?:e[srnm]?)?|es|sie|er|das (?:ist|sind)",
    "fr": "c['’]est|ce(?:t|tte|s)?|ils?|elles?",
    "es": "est[eao]s?|ello",
    "it": "quest[oaie]|ess[oaie]",
    "pt": "est[ea]s?|isto|eles?|elas?",
    "nl": "dit|deze",
    "pl": "to|ten|ta|te",
    "ru": "это|эт(?:от|а|и)|он|она|оно|они",
    "uk": "це|ц(?:ей|я|і)|він|вона|воно|вони",
    "zh": "这|该|它",
    "ja": "これ|この",
    "ko": "이것|이는",
}

# The sentence sends its reader somewhere else instead of telling something.
_POINTER = (
    r"^\W*see\b|\bsee (?:the .{0,40}\b(?:section|chapter|documentation|docs|page|guide|manual|website)\b"
    r"|also|below|above|our|chapter|section|fig|page \d|https?)|\b(?:please |^\W*)refer to\b"
    r"|\b(?:(?:for|find) (?:more|further|additional|full) (?:information|details|info|about|on)|read more|learn more"
    r"|(?:is|are|was|as) (?:described|explained|discussed|documented|covered|shown|listed) (?:in|below|above|here|on|under"
    r"|later|next|further)|find out (?:more|how|why)|click (?:here|the link)|(?:take|have) a look|please visit"
    r"|check out (?:our|this|(?:the )?(?:\w+ )?(?:guide|docs|documentation|tutorial|article|examples?))"
    r"|(?:the|this|these|our) (?:following |next |previous )?(?:article|section|chapter|page|tutorial|guide|post|video|blog"
    r"|course|document|examples?) (?:will |shows?|describes?|explains?|covers?|introduces?|is about|discusses|demonstrates)"
    r"|in (?:this|the (?:next|following|previous)) (?:article|section|chapter|tutorial|guide|post|video|blog|course)"
    r"|(?:we|i)['’]ll (?:show|see|look|explain|cover|learn|discuss|explore)"
    r"|let['’]s (?:look|see|take|dive|explore|start)"
    r"|siehe (?:auch|oben|unten)?|mehr (?:dazu|erfahren|lesen|infos?)|weitere (?:informationen|infos|details)|weiterlesen"
    r"|wird (?:in|unten|im folgenden) .{0,40}beschrieben|voir (?:aussi|la section|ci-dessous)|en savoir plus"
    r"|lire la suite|pour plus d['’]informations|véase|ver también|más información|leer más|saiba mais|ver também"
    r"|leia mais|mais informações|vedi (?:anche)?|per (?:maggiori|ulteriori) informazioni|leggi (?:tutto|di più)"
    r"|scopri di più)\b"
    r"|\b(?:см\.|смотрите|читайте (?:также|далее)|подробнее|узнать больше|дивіться|докладніше|zobacz (?:też|także)"
    r"|więcej informacji)|参见|参阅|详见|更多信息|点击这里|を参照|詳しくは|こちら|자세한 내용|참조"
)

# It speaks of something that is shown beside it.
_SHOWN_BESIDE = (
    r"\b(?:(?:the|this|these) (?:following|next|above|below) (?:tables?|figures?|diagrams?|images?|screenshots?|lists?|codes?"
    r"|snippets?|examples?|commands?|output)|(?:table|figure|diagram|image|screenshot|list|code|snippet|example)s? (?:below"
    r"|above)|(?:die|das|der) (?:folgende|obige)[nrs]? (?:tabelle|abbildung|liste|beispiel|code)"
    r"|(?:tabelle|abbildung|beispiel|liste) (?:unten|oben)"
    r"|(?:следующ|приведённ|приведенн)\w+ (?:ниже )?(?:таблиц|рисун|пример|спис|код)\w*"
    r"|le tableau (?:suivant|ci-dessous|ci-dessus)|la (?:siguiente tabla|tabla siguiente))(?!\w)"
)

# What stands on every page of a site and answers nothing.
_BOILERPLATE = (
    r"\b(?:(?:we|this (?:site|website)|our (?:site|website)) uses? cookies|(?:accept|reject|manage) (?:all )?cookies"
    r"|cookie (?:policy|settings|preferences|notice|banner)|we value your privacy|privacy (?:policy|notice|settings)"
    r"|terms (?:of (?:use|service)|and conditions)|all rights reserved|copyright \d{4}|newsletter"
    r"|subscribe (?:now|today|here|to (?:our|my|this|the (?:blog|channel|feed)))|sign up (?:for|now|today|here)"
    r"|register (?:now|today|here)|(?:log|sign)[ -]?in (?:here|or|to (?:continue|reply|comment|view|see|read|post))"
    r"|create an account (?:to|for free|today)|forgot (?:your )?password|(?:enable|turn on) javascript"
    r"|skip to (?:main )?content|back to top|share this (?:on|article|post|page)|follow us|related (?:articles|posts|stories)"
    r"|previous (?:post|article)|next (?:post|article)|on this page|min(?:ute)?s? read|leave a (?:comment|reply)"
    r"|was this (?:page )?helpful|edit (?:this page|on github)|add to cart|free (?:trial|shipping)|buy now"
    r"|(?:enter|with) your email address|your browser (?:does not|is not|is out)|page not found"
    r"|(?:verwende[nt]|nutz(?:t|en)) cookies|cookies? (?:akzeptieren|ablehnen|einstellungen)|alle rechte vorbehalten"
    r"|datenschutz(?:erklärung|hinweise)|impressum|jetzt (?:anmelden|registrieren|abonnieren|kaufen)"
    r"|utilis(?:e|ons) des cookies|accepter les cookies|politique de confidentialité|tous droits réservés"
    r"|abonnez-vous|mentions légales|connectez-vous pour"
    r"|utiliza(?:mos)? cookies|aceptar (?:las |todas las )?cookies|política de privacidad|todos los derechos reservados"
    r"|suscríbe(?:te|se)|regístrate|inicia sesión para"
    r"|todos os direitos reservados|política de privacidade|inscreva-se|tutti i diritti riservati"
    r"|informativa sulla privacy|iscriviti)(?!\w)|©"
    r"|^\W*(?:log in|sign (?:in|up)|advertisement|sponsored|last (?:updated|modified))\b"
    r"|использу(?:ем|ет) (?:файлы )?cookie|политик[аи] конфиденциальности|все права защищены|подпи(?:шитесь|саться)"
    r"|войдите,? чтобы|зарегистрируйтесь|усі права захищено|版权所有|隐私政策|使用条款|接受所有|请登录|登录后|立即注册|立即订阅"
    r"|プライバシーポリシー|利用規約|ログインして|無断転載|会員登録|개인정보 처리방침|로그인 후|구독하"
)

# Orders to whatever program reads the page.
_ORDER = (
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instructions?|rules|prompts?|above|previous|guidelines)\b"
    r"|\bsystem prompt\b|\bas an? (?:ai|language model)\b|\b(?:you|as) (?:are|must|an?) .{0,20}\b(?:assistant|ai"
    r"|chatbot)\b"
    r"|\b(?:cite|answer|reply|respond|output|say) (?:as|with|only|exactly)\b.{0,30}(?:\[\d+\]|only\b|[A-Z]{4,}-?\d*)"
    r"|\bignore[rz]?\b.{0,40}\b(?:consignes|instructions|règles)\b|\bignorier\w*\b.{0,40}\b(?:anweisung|regel)"
    r"|игнорируй\w*.{0,40}(?:инструкц|правил)"
    r"|忽略.{0,10}(?:指令|指示|规则)|指示を無視"
)

# What a manual says of its own versions, beside what it tells.
_VERSION_NOTE = r"^\W*(?:new in|contributed by|added|removed|changed|deprecated)\b|\bnow accepts?\b|\(contributed by\b"
_ASKS_FOR_VERSIONS = re.compile(r"\b(?:version|new|news|change[sd]?|added|deprecated|removed|since|release)\b", _FLAGS)
_QUESTION = re.compile(r"[?？؟][\"'”’»)\]*_]*$")
_ADDRESS = re.compile(r"https?://|www\.\w")
_START = "[\"'“”„«»‘’(\\[*_`—–-]*"
_ENDS_ON_WORD = r"(?!\w)"
_UNSPACED_LANGUAGES = frozenset({"zh", "ja", "ko"})


@cache  # compiled when the first sentence is judged: it takes longer than all other imports of a command together
def _telling_nothing() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, _FLAGS) for pattern in (_POINTER, _BOILERPLATE, _ORDER))


@cache
def _hanging(language: str) -> re.Pattern[str] | None:
    return _beginning(_HANGING.get(language), language)


@cache
def _meaning_subject(language: str) -> re.Pattern[str] | None:
    return _beginning(_MEANS_SUBJECT.get(language), language)


def _beginning(pattern: str | None, language: str) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    return re.compile(f"{_START}(?:{pattern}){'' if language in _UNSPACED_LANGUAGES else _ENDS_ON_WORD}", _FLAGS)


@cache
def _version_note() -> re.Pattern[str]:
    return re.compile(_VERSION_NOTE, _FLAGS)


def is_version_note(sentence: str, question: str) -> bool:
    """Whether it tells what a version brought, where the question does not ask for that."""
    return bool(_version_note().search(sentence)) and not _ASKS_FOR_VERSIONS.search(question)


def depends_on_context(sentence: str, language: str) -> bool:
    """Whether the sentence begins with a word that means something in the one before it."""
    pattern = _hanging(language)
    return bool(pattern and pattern.match(sentence))


def points_at_subject(sentence: str, language: str) -> bool:
    """Whether the sentence, standing right below a heading, begins with a word for what the heading names."""
    pattern = _meaning_subject(language)
    return bool(pattern and pattern.match(sentence))


def is_question(sentence: str) -> bool:
    return bool(_QUESTION.search(sentence))


@cache
def _shown_beside() -> re.Pattern[str]:
    return re.compile(_SHOWN_BESIDE, _FLAGS)


def shows_beside(sentence: str) -> bool:
    """Whether it speaks of a table, an example or a picture that stands beside it."""
    return bool(_shown_beside().search(sentence))


def is_boilerplate(sentence: str, question: str) -> bool:
    """Pointers, boilerplate, bare addresses and orders to a reader's program; not where the question is about just that."""
    for pattern in _telling_nothing():
        found = pattern.search(sentence)
        if found and found.group().casefold() not in question.casefold():
            return True
    return bool(_ADDRESS.search(sentence))
