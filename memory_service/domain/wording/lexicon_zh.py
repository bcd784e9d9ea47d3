"""Chinese words that carry a value or none at all: closed classes only, as data. The twin of `lexicon_en`.

There is no word segmenter: what is listed is found by longest match, everything else is compared by the character.
`KEPT` protects words in which a character that would negate, count or judge does none of it.
"""

from typing import Final

from memory_service.domain.wording.wordlists import classes, poles, readings, words

KEPT: Final = words("""
    不错 不过 不但 不仅 不只 不管 不论 不同 不久 不断 不少 不客气 不好意思 不丹 不锈钢 不得了 不由 了不起 差不多
    对不起 没关系 没事 没准 没想到 无线 无论 无锡 无糖 无印良品 无人机 无花果 无名 无辣不欢 无缝 无损 无限
    无障碍 别墅 特别 区别 级别 性别 类别 分别 个别 告别 识别 鉴别 辨别 离别 差别 送别 别人 别的 别处 别名 别致
    未来 未婚妻 未婚夫 未成年 未央 爱人 爱尔兰 可爱 恋爱 爱奇艺 爱好 爱心 爱情 爱因斯坦 亲爱 三明治 四川 五常
    二手 三亚 万一 千万 十分 百度 八卦 七夕 一般 一起 一直 一些 一下 一定 一样 统一 三星 九寨沟 六安 两者 一点
    唯一 一切 一家人 一边 一旦 一共 十堰 百货 千岛湖 万达 上海 上班 上学 上课 上线 上网 上大学 下班 下载 下厨
    下棋 左右 上下 下雨 下雪 后端 前端 前台 后台 前后 东西 南京 北京 西安 东京 南方 西湖 河北 河南 湖北 湖南
    广东 广西 山东 山西 海南 云南 西藏 东莞 南昌 南宁 济南 老师 老板 老家 老人 老虎 小学 小说 小时 小区 小组
    小米 小狗 小猫 大学 大家 大概 大理 大连 大夫 高兴 高血压 马上 方便 长沙 长春 长城 会议 会员 会计 社会 机会
    可能性 想象 思想 将军 要求 重要 主要 需要 应该 过敏 过程 过去式 通过 超过 过年 经过 难过 有限 有名 有趣 所有
    拥有 没有人 中国 中心 中医 中学 高中 初中 早餐 晚餐 早饭 午饭 晚饭 天气 春天 夏天 秋天 冬天 聊天 星期 学生
    学校 医生 先生 女生 男生 生日 花生 生活 公司 公园 公斤 公里 现在 详细 冗长 正式 随意 口语化
    """)
"""Whole words that are compared as they stand."""

FUNCTION: Final = words("""
    的 了 地 得 着 呢 吗 吧 啊 呀 也 就 都 还 很 挺 非常 十分 特别 真的 其实 这 那 这个 那个 是 为 于 有点
    目前 现在 如今 当前 已经 已 一直 来 给我 而且 并且 然后 所以 因为 比较 正在 正 上的 自己
    平时 一下 请
    """)
"""Words without which a statement says the same."""

SELF: Final = words("我 用户 本人 我自己 咱")

NEGATORS: Final = words("""
    不 没 没有 无 别 未 从不 从来不 从没 从未 再也不 不再 并不 并非 并没有 毫不 毫无 绝不 决不 勿 莫 非 不用
    戒了 戒掉了 戒 停止
    """)
"""`不用` is both *need not* and *do not use*; either way it negates."""
READ_AS: Final = readings("""
    不得不 = 必须
    不能不 = 必须
    不可不 = 必须
    不会不 = 会
    没有不 = 都
    无不 = 都
    不无 = 有
    不是不 =
    并非不 =
    并不是不 =
    不是没有 = 有
    不是没 =
    不仅仅 =
    不单 =
    不光 =
    不一定 = 也许
    未必 = 也许
    没法 = 不能
    无法 = 不能
    不是 = 不
    没有 = 没有
    没办法 = 不能
    没有办法 = 不能
    """)
"""Two negations that make an affirmation, and fixed expressions; what is read in their place."""

POLES: Final = poles("""
    like: 喜欢 爱 喜爱 热爱 偏爱 钟爱 爱上 / 讨厌 恨 厌恶 反感 憎恨 痛恨 嫌弃
    allow: 允许 准许 许可 容许 / 禁止 严禁 不准 不许 禁
    agree: 同意 赞成 支持 赞同 / 反对
    accept: 接受 愿意 / 拒绝
    enable: 开启 启用 打开 / 关闭 禁用 关掉 停用
    trust: 相信 信任 / 怀疑
    """)

SIDES: Final = classes("""
    左 左边 左手 左侧; 右 右边 右手 右侧; 之前 前; 之后 后 以后; 最多 至多 不超过; 最少 至少; 买; 卖;
    测试 测试环境; 生产 生产环境; 上传; 导入; 导出; 借给; 输给; 赢了
    """)
"""Directions and opposites of which either is a statement of its own: one text has it, so must the other."""

QUALITIES: Final = classes("""
    上面 上方; 下面 下方; 里 里面 内; 外 外面; 东 东边; 西 西边; 南 南边 南部; 北 北边 北部; 西北部; 东北部;
    大 巨大; 小; 高; 低; 长; 短; 早; 晚; 冷; 热; 多; 少; 从; 到; 往; 上涨 上升 涨 升高 增加;
    下跌 下降 跌 降低 减少; 跌至 降至; 升至 涨至; 进; 出; 红 红色; 蓝 蓝色; 绿 绿色; 黄色; 白 白色; 黑 黑色;
    灰 灰色; 粉 粉色; 紫 紫色; 棕 棕色; 木; 年轻; 年老; 胖; 瘦; 开; 关; 甜; 酸; 苦; 辣; 咸; 快; 慢; 新; 旧; 难;
    容易; 好; 坏
    """)
"""Sizes, colours and such: one more or less is a detail, but one in the place of another is another statement."""

KIN: Final = classes("""
    妈妈 母亲 妈 老妈; 爸爸 父亲 爸 老爸; 儿子; 女儿 闺女; 哥哥 哥; 弟弟 弟; 姐姐 姐; 妹妹 妹;
    妻子 老婆 太太 媳妇 爱人; 丈夫 老公 先生; 女朋友 女友; 男朋友 男友; 奶奶; 爷爷; 外婆 姥姥; 外公 姥爷; 叔叔;
    阿姨; 舅舅; 姑姑; 表哥; 表弟; 表姐; 表妹; 老板; 领导; 同事; 朋友; 邻居; 室友; 他; 她; 他们; 她们; 我们 咱们;
    你; 团队; 公司; 客户; 男人 男子 男士; 女人 女子 女士; 男孩; 女孩; 孩子 小孩 娃 小朋友 小孩子; 父母 爸妈;
    老师 教师; 医生 大夫; 狗 小狗; 猫 小猫; 人 人类; 同学
    """)

GENERIC: Final = words("人 孩子")
"""Subjects that a nearer word may stand for without contradiction."""

TENSE: Final = classes("""
    以前 曾经 曾 过去 原来 小时候 从前 当初 原先; 打算 计划 准备 将要 即将; 想 想要 希望 想去;
    也许 可能 大概 或许 说不定 好像; 如果 假如 要是
    """)

MODAL: Final = classes("""
    必须 一定要 务必 得要; 应该 应当; 可以 能 能够 可; 会
    """)

AMOUNT: Final = classes("""
    总是 总 老是; 通常 一般 大多; 经常 常常 时常 常 常去; 有时 偶尔 有时候; 很少 难得; 只 仅 只有 唯一;
    所有 全部 全; 大部分; 每天 天天 每日; 每周 每星期; 每月 每个月; 每年; 之一; 每; 又 再; 除了; 几乎;
    大约 约 左右
    """)

EVENT_MARKS: Final = words("刚 刚才 刚刚 刚好 那次 这次 上次 下次")
EVENT_NOUNS: Final = words("""
    订单 快递 单号 发票 账单 退款 转账 付款 支付 包裹 运单 航班 车票 机票 预约 会议 体检 面试 旅行 出差 交易
    充值 实验
    """)
EVENT_VERBS: Final = words("""
    买 花了 花 付 付了 订了 卖 收到 寄 跑了 走了 吃了 喝了 看了 去了 订 下单 捐 转 赔 丢 弄丢
    """)
ID_NOUNS: Final = words("""
    订单 编号 号码 单号 工号 学号 电话 手机号 房间 房 航班 车次 座位 账号 卡号 发票 车牌 门牌 第 号楼 登机口
    楼层 章 页 期 批次 轮 次 班 组 任务 工单 票 密码 验证码 端口
    """)
STATIVE: Final = words("""
    有 是 为 养 养了 重 高 体重 身高 月薪 年薪 工资 预算 今年 超时 时间 上限 下限 限制 数量 规模 人数 共 约 用
    需要 每 年龄 阈值 温度 容量 目标 房租 血压 度数 单价 价格 工龄 配额 带宽 收入 存款 学费 分辨率
    """)
USE_VERBS: Final = words("用 使用 采用 升级到 跑在 运行在 部署在 是 换成 基于 装 开")

SLOTS: Final = words("""
    房租 租金 学费 收入 存款 名字 姓名 老家 家乡 籍贯 出生地 公司 单位 雇主 工作 职业 职位 职务 岗位 城市 时区
    国籍 身高 体重 年龄 月薪
    年薪 工资 预算 数据库 编辑器 操作系统 系统 浏览器 框架 手机 电脑 笔记本 车 昵称 网名 用户名 邮箱 地址 专业
    学校 大学 母语 缓存 消息队列 前端 后端 血型 星座 信仰 主题 引擎 平台 云服务商 单位制 货币 语气 语言 模式
    目标 上限 超时 主力语言 技术栈 输入法 型号 学历 状态
    """)
SLOT_MARKS: Final = words("最喜欢 最爱 最喜爱 默认 首选 主力 主要 当前 常用 唯一 最常用 最擅长")
LIVE: Final = words("""
    住在 居住在 定居在 定居于 家在 住 老家在 家乡在 出生在 出生于 来自 搬到 搬到了 搬去
    """)
WORK_ENDS: Final = words("工作 上班 任职 就职 供职 当老师 实习")
ORGANISATION: Final = words("""
    公司 集团 科技 银行 大学 医院 学院 中学 小学 出版社 研究院 研究所 事务所 工作室 部 组 局 厂 报社 电视台 学校
    基金
    """)
"""What a name of an employer ends in."""
COMPANIES: Final = words("""
    腾讯 阿里 阿里巴巴 百度 字节跳动 字节 美团 京东 华为 小米 网易 拼多多 滴滴 快手 哔哩哔哩 携程 蚂蚁 蚂蚁集团
    微软 谷歌 苹果 亚马逊 英特尔 英伟达 特斯拉 比亚迪 联想 中兴 大疆 小红书 新浪 搜狐 知乎 商汤 科大讯飞 格力
    海尔 海康威视 宁德时代 三星 索尼 西门子 顺丰 万科 招商银行 工商银行 建设银行 中国移动 中国电信 中国联通 平安
    蔚来 理想 小鹏 微博 豆瓣 脸书
    """)
STATUS: Final = (
    words("单身 已婚 未婚 离异 订婚"),
    words("在职 离职 退休 待业 失业"),
)
LANGUAGES: Final = words("""
    中文 英文 英语 汉语 法语 日语 日文 韩语 德语 俄语 西班牙语 粤语 普通话 法文 德文 韩文
    """)
STYLES: Final = (words("简洁 详细 冗长"), words("正式 随意 口语化"))
"""Manners of an answer that exclude each other."""
REPLY: Final = words("回复 回答 交流 沟通 答复 对话")

SYNONYMS: Final = classes("""
    简洁 简短 精简 精炼; 已婚 结婚 成家; 离异 离婚; 旅游 旅行; 害怕 怕; 用 使用 采用; 回答 回复 答复;
    叫 名叫 名字叫 名字是; 常用 主用; 工作 上班;
    读书 上学 念书; 家里 家中; 狗狗 小狗; 双休日; 电影 影片; 地铁 轨道交通; 做饭 烧饭 下厨; 锻炼 健身;
    开车 驾车; 缘故 原因; 绿茶; 住在 居住在 家在 住; 压力; 给 为 替; 常常 经常; 跳 跳跃 蹦跳; 切 切开;
    玩 玩耍; 奔跑 跑; 作为 当作 当 做; 小时 钟头; 部署在 部署于; 希望 想要; 网上 线上
    """)
SURNAMES: Final = frozenset("""
    王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜戴
    夏钟汪田任姜范方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段雷钱汤尹黎易常武乔贺赖龚文欧
    """) - frozenset(" \n")
