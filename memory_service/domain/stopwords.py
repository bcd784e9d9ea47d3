# ruff: noqa: SIM905 - lists of words are read and changed as text
"""Words that carry no content. Data of `keywords`; nothing is decided here.

Written for this project from grammar: articles, pronouns, auxiliaries, question words, particles. Negations of Chinese
are not among them, for a bigram with one says something else than one without.
"""

from typing import Final

ENGLISH: Final = frozenset(
    """a an the this that these those here there
    i me my mine myself we us our ours ourselves you your yours yourself he him his himself she her hers herself
    it its itself they them their theirs themselves one ones someone something anyone anything
    am is are was were be been being do does did doing done have has had having
    will would shall should can could may might must ought
    don doesn didn isn aren wasn weren won wouldn shan shouldn couldn mightn mustn haven hasn hadn ain
    and or but nor so yet if then than because as while until of at by for with about into onto through during before
    after to from in out on off over under again once between against
    what which who whom whose when where why how
    all any both each few more most other some such no not only own same too very just also even ever
    please tell let get got go going like""".split()
)

EUROPEAN: Final = frozenset(
    """le la les un une des du de et ou qui que quoi quel quelle quels quelles mon ma mes ton ta tes sa ses notre nos
    votre vos leur leurs je tu il elle nous vous ils elles ce cet cette ces dans sur avec sans pas ne au aux en par est
    suis sont avons avez ont comment pourquoi quand
    der das und ist ich wir ihr ein eine einen einem einer nicht mit auf von zu im den dem wo wie wer wann warum mein
    meine dein deine bin sind hat haben
    el los las una y es del al por para mi su mis sus como donde cuando quien cual yo ella
    o os uma do da dos das em um meu minha onde quem qual
    il lo gli uno di che e dove quale mio mia sono""".split()
)
"""French, German, Spanish, Portuguese and Italian, accents folded, without what is a word of content in English (die,
war, son, par avion): so that a question in them can be answered by keyword alone."""

CHINESE_PHRASES: Final = tuple(
    """什么 怎么样 怎么办 怎么 怎样 如何 为什么 多少 几个 有没有 没有 可以 能不能 知道 告诉 一下 一个 一些 有些 因为
    所以 如果 但是 还是 或者 关于 对于 应该 需要 请问 现在 今天 昨天 明天 时候 用户 觉得 真的 已经 这样 那样 非常
    特别""".split()
)
"""At these a run of Chinese is cut. 用户 is how a memory speaks of its owner: it is in nearly all and says nothing."""

CHINESE_PARTICLES: Final = "的了是吗呢吧啊呀嘛么哦嗯我你您他她它们这那哪谁就也都很把被跟和与或及而且之"
"""At these too: particles, pronouns, conjunctions. Hardly any word of content reaches across one."""

CHINESE_WHOLE: Final = tuple(
    """成都 首都 京都 古都 都市 都江堰 吉他 其他 他汀 埃及 普及 和平 和服 和尚 柔和 暖和 共和 呼和浩特 被子 被套 棉被
    把手 就业 就医 成就 哪吒 目的地""".split()
)
"""Words of content that hold a particle; they are not cut."""

IDLE_ENGLISH: Final = frozenset(
    """a an the and or so well oh ah hm hmm mm mhm uh um er ok okay k kk yes yeah yep yup no nope nah sure fine right
    alright good great nice cool wow lol haha hi hey hello hiya bye goodbye thanks thank thx ty you please pls sorry
    why what when where who how really true indeed again continue next""".split()
)

IDLE_CHINESE: Final = tuple(
    """好 好的 嗯 哦 噢 啊 呃 呀 哎 唉 嘿 喂 哈 呵 嘻 行 可以 是 的 对 不 没有 没事 没关系 多谢 谢 感谢 你好 您好 大家好
    早 早安 早上好 晚上好 晚安 再见 拜 知道了 明白 收到 了解 当然 真的 为什么 为啥 什么 啥 怎么 怎么样 怎么办 请问 在吗
    吗 呢 吧 了 啦 你 您 继续 然后""".split()
)
"""What may make up a whole message that asks for nothing. 我 and 谁 are not here: 我是谁 asks for a memory."""
