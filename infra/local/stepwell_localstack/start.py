"""Starts LocalStack with this plugin. What the environment says already is left as it is."""

import os
import tempfile
import warnings

from stepwell_localstack import DYNAMODB_URL

DEFAULTS = {
    "GATEWAY_LISTEN": "127.0.0.1:4566",
    "LOCALSTACK_VOLUME_DIR": os.path.join(tempfile.gettempdir(), "stepwell-localstack"),
    DYNAMODB_URL: "http://127.0.0.1:8000",
    # Nothing leaves this machine: no name server, no usage figures, no certificate from elsewhere.
    "DNS_ADDRESS": "0",
    "DISABLE_EVENTS": "1",
    "SKIP_SSL_CERT_DOWNLOAD": "1",
    "LAMBDA_RUNTIME_EXECUTOR": "process",
    "PROVIDER_OVERRIDE_DYNAMODB": "http",
    "PROVIDER_OVERRIDE_DYNAMODBSTREAMS": "http",
    # An event source sleeps a second after each batch, and up to ten while its queue is empty: too long for tests.
    "LAMBDA_EVENT_SOURCE_MAPPING_POLL_INTERVAL_SEC": "0.05",
    "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC": "0.2",
}


def main() -> None:
    """Runs until a signal ends it."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    if not hasattr(warnings, "deprecated"):
        # Came with Python 3.13, and LocalStack's S3 asks for it.
        from typing_extensions import deprecated

        warnings.deprecated = deprecated
    # Reads the environment as it is imported.
    from localstack.runtime.main import main as run

    run()
