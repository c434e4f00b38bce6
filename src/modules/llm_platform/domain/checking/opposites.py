"""Words and their opposites, in many languages: "rose" where the source says "fell" turns a sentence round."""

from __future__ import annotations

import re
from collections.abc import Sequence

from modules.llm_platform.domain.checking.words import is_form

NEIGHBOURS = 4  # words on each side of an opposite that tell what it is about
MIN_NEIGHBOUR_LETTERS = 4
FOLLOWING = 2  # words right behind
BEHIND_WEIGHT = 3
MIN_POSITIVE = 5  # letters that "unlimited" and "limits" share behind the prefix

Surroundings = tuple[set[str], set[str]]

_NEGATIVE_PREFIX = re.compile(r"(?:un|in|im|ir|il|dis|non|nicht|не)(?=\w{5})")
_PREFIX_STARTS = frozenset(["un", "in", "im", "ir", "il", "di", "no", "ni", "не"])
_OPPOSITES = """
steigt stieg stiegen gestiegen wuchs wächst gewachsen zugenommen augmente augmenté augmentation hausse subió aumentó
creció sube aumenta вырос выросла выросло выросли растёт растет увеличился увеличилась увеличилось увеличились рост |
sinkt sank sanken gesunken fiel fielen gefallen schrumpft schrumpfte abgenommen baisse baissé diminue diminué bajó
disminuyó cayó baja снизился снизилась снизилось снизились упал упала упало упали сократился сократилась уменьшился
уменьшилась; survive survives survived überlebt überlebte выжил выжила | die dies died killed perished gestorben starb
tot погиб погибла умер; change changes changed modify modifies modified alter altered touch touches affect affects |
untouched unchanged intact unaffected; advance advances advanced | retreat retreats retreated recede receded; win wins
won victory | lose loses lost defeat defeated; praise praises praised excellent outstanding good great | criticise
criticised criticize criticized poor bad terrible; recommend recommends recommended advise advises advised |
discourage discourages discouraged; hire hires hired | fire fires fired dismissed; include includes included | exclude
excludes excluded; new newer newest neu neue | old older oldest alt alte; young younger | elderly; long longer lang |
short shorter kurz; high | low; wide wider | narrow narrower; deep deeper | shallow shallower; rich richer | poor
poorer; heavy heavier | light lighter; easy easier einfach | hard harder difficult schwierig; early früh | late spät;
inside | outside; warm warmer | cool cooler; positive positiv | negative negativ; profit profits gewinn | loss losses
verlust; majority mehrheit | minority minderheit; legal | illegal; guilty | innocent acquitted; arrive arrives arrived
| depart departs departed; push pushes pushed | pull pulls pulled; send sends sent | receive receives received; client
clients | server servers; upload uploads uploaded | download downloads downloaded; encode encodes encoded | decode
decodes decoded; encrypt encrypts encrypted | decrypt decrypts decrypted; lock locks locked | unlock unlocks unlocked;
connect connects connected | disconnect disconnects disconnected; inbound incoming | outbound outgoing; parent parents
| child children; top oben | bottom unten; vertical vertically | horizontal horizontally; supply | demand; voluntary |
compulsory; temporary temporarily | permanent permanently; local locally | remote remotely; static statically |
dynamic dynamically; manual manually | automatic automatically; summer sommer | winter; morning | evening; husband |
wife; father vater | mother mutter; son sohn | daughter tochter; brother bruder | sister schwester; king könig | queen
königin; day tag tags | night nacht nachts; read reads | write writes written; producer producers | consumer
consumers; employer employers | employee employees; teacher teachers | student students; forward forwards | backward
backwards; direct directly | indirect indirectly; agree agrees agreed | disagree refuse refused object objected;
attack attacks attacked | defend defends defended; lend lends lent | borrow borrows borrowed; rise rises rose risen
increase increases increased grow grows grew grown climb climbed gain gained raise raised | fall falls fell fallen
decrease decreases decreased decline declined drop dropped shrink shrank; higher höher | lower niedriger; open opens
opened offen geöffnet открыт открыта открыто открыты ouvert abierto aperto | close closes closed geschlossen закрыт
закрыта закрыто закрыты fermé cerrado chiuso; before earlier vor avant antes prima до перед | after later since nach
après después dopo после; always immer toujours siempre sempre всегда | never nie jamais nunca никогда; more above
over mehr über plus más più больше более выше | less fewer below under weniger unter moins menos meno меньше менее
ниже; first erste premier primero primo первый первая первое | last letzte dernier último ultimo последний последняя;
largest biggest greatest highest most größte höchste крупнейший крупнейшая самый | smallest lowest least kleinste
niedrigste мельчайший; longest längste | shortest kürzeste; maximum max at-most | minimum min at-least; allow allows
allowed permit permits permitted erlaubt разрешено разрешается | forbid forbids forbidden prohibit prohibits
prohibited disallow disallowed ban banned verboten запрещено запрещается; enable enables enabled run runs running |
disable disables disabled; one single sole | several multiple various; keep keeps kept retain retains hold holds |
release releases released; better worse superior inferior | equally equal; simplify simplifies simplified | complicate
complicates complicated; possible möglich | impossible unmöglich; accept accepts accepted approve approved | reject
rejects rejected refuse refused; import imports imported | export exports exported; buy buys bought acquire acquired |
sell sells sold; north northern nord северный север | south southern süd южный юг; east eastern ost восточный восток |
west western западный запад; left linke links | right rechte rechts; male männlich | female weiblich; hot heiß горячий
| cold kalt холодный; safe sicher безопасный | unsafe dangerous unsicher опасный; synchronous sync blocking |
asynchronous async non-blocking; mutable | immutable; required mandatory must | optional; start starts started begin
begins began begun | end ends ended stop stops stopped finish finished; add adds added | remove removes removed delete
deleted; present | absent; true wahr | false falsch; success succeed succeeds succeeded | failure fail fails failed;
cheap cheaper | expensive costlier dearer; fast faster faster quick schneller | slow slower langsamer; strong stronger
| weak weaker; support supports supported | oppose opposes opposed; ascending | descending; public | private; internal
| external; best | worst; better | worse; exact exactly | approximate approximately; many viele viel много | few
wenige wenig мало; accelerate accelerates accelerated ускорилась ускорился | slow slows slowed decelerate decelerated
замедлилась замедлился ; reduce reduces reduced senken senkt senkte gesenkt réduit réduire reducir redujo снизить
понизил снижена | raise raises raised increase increases increased erhöhen erhöht erhöhte relève relevé aumentar
aumentó повысить повысил повышена ; снизил | повысил; up | down; speed speeds sped | slow slows slowed; continue
continues continued keep keeps kept remain remains | stop stops stopped cease ceases ; only solely exclusively nur
lediglich ausschließlich seulement solo solamente soltanto только лишь | also too auch aussi également también anche
также ; can may allowed permitted darf dürfen peut peuvent autorisé puede pueden permitido può consentito можно
разрешено | forbidden prohibited banned verboten untersagt interdit interdite prohibido prohibida vietato запрещено
нельзя запрещён ; before | after; inside | outside ; love loves loved | hate hates hated; free gratis kostenlos
gratuit gratuite gratuito бесплатный бесплатно | paid kostenpflichtig payant payante pago платный ; strengthen
strengthens strengthened | weaken weakens weakened; expand expands expanded | contract contracted shrink shrank ;
confirm confirms confirmed | deny denies denied; pass passes passed bestanden | fail fails failed; fixed | variable;
odd | even; same | different ; reversible | irreversible; common häufig | rare selten; clean | dirty; dry | wet; full
| empty; sharp | blunt; smooth | rough; tight | loose; visible | hidden ; native | foreign; urban | rural; domestic |
international; civilian | military; theoretical | practical; raise raises raised lift lifted hike hiked | lower lowers
lowered cut cuts; возможен возможна возможно можно | невозможен невозможна невозможно нельзя; only solely exclusively
merely | outside elsewhere beyond; deliver delivers delivered deliver forward forwarded admit admitted | block blocks
blocked withhold withheld drop dropped suppress suppressed; keep keeps kept retain retains retained preserve preserved
preserves stay stays behalten behält bleibt conserve conservé conserva сохраняются сохраняет остаются | delete deletes
deleted remove removes removed erase erased discard discarded lose loses lost löscht gelöscht entfernt supprime
supprimé borra eliminado удаляются удаляет удалены; include includes included inclusive enthalten inbegriffen inclus
incluido | separately separat getrennt séparément отдельно; same equal equally identical gleich même igual одинаково |
different unequal more fewer verschieden différent distinto разный; succeed succeeded success hit triumph erfolg
succès éxito успех | flop failure failed misserfolg échec fracaso провал; agree agreed support supported backed back
favour favoured | dissent dissented oppose opposed against rejected; pick picks picked pickup | slow slows slowed
weaken weakened; secure secured | vulnerable exposed; lengthen lengthened extend extended prolong prolonged | shorten
shortened curtail curtailed; empty emptied leer | full filled voll; wake woke awake | asleep sleep slept; attach
attached | detach detached; install installs installed | uninstall uninstalls uninstalled; sunny dry trocken | rainy
wet nass; friend friends ally allies | enemy enemies rival; victory won | defeat lost; appear appears appeared |
disappear disappears disappeared vanish vanished; improve improves improved verbessert amélioré mejorado улучшил |
worsen worsens worsened deteriorate deteriorated verschlechtert aggravé empeorado ухудшил; ease eased relax relaxed
lockert | tighten tightened verschärft; appoint appointed ernannt | dismiss dismissed sack sacked entlassen; surplus
überschuss excédent superávit профицит | deficit defizit déficit дефицит; earn earned | spend spent; widen widened |
narrow narrowed; active | passive; guest | host
"""
_HAN_OPPOSITES = """
增长|下降 增加|减少 上升|下降 上涨|下跌 提高|降低 之前|之后 以前|以后 最大|最小 最高|最低
最多|最少 打开|关闭 开放|关闭 允许|禁止 可以|不得 支持|反对 同意|拒绝 成功|失败 高于|低于
多于|少于 快于|慢于 出口|进口 买入|卖出 开始|结束 存活|死亡 有害|无害 合法|非法 公开|秘密
増加|減少 上昇|下降 最大|最小 開始|終了 許可|禁止 賛成|反対
"""


def _by_word(listed: str) -> dict[str, tuple[tuple[int, int], ...]]:
    """For each word the pairs that it belongs to, as number and side."""
    table: dict[str, tuple[tuple[int, int], ...]] = {}
    for number, pair in enumerate(listed.split(";")):
        for side, words in enumerate(pair.split("|")):
            for word in words.split():
                table[word] = (*table.get(word, ()), (number, side))
    return table


OPPOSITES = _by_word(_OPPOSITES)
HAN_OPPOSITES = tuple(pair.partition("|")[::2] for pair in _HAN_OPPOSITES.split())


def opposed(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether one text says a word where the other, among the same neighbours, says its opposite."""
    if negated_form(mine, theirs) or negated_form(theirs, mine):
        return True
    said = _sides(mine)
    if not said:
        return False
    both = {(group, side) for _, group, side in said}
    answered: dict[int, list[tuple[int, int]]] = {}
    for place, group, side in _sides(theirs):
        answered.setdefault(group, []).append((place, side))
    return any(
        _says_opposite(side, _surroundings(mine, place), answered[group], theirs)
        for place, group, side in said
        if group in answered and (group, 1 - side) not in both  # else it says both itself
    )


def _sides(words: Sequence[str]) -> list[tuple[int, int, int]]:
    """Place, pair and side of each word that has an opposite."""
    return [
        (place, group, side)
        for place, word in enumerate(words)
        if word in OPPOSITES
        for group, side in OPPOSITES[word]
    ]


def _says_opposite(side: int, near: Surroundings, answered: Sequence[tuple[int, int]], theirs: Sequence[str]) -> bool:
    """Whether the other side of the pair stands in a closer place than this one."""
    closest = [0, 0]
    for place, their_side in answered:
        around, behind = _surroundings(theirs, place)
        closeness = len(near[0] & around) + BEHIND_WEIGHT * len(near[1] & behind)
        closest[their_side] = max(closest[their_side], closeness)
    return closest[1 - side] > closest[side]


def opposed_han(mine: str, theirs: str) -> bool:
    """The same for Chinese and Japanese, which write no blanks."""
    return any(_turned(one, other, mine, theirs) or _turned(other, one, mine, theirs) for one, other in HAN_OPPOSITES)


def _turned(one: str, other: str, mine: str, theirs: str) -> bool:
    return one in mine and other in theirs and one not in theirs and other not in mine


def negated_form(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether one says "unsupported" where the other says "supported"."""
    for word in mine:
        prefix = _NEGATIVE_PREFIX.match(word) if word[:2] in _PREFIX_STARTS else None
        if prefix is not None and word not in theirs:
            positive = word[prefix.end() :]
            if positive not in mine and any(
                is_form(positive, word) and word.startswith(positive[:MIN_POSITIVE]) for word in theirs
            ):
                return True
    return False


def _surroundings(words: Sequence[str], place: int) -> Surroundings:
    """The words near by, and the two right behind, which tell most: "speeds up lookups, slows down inserts"."""
    behind = [word for word in words[place + 1 : place + NEIGHBOURS + 1] if len(word) >= MIN_NEIGHBOUR_LETTERS]
    before = [word for word in words[max(0, place - NEIGHBOURS) : place] if len(word) >= MIN_NEIGHBOUR_LETTERS]
    return {*before, *behind}, set(behind[:FOLLOWING])
