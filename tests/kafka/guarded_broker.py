"""A real Kafka broker with authentication and authorization: users log in with SASL PLAIN, and ACLs restrict them.

The tests use the listener without a login. Its anonymous user is a super user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # the module defines them but does not export them
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.kafka.broker import wait_until
from tests.kafka.child_process import free_port
from tests.kafka.real_broker import CALL_S, RealBroker

PASSWORD = "a-password-of-the-tests"
USERS = ("rag-worker", "gateway", "stranger")
MECHANISM = "PLAIN"


_ANY_NAME: Any = None  # None matches any name, which the type stubs do not allow
_EVERY_ACL = AclBindingFilter(
    ResourceType.ANY, _ANY_NAME, ResourcePatternType.ANY, _ANY_NAME, _ANY_NAME, AclOperation.ANY, AclPermissionType.ANY
)


class GuardedBroker(RealBroker):
    """`bootstrap` is the listener of the tests. `guarded` is the listener where users log in with `login`."""

    def __init__(self, topics: Mapping[str, int] | None = None) -> None:
        super().__init__(topics)
        self._guarded_port = free_port()
        self.guarded = f"127.0.0.1:{self._guarded_port}"

    @staticmethod
    def login(user: str) -> dict[str, str]:
        """Return the user's settings for KAFKA_CONFIG."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": PASSWORD,
        }

    def allow(self, user: str, operation: str, kind: str, name: str) -> None:
        """Like `kafka-acls.sh --add`. `kind` is topic, group or cluster. The ACL is in effect when this returns."""
        add_acl(self._admin(), f"User:{user}", operation, kind, name)

    def forget_rights(self) -> None:
        """Delete all ACLs, so that no user may do anything."""
        admin = self._admin()
        for future in admin.delete_acls([_EVERY_ACL], request_timeout=CALL_S).values():
            future.result(CALL_S)
        wait_until(lambda: not _all(admin), "the ACLs to go")

    def _settings(self) -> dict[str, object]:
        settings = super()._settings()
        users = " ".join(f'user_{user}="{PASSWORD}"' for user in USERS)
        return {
            **settings,
            "listeners": f"{settings['listeners']},SASL_PLAINTEXT://{self.guarded}",
            "advertised.listeners": f"{settings['advertised.listeners']},SASL_PLAINTEXT://{self.guarded}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": MECHANISM,
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "false",
        }


def add_acl(admin: AdminClient, principal: str, operation: str, kind: str, name: str) -> None:
    """The ACL is in effect when this returns."""
    binding = _binding(principal, operation, kind, name)
    for future in admin.create_acls([binding], request_timeout=CALL_S).values():
        future.result(CALL_S)
    wait_until(lambda: binding in _all(admin), "an ACL to hold")


def _all(admin: AdminClient) -> list[AclBinding]:
    found: list[AclBinding] = admin.describe_acls(_EVERY_ACL, request_timeout=CALL_S).result(CALL_S)
    return found


def _binding(principal: str, operation: str, kind: str, name: str) -> AclBinding:
    resource = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "cluster": ResourceType.BROKER}[kind]
    return AclBinding(
        resource, name, ResourcePatternType.LITERAL, principal, "*", _operation(operation), AclPermissionType.ALLOW
    )


def _operation(name: str) -> AclOperation:
    """Return the operation for a name of Kafka's own tool, for example `DescribeConfigs`."""
    plain = name.replace("_", "").upper()
    return next(operation for operation in AclOperation if operation.name.replace("_", "") == plain)
