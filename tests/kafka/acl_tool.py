"""Adds an ACL. Takes the arguments of Kafka's `kafka-acls.sh`, because the tests do not download its jar."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from confluent_kafka.admin import AdminClient
from tests.kafka.guarded_broker import add_acl


def main(arguments: Sequence[str]) -> None:
    """Invalid arguments end the process, as in `kafka-acls.sh`."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--command-config", required=True)
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--allow-principal", required=True)
    parser.add_argument("--operation", required=True)
    resource = parser.add_mutually_exclusive_group(required=True)
    for kind in ("topic", "group"):
        resource.add_argument(f"--{kind}")
    options = parser.parse_args(arguments)
    kind, name = ("topic", options.topic) if options.topic else ("group", options.group)
    admin = AdminClient({"bootstrap.servers": options.bootstrap_server, "log_level": 0})
    add_acl(admin, options.allow_principal, options.operation, kind, name)
