"""English words that carry a value or none at all: closed classes only, as data.

Owns which words negate, which are opposite poles of one attitude, which place a statement in time or on a side, which
name a subject, and which add nothing. Refuses to be a dictionary: open classes (things, activities, proper names) are
not listed, and what is not listed here counts as content that must agree.
"""

from typing import Final


def _classes(*lines: str) -> dict[str, str]:
    """Each line is one class; its first word is the canonical form of all of them."""
    return {word: line.split()[0] for line in lines for word in line.split()}


FUNCTION: Final = frozenset(
    ["a", "an", "the", "is", "am", "are", "be", "been", "being", "'s", "'re", "'m", "'ve", "'d", "do", "does", "will", "shall", "have_aux", "of", "that", "this", "these", "those", "which", "who", "it", "its", "there", "here", "so", "very", "really", "quite", "just", "also", "too", "and", "then", "ever", "any", "some", "anymore", "lot", "much", "now", "currently", "presently", "already", "nowadays", "today's", "actually", "basically", "simply", "please", "as_well", "to_inf", "'ll", "himself", "herself", "itself", "s", "language", "programming"]
)
"""Words without which a statement says the same. `not ... ever`, `any` and `anymore` live off the negation before."""

SELF: Final = frozenset(["i", "me", "my", "mine", "myself", "user", "users"])
"""A memory speaks of its user as *I* or as *the user*; both are one subject."""

PREPOSITIONS: Final = frozenset(
    ["in", "on", "at", "to", "into", "onto", "from", "for", "with", "by", "about", "under", "over", "through", "across", "near", "beside", "behind", "between", "against", "up", "down", "out", "off", "around", "along", "inside", "outside", "toward", "towards", "past", "during"]
)

NEGATORS: Final = frozenset(["not", "no", "never", "nor", "neither", "none", "nothing", "nobody", "cannot", "without"])
"""`n't` is written `not` before this is asked. `no` and `nothing` negate the verb before them."""
NEGATING_VERBS: Final = frozenset(["quit", "quits", "stopped", "stop", "stops", "ceased"])
"""Negate a following -ing form: quit smoking."""

PHRASES: Final = {
    "no longer": "not",
    "not any longer": "not",
    "not only": "",
    "not just": "",
    "not to mention": "",
    "no doubt": "",
    "no matter": "",
    "nothing but": "only",
    "nothing like": "",
    "no problem": "fine",
    "no wonder": "",
    "not until": "after",
    "cannot help": "",
    "can not help": "",
    "can not wait": "want",
    "can not stand": "hate",
    "cannot stand": "hate",
    "gave up": "quit",
    "have given up": "quit",
    "turned on": "enabled",
    "turned off": "disabled",
    "switched on": "enabled",
    "switched off": "disabled",
    "opposed to": "oppose",
    "in favour of": "support",
    "in favor of": "support",
    "used to": "formerly",
    "no one": "nobody",
    "have to": "must",
    "has to": "must",
    "need to": "must",
    "needs to": "must",
    "going to": "will_be",
    "plan to": "will_be",
    "plans to": "will_be",
    "planning to": "will_be",
    "want to": "wish",
    "wants to": "wish",
    "would like to": "wish",
    "every day": "daily",
    "each day": "daily",
    "everyday": "daily",
    "every week": "weekly",
    "each week": "weekly",
    "every month": "monthly",
    "every morning": "daily morning",
    "every evening": "daily evening",
    "every night": "daily night",
    "at least": "atleast",
    "a few": "",
    "a couple of": "",
    "a group of": "",
    "at most": "atmost",
    "more than": "morethan",
    "less than": "lessthan",
    "one of": "oneof",
    "name is": "named",
    "names are": "named",
    "is called": "named",
    "is named": "named",
    "am called": "named",
    "am named": "named",
    "right now": "now",
    "at the moment": "now",
    "these days": "now",
    "learn how to": "learn to",
    "learning how to": "learning to",
    "all of": "",
    "a lot": "",
    "as well": "",
    "working as": "work as",
    "would not": "will not",
    "front of": "frontof",
}
"""Fixed expressions, longest first, and what is read in their place."""

POLES: Final = {
    **dict.fromkeys(["like", "likes", "liked", "love", "loves", "loved", "enjoy", "enjoys", "enjoying", "adore", "adores", "liking"], ("like", 1)),
    **dict.fromkeys(["hate", "hates", "hated", "dislike", "dislikes", "detest", "detests", "loathe", "loathes"], ("like", -1)),
    **dict.fromkeys(["allow", "allows", "allowed", "permit", "permits", "permitted"], ("allow", 1)),
    **dict.fromkeys(["forbid", "forbids", "forbidden", "ban", "bans", "banned", "prohibit", "prohibits", "prohibited"], ("allow", -1)),
    **dict.fromkeys(["agree", "agrees", "support", "supports", "approve", "approves", "favour", "favor"], ("agree", 1)),
    **dict.fromkeys(["disagree", "disagrees", "oppose", "opposes", "reject", "rejects"], ("agree", -1)),
    **dict.fromkeys(["accept", "accepts"], ("accept", 1)),
    **dict.fromkeys(["refuse", "refuses", "decline", "declines"], ("accept", -1)),
    **dict.fromkeys(["enable", "enables", "enabled"], ("enable", 1)),
    **dict.fromkeys(["disable", "disables", "disabled"], ("enable", -1)),
    **dict.fromkeys(["trust", "trusts"], ("trust", 1)),
    **dict.fromkeys(["distrust", "distrusts", "mistrust", "mistrusts"], ("trust", -1)),
}
"""Attitude -> (axis, sign). Opposite signs of one axis contradict each other."""

SIDES: Final = _classes(
    "before until prior", "after since following", "left", "right", "frontof", "behind", "max maximum atmost",
    "min minimum atleast", "more morethan", "less fewer lessthan", "upload", "download", "import", "export", "buy buys bought",
    "sell sells sold", "staging", "production", "front", "back", "north northern", "south southern", "east eastern",
    "west western",
)  # fmt: skip
"""Directions and opposites of which either is a statement of its own: one text has it, so must the other."""

QUALITIES: Final = _classes(
    "up upwards upward", "down downwards downward", "above over", "below under beneath underneath", "inside", "outside",
    "indoors", "outdoors", "top", "bottom", "from", "big large huge", "small tiny", "young", "old elderly", "long", "short_",
    "high", "low", "hot", "cold", "early earlier", "late later", "rise rises rising", "fall falls falling", "full", "empty",
    "increase increases increased", "decrease decreases decreased", "open opens opened opening", "near",
    "close closes closed closing", "raise raising raises", "lower lowering lowers", "black", "white", "red", "blue", "green",
    "yellow", "grey gray", "brown", "pink", "purple", "wooden wood", "good", "bad", "easy", "difficult hard", "rich", "poor",
    "sweet", "sour", "salty", "spicy", "fast", "slow", "new", "strong", "weak", "safe", "dangerous", "happy", "sad", "many",
)  # fmt: skip
"""Sizes, colours and such: one more or less is a detail, but one in the place of another is another statement."""

KIN: Final = _classes(
    "mother mum mom mommy mummy", "father dad daddy", "son", "daughter", "brother", "sister", "wife", "husband",
    "girlfriend", "boyfriend", "partner", "fiance", "grandmother grandma granny", "grandfather grandpa", "uncle",
    "aunt", "cousin", "nephew", "niece", "boss", "manager", "colleague coworker", "friend", "neighbour neighbor",
    "roommate flatmate", "man men guy gentleman male", "woman women lady ladies female", "boy boys", "girl girls", "he him his", "she her hers",
    "they them their", "we us our", "you your", "dog dogs", "cat cats", "horse", "team", "company", "client customer",
    "mother-in-law", "father-in-law", "parents", "kids kid child children", "baby", "teacher", "doctor", "person persons people human humans someone somebody",
)  # fmt: skip
"""Whom a statement is about. Another subject is another statement."""

GENERIC: Final = frozenset(("person", "kids"))
"""Subjects that a nearer word may stand for without contradiction."""

TENSE: Final = _classes(
    "formerly previously once was were did had", "will_be will planned future", "wish", "maybe perhaps possibly might probably",
    "would could", "if unless",
)  # fmt: skip
"""Marks of a past, planned, wished or doubtful state: none of them is the present one."""

MODAL: Final = _classes("must required obliged", "should ought", "may", "can able")

AMOUNT: Final = _classes(
    "always", "usually normally generally mostly typically", "often frequently regularly", "sometimes occasionally",
    "rarely seldom hardly barely scarcely", "only solely exclusively", "all every everything everyone", "both", "most", "half", "daily", "weekly", "monthly", "yearly annually", "oneof", "each", "another other", "except",
    "again", "almost nearly", "again",
)  # fmt: skip
"""How often and how much: frequency and quantifiers."""

PAST_FORMS: Final = frozenset(
    ["was", "were", "did", "had", "went", "bought", "ate", "paid", "got", "saw", "met", "took", "came", "made", "gave", "sold", "sent", "told", "said", "found", "lost", "left", "flew", "drank", "ran", "spent", "won", "broke", "felt", "became", "began", "wrote", "chose", "forgot", "ordered"]
)
"""Irregular past forms (and the commonest regular one): they tell of an event."""
ED_ADJECTIVES: Final = frozenset(
    ["married", "retired", "divorced", "called", "named", "based", "located", "interested", "tired", "scared", "worried", "allowed", "need", "needed", "red", "bed", "feed", "speed", "seed", "employed", "unemployed", "engaged", "separated", "widowed", "supposed", "used", "hundred", "wicked", "naked", "united", "advanced", "preferred", "permitted", "forbidden", "enabled", "disabled", "banned", "prohibited", "indeed", "exceed", "embed", "shared", "hosted", "limited", "required", "loved", "liked", "hated"]
)
"""Words in -ed that tell of a state."""

EVENT_NOUNS: Final = frozenset(
    ["order", "invoice", "receipt", "payment", "refund", "transfer", "purchase", "shipment", "parcel", "package", "delivery", "booking", "reservation", "ticket", "flight", "appointment", "meeting", "trip", "visit", "bill", "transaction", "deposit", "withdrawal", "run", "test", "trial", "attempt", "experiment", "benchmark", "measurement"]
)
"""Things that happen once each: their numbers tell them apart."""
EVENT_VERBS: Final = frozenset(
    ["buy", "bought", "pay", "paid", "spend", "spent", "cost", "costs", "order", "ordered", "sell", "sold", "ship", "shipped", "refund", "transferred", "transfer", "received", "lost", "won", "donate", "donated", "booked", "book", "attended", "visited", "met", "ran", "walked"]
)
"""Verbs of single events; an amount beside one is the event's own."""
ID_NOUNS: Final = frozenset(
    ["order", "number", "no", "id", "code", "tracking", "room", "gate", "flight", "train", "bus", "line", "platform", "seat", "ticket", "invoice", "issue", "bug", "pr", "case", "run", "step", "chapter", "page", "lesson", "episode", "season", "phase", "stage", "round", "week", "day", "unit", "level", "floor", "building", "apartment", "part", "section", "version_of", "task", "item", "group", "team_no", "account", "card", "phone", "route", "channel", "port", "sprint", "batch", "test", "trial", "attempt", "exercise", "question", "option", "table", "figure", "lane", "track", "class", "grade"]
)
"""Nouns whose following number names one of many."""
STATIVE: Final = frozenset(
    ["be", "is", "am", "are", "have", "has", "own", "owns", "weigh", "weighs", "earn", "earns", "keep", "keeps", "need", "needs", "use", "uses", "employ", "employs", "allow", "allows", "contain", "contains", "support", "supports", "speak", "speaks", "want", "wants", "run", "runs", "has_got", "consist", "consists", "limit", "set"]
)
"""Verbs of a standing state: a quantity beside one may change without a second thing coming to be."""
USE_VERBS: Final = frozenset(
    ["use", "uses", "using", "run", "runs", "running", "on", "upgraded", "moved", "migrated", "switched", "is", "be", "deployed", "built", "written", "with", "drive", "drives"]
)
"""Words after which a product with a number is what is in use."""
PRODUCTS: Final = frozenset(
    ["mysql", "mariadb", "postgresql", "postgres", "redis", "milvus", "mongodb", "sqlite", "oracle", "kafka", "rabbitmq", "elasticsearch", "nginx", "apache", "python", "java", "javascript", "typescript", "node", "nodejs", "go", "golang", "rust", "ruby", "php", "perl", "kotlin", "swift", "scala", "c++", "c#", ".net", "django", "flask", "fastapi", "spring", "react", "vue", "angular", "docker", "kubernetes", "k8s", "helm", "terraform", "ansible", "git", "github", "gitlab", "vim", "neovim", "emacs", "vscode", "ubuntu", "debian", "windows", "macos", "linux", "android", "ios", "ipados", "iphone", "ipad", "pixel", "galaxy", "macbook", "thinkpad", "chrome", "firefox", "safari", "pytorch", "tensorflow", "cuda", "numpy", "pandas", "spark", "hadoop", "flink", "airflow", "gradle", "maven", "webpack", "vite", "bun", "deno", "xcode", "pycharm", "intellij", "grpc", "jdk", "jre", "openjdk", "gpt", "claude", "qwen", "llama", "photoshop", "excel", "office", "unity", "unreal", "playstation", "xbox", "oracle-db", "clickhouse", "cassandra", "dynamodb", "etcd", "consul", "prometheus", "grafana", "jenkins"]
)
"""Names of tools and devices that come in versions; known as names however they are written."""

SLOTS: Final = frozenset(
    ["name", "hometown", "birthplace", "employer", "company", "job", "occupation", "profession", "position", "title", "city", "country", "timezone", "nationality", "height", "weight", "age", "salary", "income", "budget", "database", "editor", "os", "browser", "ide", "shell", "theme", "framework", "model", "phone", "laptop", "computer", "car", "cloud", "host", "password", "deadline_owner", "status", "username", "nickname", "handle", "email", "address", "size", "religion", "diet", "major", "university", "school", "language", "tongue", "backend", "frontend", "orm", "ci", "cache", "queue", "broker", "stack", "engine", "platform", "provider", "limit", "timeout", "temperature", "currency", "unit", "locale", "mode", "goal", "rate", "quota", "capacity"]
)
"""Attributes of which a subject has one at a time, after a possessive and before *is*."""
SLOT_MARKS: Final = frozenset(["favourite", "favorite", "default", "primary", "main", "preferred", "current", "native"])
"""Adjectives that make any attribute single-valued."""
LIVE: Final = frozenset(["live", "lives", "living", "reside", "resides", "residing", "stay", "based", "located"])
WORK: Final = frozenset(["work", "works", "working", "employed"])
STATUS: Final = (
    frozenset(["single", "married", "divorced", "engaged", "widowed", "separated", "unmarried"]),
    frozenset(["employed", "unemployed", "retired"]),
)
LANGUAGES: Final = frozenset(
    ["english", "chinese", "french", "german", "spanish", "japanese", "korean", "italian", "portuguese", "russian", "mandarin", "cantonese", "arabic"]
)

SYNONYMS: Final = _classes(
    "answer reply response", "brief short concise terse", "car automobile", "movie film", "motorbike motorcycle",
    "bike bicycle", "rock boulder", "begin start commence", "photo picture", "use utilise utilize", "job occupation profession",
    "colour color", "licence license", "phone telephone", "shop store", "flat apartment", "holiday vacation",
    "talk chat speak", "place put", "physician doctor_", "purchase buy_", "database db", "k8s kubernetes",
    "postgresql postgres", "js javascript", "own have has having", "street road", "plane airplane aircraft", "food meal",
    "throw hurl", "wedding marriage", "pause stop_", "clean cleanse", "trick stunt", "beach seashore", "hit strike knock",
    "frighten scare", "look watch", "jump leap", "glad happy_", "ill sick", "city town", "present gift", "trousers pants",
    "autumn fall_", "lift elevator", "rubbish trash garbage", "sofa couch", "finish complete", "fix repair mend",
    "choose pick_", "help assist", "shut close_", "require need_", "reside live_", "several few_", "quick rapid", "big_ large_",
    "programme program", "favourite favorite", "organise organize", "centre center", "metre meter", "behaviour behavior",
    "father_ dad_", "study learn_", "mail email", "noodle pasta_", "infant baby_", "university college", "hike trek",
)  # fmt: skip
"""Everyday words of one meaning; the first is what is compared. A trailing _ keeps a word of several meanings out."""
