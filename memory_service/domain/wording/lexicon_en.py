"""English words that carry a value or none at all: closed classes only, as data.

Owns which words negate, which are opposite poles of one attitude, which place a statement in time or on a side, which
name a subject, and which add nothing. Refuses to be a dictionary: open classes (things, activities, proper names) are
not listed, and what is not listed here counts as content that must agree.
"""

from typing import Final

from memory_service.domain.wording.wordlists import classes, poles, readings, words

FUNCTION: Final = words("""
    a an the is am are be been being 's 're 'm 've 'd do does of that this these those which
    who it its there here so very really quite just also too and then ever any some anymore lot much now
    currently presently already nowadays today's actually basically simply please 'll himself several
    herself itself s few
    """)
"""Words without which a statement says the same. `not ... ever`, `any` and `anymore` live off the negation before."""

SELF: Final = words("i me my mine myself user users")
"""A memory speaks of its user as *I* or as *the user*; both are one subject."""

PREPOSITIONS: Final = words("""
    in on at to into onto from for with by about under over through across near beside behind between against up
    down out off around along inside outside toward towards past during
    """)

NEGATORS: Final = words("not no never nor neither none nothing nobody cannot without")
"""`n't` is written `not` before this is asked. `no` and `nothing` negate the verb before them."""
NEGATING_VERBS: Final = words("quit quits stopped stop stops ceased")
"""Negate a following -ing form: quit smoking."""

PHRASES: Final = readings("""
    no longer = not
    not any longer = not
    not only =
    not just =
    not to mention =
    no doubt =
    no matter =
    nothing but = only
    nothing like =
    no problem = fine
    no wonder =
    not until = after
    cannot help =
    can not help =
    can not wait = want
    can not stand = hate
    cannot stand = hate
    gave up = quit
    have given up = quit
    turned on = enabled
    turned off = disabled
    switched on = enabled
    switched off = disabled
    opposed to = oppose
    in favour of = support
    in favor of = support
    used to = formerly
    no one = nobody
    have to = must
    has to = must
    need to = must
    needs to = must
    am going to = will_be
    is going to = will_be
    are going to = will_be
    plan to = will_be
    plans to = will_be
    planning to = will_be
    want to = wish
    wants to = wish
    would like to = wish
    every day = daily
    each day = daily
    everyday = daily
    every week = weekly
    each week = weekly
    every month = monthly
    every morning = daily morning
    every evening = daily evening
    every night = daily night
    at least = atleast
    a few =
    a couple of =
    a group of =
    at most = atmost
    more than = morethan
    less than = lessthan
    one of = oneof
    name is = named
    names are = named
    is called = named
    is named = named
    am called = named
    am named = named
    right now = now
    at the moment = now
    these days = now
    learn how to = learn to
    learning how to = learning to
    all of =
    a lot =
    as well =
    working as = work as
    would not = will not
    front of = frontof
    made of =
    made for =
    made from =
    used for =
    of large size = large
    of small size = small
    in size =
    in colour =
    in color =
    """)
"""Fixed expressions, longest first, and what is read in their place."""

POLES: Final = poles("""
    like: like likes liked liking love loves loved enjoy enjoys enjoying adore adores /
    like: / hate hates hated dislike dislikes detest detests loathe loathes
    allow: allow allows allowed permit permits permitted /
    allow: / forbid forbids forbidden ban bans banned prohibit prohibits prohibited
    agree: agree agrees support supports approve approves favour favor /
    agree: / disagree disagrees oppose opposes reject rejects
    accept: accept accepts / refuse refuses decline declines
    enable: enable enables enabled / disable disables disabled
    trust: trust trusts / distrust distrusts mistrust mistrusts
    """)
"""Attitude -> (axis, sign). Opposite signs of one axis contradict each other."""

SIDES: Final = classes("""
    before until prior; after since following; left; right; frontof; behind; max maximum atmost;
    min minimum atleast; more morethan; less fewer lessthan; upload; download; import; export; buy buys bought;
    sell sells sold; staging; production; front; back; north northern; south southern; east eastern;
    west western
    """)
"""Directions and opposites of which either is a statement of its own: one text has it, so must the other."""

QUALITIES: Final = classes("""
    up upwards upward; down downwards downward; above over; below under beneath underneath; inside; outside;
    indoors; outdoors; top; bottom; from; big large huge; small tiny; young; old elderly; long; high;
    low; hot; cold; early earlier; late later; rise rises rising; fall falls falling; full; empty;
    increase increases increased; decrease decreases decreased; open opens opened opening; near;
    close closes closed closing; raise raising raises; lower lowering lowers; black; white; red; blue; green;
    yellow; grey gray; brown; pink; purple; wooden wood; good; bad; easy; difficult hard; rich; poor; sweet;
    sour; salty; spicy; fast; slow; new; strong; weak; safe; dangerous; happy; sad; many
    """)
"""Sizes, colours and such: one more or less is a detail, but one in the place of another is another statement."""

KIN: Final = classes("""
    mother mum mom mommy mummy; father dad daddy; son; daughter; brother; sister; wife; husband; girlfriend;
    boyfriend; partner; fiance; grandmother grandma granny; grandfather grandpa; uncle; aunt; cousin; nephew;
    niece; boss; manager; colleague coworker; friend; neighbour neighbor; roommate flatmate;
    man men guy gentleman male; woman women lady ladies female; boy boys; girl girls; he him his; she her hers;
    they them their; we us our; you your; dog dogs; cat cats; horse; team; company; client customer;
    mother-in-law; father-in-law; parents; kids kid child children; baby; teacher; doctor;
    person persons people human humans someone somebody
    """)
"""Whom a statement is about. Another subject is another statement."""

GENERIC: Final = words("person kids")
"""Subjects that a nearer word may stand for without contradiction."""

TENSE: Final = classes("""
    formerly previously once was were did had; will_be will planned future; wish;
    maybe perhaps possibly might probably; would could; if unless
    """)
"""Marks of a past, planned, wished or doubtful state: none of them is the present one."""

MODAL: Final = classes("""
    must required obliged; should ought; may; can able
    """)

AMOUNT: Final = classes("""
    always; usually normally generally mostly typically; often frequently regularly; sometimes occasionally;
    rarely seldom hardly barely scarcely; only solely exclusively; all every everything everyone; both; most;
    half; daily; weekly; monthly; yearly annually; oneof; each; another other; except; again; almost nearly;
    again
    """)
"""How often and how much: frequency and quantifiers."""

PAST_FORMS: Final = words("""
    was were did had went bought ate paid got saw met took came made gave sold sent told said found lost left
    flew drank ran spent won broke felt became began wrote chose forgot ordered
    """)
"""Irregular past forms (and the commonest regular one): they tell of an event."""
ED_ADJECTIVES: Final = words("""
    married retired divorced called named based located interested tired scared worried allowed need needed red
    bed feed speed seed employed unemployed engaged separated widowed supposed used hundred wicked naked united
    advanced preferred permitted forbidden enabled disabled banned prohibited indeed exceed embed shared hosted
    limited required loved liked hated
    """)
"""Words in -ed that tell of a state."""

EVENT_NOUNS: Final = words("""
    order invoice receipt payment refund transfer purchase shipment parcel package delivery booking reservation
    ticket flight appointment meeting trip visit bill transaction deposit withdrawal trial attempt
    experiment benchmark measurement
    """)
"""Things that happen once each: their numbers tell them apart."""
EVENT_VERBS: Final = words("""
    buy bought pay paid spend spent cost costs order ordered sell sold ship shipped refund transferred transfer
    received lost won donate donated booked book attended visited met ran walked
    """)
"""Verbs of single events; an amount beside one is the event's own."""
ID_NOUNS: Final = words("""
    order number no id code tracking room gate flight train bus line platform seat ticket invoice issue bug pr
    case run step chapter page lesson episode season phase stage round week day unit level floor building
    apartment part section task item group account card phone route channel port sprint batch
    test trial attempt exercise question option table figure lane track class grade
    """)
"""Nouns whose following number names one of many."""
STATIVE: Final = words("""
    be is am are have has own owns weigh weighs earn earns keep keeps need needs use uses employ employs allow
    allows contain contains support supports speak speaks want wants run runs consist consists limit set
    """)
"""Verbs of a standing state: a quantity beside one may change without a second thing coming to be."""
USE_VERBS: Final = words("""
    use uses using run runs running on upgraded moved migrated switched is be deployed built written with drive
    drives
    """)
"""Words after which a product with a number is what is in use."""
PRODUCTS: Final = words("""
    mysql mariadb postgresql postgres redis milvus mongodb sqlite oracle kafka rabbitmq elasticsearch nginx
    apache python java javascript typescript node nodejs go golang rust ruby php perl kotlin swift scala c++ c#
    .net django flask fastapi spring react vue angular docker kubernetes k8s helm terraform ansible git github
    gitlab vim neovim emacs vscode ubuntu debian windows macos linux android ios ipados iphone ipad pixel galaxy
    macbook thinkpad chrome firefox safari pytorch tensorflow cuda numpy pandas spark hadoop flink airflow
    gradle maven webpack vite bun deno xcode pycharm intellij grpc jdk jre openjdk gpt claude qwen llama
    photoshop excel office unity unreal playstation xbox oracle-db clickhouse cassandra dynamodb etcd consul
    prometheus grafana jenkins
    """)
"""Names of tools and devices that come in versions; known as names however they are written."""

SLOTS: Final = words("""
    rent fee wage tuition name hometown birthplace employer company job occupation profession position title
    city country timezone
    nationality height weight age salary income budget database editor os browser ide shell theme framework
    model phone laptop computer car cloud host password status username nickname handle email
    address size religion diet major university school language tongue backend frontend orm ci cache queue
    broker stack engine platform provider limit timeout temperature currency unit locale mode goal rate quota
    capacity
    """)
"""Attributes of which a subject has one at a time, after a possessive and before *is*."""
SLOT_MARKS: Final = words("favourite favorite default primary main preferred current native")
"""Adjectives that make any attribute single-valued."""
LIVE: Final = words("live lives living reside resides residing stay based located")
WORK: Final = words("work works working employed")
STATUS: Final = (
    words("single married divorced engaged widowed separated unmarried"),
    words("employed unemployed retired"),
)
REPLY: Final = words("answer answers reply replies response responses")
STYLES: Final = (
    words("brief short concise terse long detailed verbose"),
    words("formal informal casual"),
)
"""Manners of an answer that exclude each other, where they are no synonyms."""
LANGUAGES: Final = words("""
    english chinese french german spanish japanese korean italian portuguese russian mandarin cantonese arabic
    """)

SYNONYMS: Final = classes("""
    afraid scared scare frighten; answer reply response; brief short concise terse; car automobile; movie film;
    motorbike motorcycle;
    bike bicycle; rock boulder; begin start commence; photo picture; use utilise utilize;
    job occupation profession; colour color; licence license; phone telephone; shop store; flat apartment;
    holiday vacation; talk chat speak; place put; database db; k8s kubernetes; postgresql postgres;
    js javascript; own have has having; street road; plane airplane aircraft; food meal; throw hurl;
    wedding marriage; pause stop; clean cleanse; trick stunt; beach seashore; hit strike knock;
    look watch; jump leap; ill sick; city town; present gift; trousers pants; lift elevator;
    rubbish trash garbage; sofa couch; finish complete; fix repair mend; help assist; several quick rapid;
    programme program; favourite favorite; organise organize; centre center; metre meter; behaviour behavior;
    mail email; university college; hike trek
    """)
"""Everyday words of one meaning; the first is what is compared."""
