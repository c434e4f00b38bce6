"""A real Kafka broker with ACLs and the listeners of deploy/kafka: one takes client certificates, one takes SCRAM over TLS.

Its certificate names localhost and does not name 127.0.0.1. The tests' own listener has no login.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion  # type: ignore[attr-defined]  # the module defines them but does not export them
from tests.kafka.broker import ROOT
from tests.kafka.child_process import free_port
from tests.kafka.guarded_broker import add_acl
from tests.kafka.real_broker import CALL_S, RealBroker

DEPLOY = ROOT / "deploy" / "kafka"
HOST = "localhost"
DOCUMENTED_HOST = "kafka.example.org"
USER, PASSWORD, KEY_PASSWORD = "rag-worker", "a password of the tests", "another of the key"
MECHANISMS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
ITERATIONS = 4096  # the smallest number that Kafka accepts
_PLAIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'


class SecureBroker(RealBroker):
    """`ssl_port`, `sasl_port`: the ports of the documented listeners in this test. `tls`: the folder of certificates.sh."""

    def __init__(self, topics: Mapping[str, int] | None = None) -> None:
        super().__init__(topics)
        self.ssl_port, self.sasl_port = free_port(), free_port()
        self.tls = self._folder / "tls"
        self.other_tls = self._folder / "other-tls"

    def up(self) -> None:
        super().up()
        admin = self._admin()
        for mechanism in MECHANISMS.values():  # one request may change a user only once
            change = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, ITERATIONS), PASSWORD.encode())
            for future in admin.alter_user_scram_credentials([change], request_timeout=CALL_S).values():
                future.result(CALL_S)

    def allow(self, operation: str, kind: str, name: str) -> None:
        add_acl(self._admin(), f"User:{USER}", operation, kind, name)

    def adapt(self, text: str) -> str:
        """Replace the host, ports and folders of a documented file with the values of this test."""
        return (
            text.replace(f"{DOCUMENTED_HOST}:9093", f"{HOST}:{self.ssl_port}")
            .replace(f"{DOCUMENTED_HOST}:9094", f"{HOST}:{self.sasl_port}")
            .replace("0.0.0.0:9093", f"127.0.0.1:{self.ssl_port}")
            .replace("0.0.0.0:9094", f"127.0.0.1:{self.sasl_port}")
            .replace(f"{DOCUMENTED_HOST}.pem", f"{HOST}.pem")
            .replace("/etc/kafka/tls", str(self.tls))
            .replace("/etc/llm-platform/tls", str(self.tls))
        )

    def make_certificates(self) -> None:
        """Make the broker's certificates and certificates of another CA, which the broker does not trust."""
        for folder in (self.tls, self.other_tls):
            subprocess.run(
                ["bash", str(DEPLOY / "certificates.sh"), str(folder), HOST],
                env={**os.environ, "WORKER_KEY_PASSWORD": KEY_PASSWORD},
                check=True,
                capture_output=True,
            )

    def _format(self) -> None:
        self.make_certificates()
        super()._format()

    def _settings(self) -> dict[str, object]:
        ours: dict[str, object] = super()._settings()
        text = self.adapt((DEPLOY / "broker-security.properties").read_text("utf-8"))
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        documented = dict(line.split("=", 1) for line in lines)
        joined = {name: f"{ours[name]},{documented[name]}" for name in ("listeners", "advertised.listeners")}
        protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
        return {
            **ours,
            **documented,
            **joined,
            "listener.security.protocol.map": f"{protocols},{documented['listener.security.protocol.map']}",
            "inter.broker.listener.name": "PLAINTEXT",
            "super.users": "User:ANONYMOUS",
            "sasl.enabled.mechanisms": f"PLAIN,{documented['sasl.enabled.mechanisms']}",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": _PLAIN,
        }
