"""Our Kafka worker against a loop written by hand, on librdkafka's mock cluster. Prints JSON; started by run.py."""

from benchmarks.kafka_parts import measure, tell
from benchmarks.kafka_runs import TOPICS
from tests.kafka.mock_cluster import MockCluster

if __name__ == "__main__":
    tell(measure(lambda: MockCluster(TOPICS)))
