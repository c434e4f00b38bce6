"""The Kafka client of `kafka send` and `kafka tail`, on the mock cluster."""

from contextlib import closing

from tests.kafka.mock_cluster import MockCluster

from modules.llm_platform.presentation.kafka.admin.dev_client import Cluster, OutcomeTail, send_request

PATIENCE_S = 60.0
RESULTS, FAILED = "rag_search_result", "rag_failed"


def test_outcomes_of_topics_that_are_created_later_are_read() -> None:
    """Topics that are created after the start are read. Each outcome of the other topics is returned once."""
    with MockCluster({FAILED: 1}) as broker:
        cluster = Cluster([broker.bootstrap], broker.client)
        send_request(cluster, FAILED, b"before", None, {})
        with closing(OutcomeTail(cluster)) as tail:
            outcomes = tail.outcomes(PATIENCE_S)
            send_request(cluster, FAILED, b"first", None, {})
            assert next(outcomes).value == b"first"
            send_request(cluster, RESULTS, b"created", None, {})
            assert next(outcomes).value == b"created"
            for topic in (FAILED, RESULTS):
                send_request(cluster, topic, b"last", None, {})
            assert {(outcome.topic, outcome.value) for outcome in (next(outcomes), next(outcomes))} == {
                (FAILED, b"last"),
                (RESULTS, b"last"),
            }


def test_all_outcome_topics_may_be_created_later() -> None:
    """On a new cluster no outcome topic exists until the first request is answered."""
    with MockCluster({"rag_search_request": 1}) as broker:
        cluster = Cluster([broker.bootstrap], broker.client)
        with closing(OutcomeTail(cluster)) as tail:
            send_request(cluster, RESULTS, b"created", None, {})
            assert next(tail.outcomes(PATIENCE_S)).value == b"created"
