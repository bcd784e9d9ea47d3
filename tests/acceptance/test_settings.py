"""GetSettings and UpdateSettings through the public door, on a service of its own: what is refused, kept, followed."""

import base64
import json
from collections.abc import Iterator

import pytest

from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as admin
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from tests.acceptance.calls import (
    ABORTED,
    ADDED,
    DUPLICATE,
    INVALID,
    JWT,
    REPLACED,
    added,
    batch,
    bearer,
    draft,
    fields,
    recall,
    save,
    uuid_text,
)
from tests.acceptance.conftest import environment_of
from tests.service import Client, ServiceProcess, eventually, refused


@pytest.fixture(scope="module")
def environment(request: pytest.FixtureRequest, deployment: str) -> dict[str, str]:
    """Of the service under test, and of a second replica where the deployment has some: with the same keys."""
    keys = {"k1": base64.b64encode(b"k" * 32).decode()}
    return environment_of(request, deployment, **JWT, PALIMPSEST_KEYS__KEYS=json.dumps(keys))


@pytest.fixture(scope="module")
def process(environment: dict[str, str]) -> Iterator[ServiceProcess]:
    """The service under test."""
    with ServiceProcess(environment) as process:
        yield process


@pytest.fixture
def operator(process: ServiceProcess) -> Iterator[Client]:
    """Somebody with all rights, new with every test; afterwards all settings are the defaults again."""
    client = bearer(process.address, f"operator-{uuid_text()}")
    yield client
    client.close()
    last = bearer(process.address, "last")  # the test may have started the service anew
    change(last, dict.fromkeys(values(last), ""))
    last.close()


def settings(client: Client) -> admin.GetSettingsResponse:
    answer: admin.GetSettingsResponse = client.GetSettings(admin.GetSettingsRequest())
    return answer


def values(client: Client) -> dict[str, str]:
    return {setting.name: setting.value for setting in settings(client).settings}


def change(client: Client, new: dict[str, str], **more: str) -> admin.UpdateSettingsResponse:
    answer: admin.UpdateSettingsResponse = client.UpdateSettings(admin.UpdateSettingsRequest(values=new, **more))
    return answer


def test_every_setting_is_explained_and_none_is_a_secret(operator: Client) -> None:
    found = settings(operator).settings
    names = [setting.name for setting in found]
    assert names == sorted(names)
    assert {name.partition(".")[0] for name in names} == {"dedup", "recall", "eviction", "retention", "memory"}
    assert {"dedup.conflict_policy", "recall.dense_leg", "recall.min_similarity", "eviction.max_active"} < set(names)
    for setting in found:
        assert setting.description
        assert setting.value
        if setting.name != "recall.dense_leg":  # the deployment may have set that one
            assert setting.value == setting.default_value, setting.name
    assert settings(operator).etag


def test_what_is_given_back_as_it_was_changes_nothing(operator: Client) -> None:
    before = values(operator)
    change(operator, before)
    assert values(operator) == before


@pytest.mark.parametrize(
    ("new", "wanted"),
    [
        ({}, ["values"]),
        ({"eviction.cap": "9"}, ['values["eviction.cap"]']),
        ({"": "9"}, ['values[""]']),
        ({"eviction": "9"}, ['values["eviction"]']),
        ({"database_url": "sqlite:///x"}, ['values["database_url"]']),
        ({"auth.mode": "dev", "embedding.api_key": ""}, ['values["auth.mode"]', 'values["embedding.api_key"]']),
        ({"eviction.max_active": "0"}, ['values["eviction.max_active"]']),
        ({"eviction.max_active": "many"}, ['values["eviction.max_active"]']),
        ({"eviction.max_active": "2.5"}, ['values["eviction.max_active"]']),
        ({"eviction.max_active": "9" * 5000}, ['values["eviction.max_active"]']),
        ({"eviction.max_active": " "}, ['values["eviction.max_active"]']),
        ({"dedup.update": "nan"}, ['values["dedup.update"]']),
        ({"dedup.update": "-1", "recall.exact_limit": "x"}, ['values["dedup.update"]', 'values["recall.exact_limit"]']),
        ({"dedup.conflict_policy": "Guarded"}, ['values["dedup.conflict_policy"]']),
        ({"recall.recency_half_life_days": "0"}, ['values["recall.recency_half_life_days"]']),
        ({"recall.min_similarity": "0.4", "eviction.grace_hours": "inf"}, ['values["eviction.grace_hours"]']),
    ],
)  # fmt: skip
def test_one_bad_value_refuses_all(operator: Client, new: dict[str, str], wanted: list[str]) -> None:
    before = settings(operator)
    with refused(INVALID) as refusal:
        change(operator, new)
    assert sorted(fields(refusal)) == sorted(wanted)
    assert settings(operator) == before


def test_values_must_fit_each_other_also_with_what_is_set_already(operator: Client) -> None:
    with refused(INVALID) as refusal:
        change(operator, {"dedup.update": "0.9"})
    assert "dedup.update must not be above dedup.same_meaning" in refusal.details.message
    change(operator, {"dedup.update": "0.9", "dedup.same_meaning": "0.95"})
    for bad in ({"dedup.same_meaning": "0.85"}, {"dedup.same_meaning": ""}):
        with refused(INVALID):
            change(operator, bad)
    change(operator, {"dedup.update": "", "dedup.same_meaning": ""})
    assert (values(operator)["dedup.update"], values(operator)["dedup.same_meaning"]) == ("0.75", "0.85")


@pytest.mark.parametrize(
    ("given", "shown"),
    [("0.4", "0.4"), (" 0.40 ", "0.4"), ("4e-1", "0.4"), ("0.4" + "0" * 2000, "0.4"), ("1", "1.0"), ("-0.5", "-0.5")],
)
def test_a_value_has_one_form_however_it_is_written(operator: Client, given: str, shown: str) -> None:
    answer = change(operator, {"recall.min_similarity": given})
    [row] = [setting for setting in answer.settings if setting.name == "recall.min_similarity"]
    assert (row.value, row.default_value) == (shown, "0.3")
    assert values(operator)["recall.min_similarity"] == shown


def test_an_empty_text_sets_back_to_the_default(operator: Client) -> None:
    change(operator, {"eviction.max_active": "7", "recall.min_keyword": "0.9"})
    answer = change(operator, {"eviction.max_active": ""})
    found = {setting.name: setting.value for setting in answer.settings}
    assert (found["eviction.max_active"], found["recall.min_keyword"]) == ("200", "0.9")
    change(operator, {"eviction.max_active": ""})


def test_the_etag_guards_what_was_seen(operator: Client) -> None:
    first = settings(operator).etag
    second = change(operator, {"eviction.max_active": "7"}, etag=first).etag
    assert second != first
    for stale in (first, "0", "x" * 1000):
        with refused(ABORTED) as refusal:
            change(operator, {"eviction.max_active": "8"}, etag=stale)
        assert refusal.details.reason == "ETAG_MISMATCH"
    assert settings(operator).etag == second
    assert values(operator)["eviction.max_active"] == "7"
    assert change(operator, {"eviction.max_active": "8"}, etag=second).etag not in (first, second)


def test_a_repeat_changes_nothing_again(operator: Client) -> None:
    id, etag = uuid_text(), settings(operator).etag
    change(operator, {"eviction.max_active": "7"}, request_id=id, etag=etag)
    change(operator, {"eviction.max_active": "8"})
    change(operator, {"eviction.max_active": "7"}, request_id=id.upper(), etag=etag)
    assert values(operator)["eviction.max_active"] == "8"
    with refused(INVALID) as refusal:
        change(operator, {"eviction.max_active": "9"}, request_id="x")
    assert fields(refusal) == ["request_id"]


def test_a_request_id_with_other_arguments_is_refused(operator: Client) -> None:
    id = uuid_text()
    change(operator, {"eviction.max_active": "7"}, request_id=id)
    with refused(INVALID) as refusal:
        change(operator, {"eviction.max_active": "8"}, request_id=id)
    assert fields(refusal) == ["request_id"]


def test_an_operator_with_a_long_name_can_operate(process: ServiceProcess) -> None:
    """A token's subject may have 256 characters, twice what a user id has, where it acts for somebody."""
    scopes = ("memory:admin", "act_as")
    client = bearer(process.address, "o" * 256, scopes, act_for="ida")
    id = uuid_text()
    change(client, {"eviction.max_active": "9"}, request_id=id)
    change(client, {"eviction.max_active": ""})
    change(client, {"eviction.max_active": "9"}, request_id=id)
    assert values(client)["eviction.max_active"] == "200"
    job = client.Reconcile(admin.ReconcileRequest(request_id=id)).job
    assert client.Reconcile(admin.ReconcileRequest(request_id=id)).job.id == job.id
    other = bearer(process.address, "o" * 255 + "x", scopes, act_for="ida")
    assert other.Reconcile(admin.ReconcileRequest(request_id=id)).job.id != job.id
    for one in (client, other):
        one.close()


# That they count


def test_the_floor_of_recall_counts_from_the_next_call_on(operator: Client) -> None:
    added(operator, "他对花生过敏")
    assert len(recall(operator, "他不能吃什么")) == 1
    change(operator, {"recall.min_similarity": "1"})
    assert recall(operator, "他不能吃什么") == []
    assert len(recall(operator, "他不能吃什么", min_similarity=0.3)) == 1, "the caller's own comes first"
    change(operator, {"recall.min_similarity": ""})
    assert len(recall(operator, "他不能吃什么")) == 1


def test_the_thresholds_of_saving_count(operator: Client, process: ServiceProcess) -> None:
    first, same = "我有两个孩子", "我有两个小孩"
    added(operator, first)
    change(operator, {"dedup.max_tokens": "1"})
    assert save(operator, same).outcome == ADDED, "compared by the exact text only"
    change(operator, {"dedup.max_tokens": ""})
    other = bearer(process.address, f"other-{uuid_text()}")
    added(other, first)
    change(other, {"dedup.same_meaning": "1"})
    assert save(other, same).outcome != DUPLICATE
    change(other, {"dedup.same_meaning": ""})
    assert save(other, "我有两个小孩子").outcome == DUPLICATE
    other.close()


def test_the_literal_rule_can_be_chosen(operator: Client, process: ServiceProcess) -> None:
    """Whatever lies between the thresholds replaces: also what is another event."""
    drafts = [draft("订单 12345 已付款"), draft("订单 12346 已付款")]
    assert [r.outcome for r in batch(operator, drafts)] == [ADDED, ADDED]
    other = bearer(process.address, f"other-{uuid_text()}")
    change(other, {"dedup.conflict_policy": "threshold", "dedup.same_meaning": "1", "dedup.update": "0.5"})
    assert [r.outcome for r in batch(other, drafts)] == [ADDED, REPLACED]
    other.close()


def test_the_dense_leg_can_be_changed(operator: Client, deployment: str) -> None:
    added(operator, "他对花生过敏")
    indexed = deployment != "embedded"
    for leg in ("index", "auto"):
        change(operator, {"recall.dense_leg": leg})
        answer = operator.RecallMemories(pb.RecallMemoriesRequest(query="他不能吃什么"))
        wanted = pb.RECALL_LEG_INDEX if indexed and leg == "index" else pb.RECALL_LEG_EXACT
        assert list(answer.legs_used) == [wanted, pb.RECALL_LEG_KEYWORD]
        assert len(answer.hits) == 1
        assert not answer.degraded
    change(operator, {"recall.exact_limit": "0"})
    answer = operator.RecallMemories(pb.RecallMemoriesRequest(query="他不能吃什么"))
    assert answer.legs_used[0] == (pb.RECALL_LEG_INDEX if indexed else pb.RECALL_LEG_EXACT)


def test_settings_outlive_a_restart_and_reach_every_replica(
    operator: Client, process: ServiceProcess, environment: dict[str, str], deployment: str
) -> None:
    etag = change(operator, {"eviction.max_active": "7", "recall.min_keyword": "0.5"}).etag
    if deployment == "embedded":  # one process owns the record
        process.stop()
        process.start()
        again = bearer(process.address, operator.user)
        assert (values(again)["eviction.max_active"], settings(again).etag) == ("7", etag)
        again.close()
        return
    with ServiceProcess(environment) as replica:
        there = bearer(replica.address, operator.user)
        assert (values(there)["eviction.max_active"], settings(there).etag) == ("7", etag)
        batch(there, [draft(f"Order {n} was paid") for n in range(7)])
        change(operator, {"eviction.max_active": "3"})

        def followed() -> bool:  # a save shows it: GetSettings would read the record itself
            return len(save(there, f"Order {uuid_text()} was paid").evicted_ids) > 1

        eventually(followed, 5, "following")
        there.close()
