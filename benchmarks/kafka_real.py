"""Our Kafka worker against a loop written by hand, on Apache Kafka. Prints JSON, {} without its jars; see run.py."""

from benchmarks.kafka_parts import tell
from benchmarks.kafka_runs import TOPICS
from tests.kafka.real_broker import FAST, JARS, RealBroker

if __name__ == "__main__":
    if (JARS / ".ready").exists():
        tell(lambda: RealBroker(TOPICS, jvm=FAST))
    else:
        print("{}")
